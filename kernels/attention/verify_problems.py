"""Make cases of decode and verify attention: a committed context and a chain or tree behind it.

Slots that no row attends to hold NaN, so that reading one shows. A case called with one row out of
its tree is the single step along that row's path: the path is laid into the slots of its positions
and all but the row itself are committed.
"""

import random
from dataclasses import replace
from functools import cache

import torch

from kernels.attention.compact import attention_compact
from kernels.attention.kv_cases import coded as coded_values
from kernels.attention.kv_cases import scale_specs, scales_of, slots_of, without_numbers
from kernels.attention.kv_codes import E4M3
from kernels.attention.verify import attention_verify
from kernels.attention.verify_tile import VerifyTile
from kernels.common import domain
from kernels.common.case import Case, Tensors, TensorSpec
from kernels.common.compare import Tolerance
from kernels.common.domain import Domain
from kernels.common.round import MAX_ROWS
from kernels.common.tree import TreePlan, depth_first, plan_chain, plan_tree

PERIOD = 1_048_573
"""Values drawn of a key/value store, a prime: no two slots hold the same."""

SPARE_SLOTS = 5
"""Slots behind the rows' own, all NaN."""

TOLERANCE = Tolerance(
    3.01 * 2.0**-8,
    2.0**-120,
    "slack: scores and weights (kernels/attention/verify_truth.py derives it); then three "
    "roundings to bf16: attention, sigmoid and their product",
)
COMPACT_TOLERANCE = Tolerance(0.0, 0.0, "values are moved, not computed")


def random_tree(num_nodes: int, seed: int) -> TreePlan:
    """Draw a tree: each row follows one of the few before it, or, for odd seeds, any."""
    chosen = random.Random(seed)
    first = [0 if seed % 2 else max(0, row - 4) for row in range(num_nodes)]
    parents = [-1, *(chosen.randrange(first[row], row) for row in range(1, num_nodes))]
    order = depth_first(parents)
    place = {old: new for new, old in enumerate(order)}
    return plan_tree([-1 if parents[old] < 0 else place[parents[old]] for old in order])


@cache
def plan_of(num_nodes: int, tree: int | None) -> TreePlan:
    """Return the chain, or the random tree of a seed."""
    return plan_chain(num_nodes) if tree is None else random_tree(num_nodes, tree)


def verify_case(
    rows: int,
    start: int,
    *,
    heads: int = 24,
    groups: int = 4,
    width: int = 256,
    tree: int | None = None,
    values: Domain = domain.NORMAL,
    coded: bool = False,
    cuda_only: bool = True,
) -> Case:
    """Make a case of attention_verify.

    Args:
        rows: T.
        start: committed positions.
        heads: query heads.
        groups: KV heads.
        width: of a head.
        tree: seed of a random tree; None for the chain.
        values: domain of queries, keys, values and gates.
        coded: keys and values are e4m3 codes.
        cuda_only: too large for a CPU.
    """
    plan = plan_of(rows, tree)
    bf16, used = torch.bfloat16, start + rows
    store = _store(coded_values(values) if coded else values, used)
    kind, scales = (E4M3, scale_specs(values)) if coded else (bf16, ())
    shape = "chain" if tree is None else f"tree {tree}"
    return Case(
        op="attention_verify",
        sizes={"T": rows, "start": start, "H": heads, "G": groups, "D": width,
               "S": used + SPARE_SLOTS, "HD/1": heads * width, "1/1": 1, "M/1": MAX_ROWS},
        inputs=(
            TensorSpec("q", ("T", "H", "D"), bf16, values),
            TensorSpec("keys", ("G", "S", "D"), kind, store),
            TensorSpec("values", ("G", "S", "D"), kind, store),
            *scales,
            TensorSpec("gate", ("T", "H", "D"), bf16, values),
            TensorSpec("start", ("1/1",), torch.int32, _given("start", torch.tensor([start]))),
            TensorSpec("depths", ("T",), torch.int32, _given("depths", _depths(plan))),
            TensorSpec("paths", ("T", "M/1"), torch.int32, _given("paths", _paths(plan))),
        ),
        outputs=(TensorSpec("out", ("T", "HD/1"), bf16),),
        tolerance=TOLERANCE,
        interpreted=False,
        cuda_only=cuda_only,
        note=f"{shape} e4m3" if coded else shape,
    )  # fmt: skip


