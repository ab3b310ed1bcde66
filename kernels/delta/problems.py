"""Make the problems of the delta walk and fold: cases, and the calls that run them."""

from collections.abc import Sequence

import torch

from kernels.common import domain
from kernels.common.case import Case, Tensors, TensorSpec
from kernels.common.compare import Tolerance
from kernels.common.domain import Domain
from kernels.common.round import MAX_ROWS
from kernels.common.tree import TreePlan, depth_first, plan_chain, plan_tree
from kernels.delta.fold import delta_fold
from kernels.delta.gate import OutputGate
from kernels.delta.record import DeltaRecord
from kernels.delta.walk import delta_walk

TOLERANCE = Tolerance(
    0.0,
    0.0,
    "the truth's slack is the whole bound: it follows the length of each column's error through "
    "the roundings of every row, and holds the output's rounding to bf16",
)

HALVES = {"halves/2": 2, "rows/32": MAX_ROWS, "one/1": 1}
"""Sizes that every case has."""


def comb(num_rows: int) -> TreePlan:
    """Plan a comb: a chain where every row but the last has a leaf beside its next row."""
    return _planned([-1, *((row - 1) // 2 * 2 for row in range(1, num_rows))])


def bush(num_rows: int) -> TreePlan:
    """Plan a complete binary tree, which keeps as many states at once as any tree of its size."""
    return _planned([-1, *((row - 1) // 2 for row in range(1, num_rows))])


def _planned(parents: Sequence[int]) -> TreePlan:
    """Plan a tree whose rows stand in any order that has parents first."""
    order = depth_first(parents)
    place = {row: index for index, row in enumerate(order)}
    return plan_tree([-1, *(place[parents[row]] for row in order[1:])])


EPS = 1e-6
"""Added to the mean square of a head's outputs."""

PLANS = {"chain": plan_chain, "comb": comb, "bush": bush}


def walk_case(
    num_rows: int,
    key_heads: int,
    heads: int,
    *,
    shape: str = "chain",
    pending: int = 0,
    parity: int = 0,
    key_dim: int = 128,
    value_dim: int = 128,
    values: Domain = domain.NORMAL,
    decays: Domain | None = None,
    weight: torch.dtype | None = None,
    cuda_only: bool = False,
) -> Case:
    """Make a case of delta_walk.

    Args:
        num_rows: T. The rows' axis is named R: a row that follows another does not stand alone.
        key_heads: G.
        heads: H.
        shape: key of `PLANS`.
        pending: rows to fold, 0 to 32, drawn in order from the other half.
        parity: half that the walk writes.
        key_dim: D.
        value_dim: E.
        values: of v and the state.
        decays: what rows leave of the state; None for a gate's usual values.
        weight: of the norm before the output's gate; None walks without a gate.
        cuda_only: too large for a CPU.
    """
    plan, decays = PLANS[shape](num_rows), decays or DECAYS
    sizes = {"R": num_rows, "G": key_heads, "H": heads, "D": key_dim, "E": value_dim, **HALVES}
    fp32 = torch.float32
    return Case(
        "delta_walk",
        sizes,
        (
            TensorSpec("v", ("R", "H", "E"), torch.bfloat16, values),
            TensorSpec("q", ("R", "G", "D"), fp32, _unit("query", key_dim**-0.5)),
            TensorSpec("beta", ("R", "H"), fp32, BETAS),
            TensorSpec("state", ("H", "D", "E"), fp32, values),
            *_record((), decays),
            *_pending(pending, parity),
            TensorSpec("saves", ("rows/32",), torch.int32, _listed(plan.saves)),
            TensorSpec("restores", ("rows/32",), torch.int32, _listed(plan.restores)),
            *(() if weight is None else _gate(weight)),
        ),
        (
            TensorSpec("out", ("R", "H", "E"), torch.bfloat16),
            TensorSpec("state_out", ("H", "D", "E"), fp32),
            TensorSpec("record_u_out", ("halves/2", "rows/32", "H", "E"), fp32),
        ),
        TOLERANCE,
        interpreted=False,
        cuda_only=cuda_only,
        note=f"{shape} P={pending} parity={parity} {decays.name}{' gated' if weight else ''}",
    )


def fold_case(
    num_layers: int,
    key_heads: int,
    heads: int,
    pending: int,
    *,
    key_dim: int = 128,
    value_dim: int = 128,
    cuda_only: bool = False,
) -> Case:
    """Make a case of delta_fold over some layers; arguments as of `walk_case`."""
    sizes = {"L": num_layers, "G": key_heads, "H": heads, "D": key_dim, "E": value_dim, **HALVES}
    return Case(
        "delta_fold",
        sizes,
        (
            TensorSpec("state", ("L", "H", "D", "E"), torch.float32, domain.NORMAL),
            *_record(("L",), DECAYS),
            *_pending(pending, 1),
        ),
        (TensorSpec("state_out", ("L", "H", "D", "E"), torch.float32),),
        TOLERANCE,
        interpreted=False,
        cuda_only=cuda_only,
        note=f"P={pending}",
    )


def run_walk(inputs: Tensors, outputs: Tensors, *, overlap: bool = False) -> None:
    """Call delta_walk on a case's tensors: on copies of what it writes in place.

    The rows of u that it must write are NaN before; all others must keep what they hold.
    """
    rows, u, k = inputs["q"].shape[0], inputs["record_u"], inputs["record_k"]
    halves = torch.arange(2, device=u.device)[:, None, None, None]
    places = torch.arange(MAX_ROWS, device=u.device)[None, :, None, None]
    written = (halves == inputs["parity"]) & (places < rows)
    outputs["record_u_out"].copy_(torch.where(written, torch.nan, u))
    outputs["state_out"].copy_(inputs["state"])
    delta_walk(
        inputs["q"],
        inputs["v"],
        inputs["beta"],
        outputs["state_out"],
        DeltaRecord(_no_raw(k), k, outputs["record_u_out"], inputs["record_decay"]),
        inputs["parity"],
        inputs["num_pending"],
        inputs["pending_rows"],
        inputs["saves"],
        inputs["restores"],
        out=outputs["out"],
        gate=gate_of(inputs),
        overlap=overlap,
    )


def gate_of(inputs: Tensors) -> OutputGate | None:
    """Return what follows the walk of a case, if anything does."""
    if "z" not in inputs:
        return None
    return OutputGate(inputs["z"], inputs["norm_weight"], EPS)


def run_fold(inputs: Tensors, outputs: Tensors) -> None:
    """Call delta_fold on a copy of a case's states."""
    outputs["state_out"].copy_(inputs["state"])
    k = inputs["record_k"]
    record = DeltaRecord(_no_raw(k), k, inputs["record_u"], inputs["record_decay"])
    delta_fold(
        outputs["state_out"],
        record,
        inputs["parity"],
        inputs["num_pending"],
        inputs["pending_rows"],
    )


def _no_raw(like: torch.Tensor) -> torch.Tensor:
    """Make a record's raw rows of no channels: neither function looks at them."""
    return like.new_empty((*like.shape[:-2], 0), dtype=torch.bfloat16)


def _gate(weight: torch.dtype) -> tuple[TensorSpec, ...]:
    return (
        TensorSpec("z", ("R", "H", "E"), torch.bfloat16, domain.normal("gates", 2.0)),
        TensorSpec("norm_weight", ("E",), weight, domain.NORMAL),
    )


def _record(layers: tuple[str, ...], decays: Domain) -> tuple[TensorSpec, ...]:
    halves, fp32 = (*layers, "halves/2", "rows/32"), torch.float32
    return (
        TensorSpec("record_k", (*halves, "G", "D"), fp32, _unit("key", 1.0)),
        TensorSpec("record_u", (*halves, "H", "E"), fp32, domain.NORMAL),
        TensorSpec("record_decay", (*halves, "H"), fp32, decays),
    )


def _pending(count: int, parity: int) -> tuple[TensorSpec, ...]:
    """Every row of the other half where all are pending; else the last ones, as paths have gaps."""
    rows = range(MAX_ROWS - count, MAX_ROWS)
    return (
        TensorSpec("parity", ("one/1",), torch.int32, _listed([parity])),
        TensorSpec("num_pending", ("one/1",), torch.int32, _listed([count])),
        TensorSpec("pending_rows", ("rows/32",), torch.int32, _listed(list(rows))),
    )


def _listed(values: Sequence[int]) -> Domain:
    """Make the domain of one list of whole numbers, with -1 behind."""

    def draw(shape: tuple[int, ...], _: torch.Generator) -> torch.Tensor:
        listed = torch.full(shape, -1.0)
        listed[: len(values)] = torch.tensor(values, dtype=torch.float32)
        return listed

    return Domain("listed", draw)


def _unit(name: str, length: float) -> Domain:
    """Make a domain of vectors of one length."""

    def draw(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        drawn = torch.randn(shape, generator=generator)
        return drawn / drawn.norm(dim=-1, keepdim=True) * length

    return Domain(name, draw)


def _draw_decays(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.exp(-torch.exp(2.0 * torch.randn(shape, generator=generator) - 3.0))


def _draw_extremes(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.tensor([0.0, 1.0, 2.0**-130, 0.5])[torch.randint(0, 4, shape, generator=generator)]


def _draw_betas(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    drawn = torch.sigmoid(2.0 * torch.randn(shape, generator=generator))
    return drawn.bfloat16().float()


DECAYS = Domain("gate", _draw_decays)
"""exp(g) of usual gates: half of them above 0.95, a few near 0."""

EXTREME_DECAYS = Domain("extreme", _draw_extremes)
"""All forgotten, nothing forgotten, what is left subnormal."""

BETAS = Domain("beta", _draw_betas)
