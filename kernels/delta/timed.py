"""List the delta walks of a model as problems to time, with their bytes and bars."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from kernels.common.problem import Bar, ModelSizes, Problem, Tile
from kernels.common.round import MAX_ROWS
from kernels.common.tree import TreePlan, plan_chain
from kernels.delta.gate import OutputGate
from kernels.delta.problems import bush, comb, fold_case, walk_case
from kernels.delta.rounds import Layer, Sizes, Tokens, draw_gate

GPU = "H200"
"""What bars are stated for; other GPUs are timed and not judged."""


@dataclass(frozen=True)
class Walked:
    """One walk to time: its name, its plan, its pending rows and its bar on a 27B's layer.

    ``gated``: it ends in the norm and gate of its outputs, as a round's does.
    """

    name: str
    plan: Callable[[int], TreePlan]
    pending: Callable[[int], int]
    bar: Callable[[int], float | None]
    gated: bool = False


def _half(rows: int) -> int:
    return max(1, rows // 2)


WALKS = (
    Walked("chain", plan_chain, _half, {1: 4.0, 16: 10.0}.get),
    Walked("chain, gated", plan_chain, _half, lambda _rows: None, gated=True),
    Walked("chain, all pending", plan_chain, lambda rows: rows, lambda _rows: None),
    Walked("chain, nothing pending", plan_chain, lambda _rows: 0, lambda _rows: None),
    Walked("comb", comb, _half, {16: 14.0}.get),
    Walked("bush", bush, _half, {16: 14.0}.get),
)


def timed(sizes: ModelSizes, rows: int) -> tuple[Problem, ...]:
    """Return the walks of a model's delta layer for up to 32 rows, and the fold alone."""
    if rows > MAX_ROWS:
        return ()
    heads = Sizes(
        sizes.num_key_heads, sizes.num_value_heads, sizes.key_head_dim, sizes.value_head_dim
    )
    of_27b = sizes.hidden_size == 5120
    shapes = WALKS if rows > 2 else (*WALKS[:2], WALKS[3])
    walks = (_walk(one, heads, rows, judged=of_27b) for one in shapes)
    return (*walks, _fold(heads, rows, _half(rows)))


def walk_bytes(sizes: Sizes, rows: int, pending: int) -> int:
    """Return the bytes a walk must move: the state read, and written where rows are pending.

    A row reads q, k, v, beta and decay and writes out and u; a pending one brings k, u and decay.
    """
    state = 4 * sizes.heads * sizes.key_dim * sizes.value_dim
    key, value = sizes.key_heads * sizes.key_dim, sizes.heads * sizes.value_dim
    row = 4 * 2 * key + (2 + 2 + 4) * value + 4 * 2 * sizes.heads
    folded = 4 * (key + value + sizes.heads)
    return state * (2 if pending else 1) + rows * row + pending * folded


def gate_bytes(sizes: Sizes, rows: int) -> int:
    """Return the bytes that a gate adds: z of each row, and the weight."""
    return 2 * sizes.value_dim * (rows * sizes.heads + 1)


def _walk(one: Walked, sizes: Sizes, rows: int, *, judged: bool) -> Problem:
    pending, limit = one.pending(rows), one.bar(rows) if judged else None
    shape = one.name if one.name in ("comb", "bush") else "chain"
    return Problem(
        name=f"walk, {one.name}, P={pending}",
        op="delta_walk",
        rows=rows,
        sizes={"G": sizes.key_heads, "H": sizes.heads, "D": sizes.key_dim, "E": sizes.value_dim},
        num_bytes=walk_bytes(sizes, rows, pending) + one.gated * gate_bytes(sizes, rows),
        make_calls=partial(_walks, sizes, one.plan(rows), pending, one.gated),
        case=walk_case(
            rows,
            sizes.key_heads,
            sizes.heads,
            shape=shape,
            pending=pending,
            key_dim=sizes.key_dim,
            value_dim=sizes.value_dim,
            weight=torch.bfloat16 if one.gated else None,
        ),
        bar=None if limit is None else Bar(max_us=limit, gpu=GPU),
    )


def _fold(sizes: Sizes, rows: int, pending: int) -> Problem:
    return Problem(
        name=f"fold alone, P={pending}",
        op="delta_fold",
        rows=rows,
        sizes={"G": sizes.key_heads, "H": sizes.heads, "D": sizes.key_dim, "E": sizes.value_dim},
        num_bytes=walk_bytes(sizes, 0, pending),
        make_calls=partial(_folds, sizes, pending),
        case=fold_case(
            1,
            sizes.key_heads,
            sizes.heads,
            pending,
            key_dim=sizes.key_dim,
            value_dim=sizes.value_dim,
        ),
    )


def _layers(sizes: Sizes, num_rows: int, pending: int, count: int, device: str) -> list[Layer]:
    """Make layers with pending rows of an earlier round, all of one draw."""
    generator = torch.Generator().manual_seed(0)
    first = Layer(sizes, device)
    first.verify(Tokens.draw(MAX_ROWS, sizes, device, generator), plan_chain(MAX_ROWS))
    first.accept(tuple(range(pending)))
    first.write(Tokens.draw(max(num_rows, 1), sizes, device, generator))
    layers = [first.copy() for _ in range(count)]
    for layer in layers:
        layer.follow(first)
    return layers


def _walks(
    sizes: Sizes, plan: TreePlan, pending: int, gated: bool, num_copies: int, device: str
) -> Sequence[Callable[[Tile], object]]:
    rows, generator = plan.num_nodes, torch.Generator().manual_seed(1)
    tokens = Tokens.draw(rows, sizes, device, generator)
    gate = draw_gate(rows, sizes, device, generator) if gated else None
    layers = _layers(sizes, rows, pending, num_copies, device)
    layers[0].load(plan)  # all layers share it
    outs = (torch.empty_like(tokens.v) for _ in layers)
    return [
        partial(_call_walk, layer, tokens, out, gate)
        for layer, out in zip(layers, outs, strict=True)
    ]


def _call_walk(
    layer: Layer, tokens: Tokens, out: torch.Tensor, gate: OutputGate | None, _tile: Tile
) -> object:
    return layer.walk(tokens, out, gate)


def _folds(
    sizes: Sizes, pending: int, num_copies: int, device: str
) -> Sequence[Callable[[Tile], object]]:
    return [partial(_call_fold, layer) for layer in _layers(sizes, 1, pending, num_copies, device)]


def _call_fold(layer: Layer, _tile: Tile) -> object:
    return layer.fold_again()