def compact_case(
    rows: int, start: int, *, layers: int = 3, groups: int = 4, coded: bool = False
) -> Case:
    """Make a case of attention_compact, whose outputs are the stores moved, codes as bf16."""
    bf16 = torch.bfloat16
    kind, store = E4M3 if coded else bf16, replace(domain.NORMAL, period=PERIOD)
    path = plan_of(MAX_ROWS, 1).paths[-1][:rows]
    taken = torch.tensor([*path, *[0] * (MAX_ROWS - len(path))])
    axes = ("L", "G", "S", "D")
    return Case(
        op="attention_compact",
        sizes={"L": layers, "G": groups, "S": start + MAX_ROWS + 1, "D": 256, "P": MAX_ROWS,
               "start": start, "num": len(path), "1/1": 1},
        inputs=(
            TensorSpec("keys", axes, kind, store),
            TensorSpec("values", axes, kind, store),
            TensorSpec("start", ("1/1",), torch.int32, _given("start", torch.tensor([start]))),
            TensorSpec("num", ("1/1",), torch.int32, _given("num", torch.tensor([len(path)]))),
            TensorSpec("rows", ("P",), torch.int32, _given("rows", taken)),
        ),
        outputs=(TensorSpec("keys_out", axes, bf16), TensorSpec("values_out", axes, bf16)),
        tolerance=COMPACT_TOLERANCE,
        interpreted=False,
        note="e4m3" if coded else "",
    )  # fmt: skip


def run_verify(
    inputs: Tensors, outputs: Tensors, tile: VerifyTile | None = None, *, overlap: bool = False
) -> None:
    """Call attention_verify on a case's tensors, or on the single step of one of its rows."""
    inputs = inputs if not alone(inputs) else single_step(inputs, 0)
    attention_verify(
        *(inputs[name] for name in ("q", "keys", "values", "gate", "start", "depths", "paths")),
        max_context=inputs["keys"].shape[1] + MAX_ROWS,
        scales=scales_of(inputs),
        out=outputs["out"],
        tile=tile,
        overlap=overlap,
    )


def run_compact(inputs: Tensors, outputs: Tensors) -> None:
    """Call attention_compact on copies of a case's stores."""
    moved = {name: inputs[name].clone() for name in ("keys", "values")}
    attention_compact(
        moved["keys"], moved["values"], inputs["start"], inputs["num"], inputs["rows"]
    )
    for name, store in moved.items():
        outputs[f"{name}_out"].copy_(store)


def alone(inputs: Tensors) -> bool:
    """Say whether the one row of a call was taken out of the middle of its tree."""
    # one row is looked at only outside of a capture, where its depth may be waited for
    return inputs["q"].shape[0] == 1 and _deep(inputs["depths"])


def single_step(inputs: Tensors, row: int) -> dict[str, torch.Tensor]:
    """Return the inputs of the step that decodes a row when its path has been committed."""
    start, depth = int(inputs["start"]), int(inputs["depths"][row])
    own = start + inputs["paths"][row, : depth + 1].long()
    found = {name: inputs[name] for name in inputs if name.endswith("_scales")}
    found |= {name: inputs[name][row : row + 1] for name in ("q", "gate")}
    for name in ("keys", "values"):
        store = without_numbers(inputs[name])
        store[:, :start] = inputs[name][:, :start]
        store[:, start : start + depth + 1] = slots_of(inputs[name], own)
        found[name] = store
    found["start"] = inputs["start"] + depth
    for name in ("depths", "paths"):
        found[name] = torch.zeros_like(inputs[name][:1])
    return found


def _deep(depths: torch.Tensor) -> bool:
    capturing = depths.is_cuda and torch.cuda.is_current_stream_capturing()
    return not capturing and int(depths[0]) > 0


def _given(name: str, values: torch.Tensor) -> Domain:
    """Make the domain that holds one tensor."""
    return Domain(name, lambda _shape, _generator: values)


def _depths(plan: TreePlan) -> torch.Tensor:
    return torch.tensor(plan.depths)


def _paths(plan: TreePlan) -> torch.Tensor:
    return torch.tensor([[*path, *[0] * (MAX_ROWS - len(path))] for path in plan.paths])


def _store(values: Domain, used: int) -> Domain:
    """Make a domain of [G, S, D] whose slots from `used` on are NaN."""

    def draw(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        count = shape[0] * shape[1] * shape[2]
        drawn = values.draw((min(count, PERIOD),), generator)
        drawn = drawn.repeat(-(-count // drawn.numel()))[:count].view(shape)
        drawn[:, used:] = torch.nan
        return drawn

    return Domain(values.name, draw)
