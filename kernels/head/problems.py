"""Make the problems of the head's choices: cases, and the calls that run them.

Proofs poison what is written with NaN, which no whole number is. So a case's ids are fp32 numbers,
exact below 2^24, NaN in the place of -1; the call itself writes int32 over a poison of its own.
"""

import torch

from kernels.common.case import Case, Tensors, TensorSpec
from kernels.common.compare import Tolerance
from kernels.common.domain import Domain
from kernels.head.op import argmax_logprob_rows, argmax_rows
from kernels.head.scratch import HeadScratch
from kernels.head.top import topk_rows

POISON = -7
"""What ids hold before a call: neither an id nor -1."""

EXACT = Tolerance(0.0, 0.0, "ids and logits are chosen by comparisons, which round nothing")
LOGPROB_TOLERANCE = Tolerance(
    2.0**-23,
    5.0e-6,
    "relative error of the sum, which the logarithm keeps: two exponentials off by 2 units in the "
    "last place, 4.8e-7; two differences rounded by 2^-24, whose mean under the distribution is at "
    "most its entropy, ln V <= 14: 1.7e-6; 18 levels of additions, 1.1e-6; then one rounding",
)


def _few(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw multiples of a half, so that a row's largest value occurs often, and both zeros."""
    return (torch.randn(shape, generator=generator) * 2).round() / 2


def _near_zero(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw +0 and -0 alone: every id is as good as the lowest."""
    return torch.zeros(shape) * torch.randn(shape, generator=generator).sign()


def _lonely(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw -inf everywhere but in every 37th place."""
    values = torch.randn(shape, generator=generator) * 5
    hidden = torch.arange(values.numel()).view(shape) % 37 != 0
    return values.masked_fill(hidden, -torch.inf)


def _negative(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return -(torch.randn(shape, generator=generator) * 4).abs()


def _apart(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Draw a large logit in every 64th place, so that the best k lie in k groups."""
    values = torch.randn(shape, generator=generator)
    values[..., 7::64] += 20
    return values


LOGITS = Domain("logits", lambda shape, generator: torch.randn(shape, generator=generator) * 4)
TIES = Domain("ties", _few)
ZEROS = Domain("zeros", _near_zero)
LONELY = Domain("lonely", _lonely)
NEGATIVE = Domain("negative", _negative)
APART = Domain("apart", _apart)


def case_of(
    op: str,
    rows: int,
    num_logits: int,
    values: Domain = LOGITS,
    *,
    k: int = 0,
    interpreted: bool = True,
    cuda_only: bool = False,
) -> Case:
    """Make a case of a choice: argmax_rows, argmax_logprob_rows or topk_rows with a k."""
    ids = TensorSpec("ids", ("T", "k") if k else ("T",), torch.float32)
    numbers = {
        "argmax_rows": (),
        "argmax_logprob_rows": (TensorSpec("logprobs", ("T",), torch.float32),),
        "topk_rows": (TensorSpec("values", ("T", "k"), torch.float32),),
    }[op]
    return Case(
        op,
        {"T": rows, "V": num_logits} | ({"k": k} if k else {}),
        (TensorSpec("logits", ("T", "V"), torch.float32, values),),
        (ids, *numbers),
        LOGPROB_TOLERANCE if op == "argmax_logprob_rows" else EXACT,
        interpreted,
        cuda_only,
    )


def scratch_for(logits: torch.Tensor) -> HeadScratch:
    """Make a scratch for logits [T, V], full of a key that would win every comparison."""
    scratch = HeadScratch(logits.shape[0], logits.shape[1], logits.device)
    scratch.keys.fill_(torch.iinfo(torch.int64).max)
    scratch.sums.fill_(torch.nan)
    return scratch


def run_argmax(inputs: Tensors, outputs: Tensors) -> None:
    """Call argmax_rows on a case's tensors."""
    logits = inputs["logits"]
    ids = torch.full((len(logits),), POISON, dtype=torch.int32, device=logits.device)
    argmax_rows(logits, logits.shape[1], ids=ids, scratch=scratch_for(logits))
    outputs["ids"].copy_(as_numbers(ids))


def run_logprob(inputs: Tensors, outputs: Tensors) -> None:
    """Call argmax_logprob_rows on a case's tensors."""
    logits = inputs["logits"]
    ids = torch.full((len(logits),), POISON, dtype=torch.int32, device=logits.device)
    argmax_logprob_rows(
        logits,
        logits.shape[1],
        ids=ids,
        logprobs=outputs["logprobs"],
        scratch=scratch_for(logits),
    )
    outputs["ids"].copy_(as_numbers(ids))


def run_top(inputs: Tensors, outputs: Tensors) -> None:
    """Call topk_rows on a case's tensors; the case's outputs say k."""
    logits, values = inputs["logits"], outputs["values"]
    ids = torch.full(values.shape, POISON, dtype=torch.int32, device=logits.device)
    topk_rows(logits, logits.shape[1], values=values, ids=ids, scratch=scratch_for(logits))
    outputs["ids"].copy_(as_numbers(ids))


def as_numbers(ids: torch.Tensor) -> torch.Tensor:
    """Turn ids into fp32 numbers, -1 into NaN."""
    return torch.where(ids == -1, torch.nan, ids.float())
