"""Make the problems of sampling: cases, and the call that runs them.

Proofs poison what is written with NaN, which no whole number is. So a case's ids are fp32 numbers,
exact below 2^24, NaN in the place of -1; the call itself writes int32 over a poison of its own. A
case's tables of depths and paths belong to its rows, so that a row taken alone keeps its place.
"""

from dataclasses import dataclass
from functools import partial

import torch

from kernels.common.case import Case, Tensors, TensorSpec
from kernels.common.compare import Tolerance
from kernels.common.domain import Domain
from kernels.common.family import Op
from kernels.common.round import MAX_ROWS
from kernels.sample.op import sample_rows
from kernels.sample.params import Method, SampleParams
from kernels.sample.reference import Filters
from kernels.sample.rows import SampleScratch, TreeRows
from kernels.sample.truth import truth_of_draw

POISON = -7
"""What ids hold before a call: neither an id nor -1."""

SEED = 0x5EED_1234_5678_9ABC
START = 70_000

SAME_ID = Tolerance(
    0.0,
    0.0,
    "an id is right or wrong; another one than the truth's takes two fp64 scores, or a mass and "
    "top_p, that agree to 10 digits, and these seeds have none",
)


@dataclass(frozen=True)
class Sampling:
    """One sampling that is checked: filters and both penalties."""

    filters: Filters
    presence: float = 0.0
    repetition: float = 1.0

    def op(self) -> Op:
        """Make the function and its truth."""
        penalties = (self.presence, self.repetition)
        truth = partial(truth_of_draw, filters=self.filters, penalties=penalties, seed=SEED)
        return Op(partial(run_sample, self), truth)


def _logits(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=generator) * 3


def _ties(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw whole numbers, so that every cut of a large vocabulary falls among equals."""
    return torch.randn(shape, generator=generator).mul(1.5).round()


def _flat(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=generator) * 1e-3


def _peaked(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw a few likely ids above many that are not, as a language model gives them."""
    values = torch.randn(shape, generator=generator) * 2 - 5
    values[..., 5::211] += 12
    return values


def _cold(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw logits below 0, which a repetition penalty multiplies."""
    return torch.randn(shape, generator=generator) - 20


def _lonely(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw -inf everywhere but in every 37th place."""
    values = torch.randn(shape, generator=generator)
    return values.masked_fill(torch.arange(shape[-1]) % 37 != 0, -torch.inf)


LOGITS, TIES, FLAT = Domain("logits", _logits), Domain("ties", _ties), Domain("flat", _flat)
PEAKED, LONELY = Domain("peaked", _peaked), Domain("lonely", _lonely)
COLD = Domain("cold", _cold)


def _whole(name: str, below: int) -> Domain:
    return Domain(name, lambda s, generator: torch.randint(below, s, generator=generator).float())


def _marks(name: str, share: float) -> Domain:
    return Domain(name, lambda s, generator: (torch.rand(s, generator=generator) < share).float())


def sample_case(
    op: str,
    rows: int,
    num_logits: int,
    values: Domain = LOGITS,
    *,
    interpreted: bool = True,
    cuda_only: bool = False,
) -> Case:
    """Make a case of a sampling; depths are drawn from 0 to 31, paths from all rows."""
    return Case(
        op,
        {"T": rows, "V": num_logits, "rows/32": MAX_ROWS, "1/1": 1},
        (
            TensorSpec("logits", ("T", "V"), torch.float32, values),
            TensorSpec("depths", ("T",), torch.int32, _whole("depths", MAX_ROWS)),
            TensorSpec("paths", ("T", "rows/32"), torch.int32, _whole("paths", MAX_ROWS)),
            TensorSpec("row_ids", ("rows/32",), torch.int32, _whole("row_ids", num_logits)),
            TensorSpec("seen", ("V",), torch.uint8, _marks("seen", 0.2)),
            TensorSpec("generated", ("V",), torch.uint8, _marks("generated", 0.1)),
            TensorSpec("start", ("1/1",), torch.int32, _whole("start", START)),
        ),
        (TensorSpec("ids", ("T",), torch.float32),),
        SAME_ID,
        interpreted,
        cuda_only,
    )


def tree_rows(inputs: Tensors) -> TreeRows:
    """Put a case's depths and paths into tables of 32 rows."""
    depths = torch.zeros_like(inputs["row_ids"])
    paths = depths.repeat(MAX_ROWS, 1)
    depths[: len(inputs["depths"])] = inputs["depths"]
    paths[: len(inputs["paths"])] = inputs["paths"]
    return TreeRows(inputs["start"], depths, paths, inputs["row_ids"], inputs["seen"],
                    inputs["generated"])  # fmt: skip


def scratch_for(logits: torch.Tensor) -> SampleScratch:
    """Make a scratch for logits [T, V], full of keys that would win every comparison."""
    scratch = SampleScratch(logits.shape[1], logits.device)
    for tensor in (scratch.maxima, scratch.brackets, scratch.sums, scratch.floors):
        tensor.fill_(torch.iinfo(torch.int64).max)
    scratch.winners.fill_(POISON)
    scratch.scores.fill_(torch.nan)
    scratch.targets.fill_(torch.nan)
    return scratch


def written(sampling: Sampling, num_ids: int, device: torch.device) -> tuple[SampleParams, Method]:
    """Write a sampling to a device."""
    params = SampleParams(device)
    method = params.write(sampling.filters, SEED, num_ids, sampling.presence, sampling.repetition)
    return params, method


def run_sample(sampling: Sampling, inputs: Tensors, outputs: Tensors) -> None:
    """Call sample_rows on a case's tensors."""
    logits = inputs["logits"]
    ids = torch.full((len(logits),), POISON, dtype=torch.int32, device=logits.device)
    params, method = _PARAMS(sampling, logits.shape[1], logits.device)
    sample_rows(logits, params, tree_rows(inputs), method=method, ids=ids,
                scratch=scratch_for(logits))  # fmt: skip
    outputs["ids"].copy_(torch.where(ids == -1, torch.nan, ids.float()))


class _Params:
    """Samplings that were written to a device: a capture may not copy from the host."""

    def __init__(self) -> None:
        self._made: dict[object, tuple[SampleParams, Method]] = {}

    def __call__(
        self, sampling: Sampling, num_ids: int, device: torch.device
    ) -> tuple[SampleParams, Method]:
        key = (sampling, num_ids, device)
        if key not in self._made:
            self._made[key] = written(sampling, num_ids, device)
        return self._made[key]


_PARAMS = _Params()
