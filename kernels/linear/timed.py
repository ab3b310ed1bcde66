"""List a model's matrix products as problems to time, with their bars, and how tiles are swept."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch

from kernels.common.case import Case, Tensors
from kernels.common.operands import ORDERS, Operands, operands_of
from kernels.common.peers import Peer, humming_product, library_product
from kernels.common.problem import Bar, ModelSizes, Problem, Row, Tile, Tunable
from kernels.common.round import MAX_ROWS
from kernels.linear import tile_choice
from kernels.linear.problems import product_case, run_skinny
from kernels.linear.skinny import is_spread_on, order_of, skinny_linear
from kernels.linear.tile import ROW_CLASSES, SkinnyProblem, SkinnyTile, SkinnyTiles
from kernels.linear.timed_prefill import timed_prefill
from kernels.linear.timed_weight import random_weight, weight_bytes
from kernels.linear.weight import Weight, num_bytes

GPU = "H200"
"""What bars are stated for; other GPUs are timed and not judged."""

WIDE = Bar(max_times_rows=(16, 1.25), min_speed_up={"humming": 1.0}, gpu=GPU)
WIDE_HEAD = Bar(max_times_rows=(16, 1.25), gpu=GPU)
HEAD = Bar(min_share=0.9, gpu=GPU)
PROOF_OUTPUTS = 256
"""Outputs of the case that is proven before a product is timed: the order of its sums is a matter
of K alone, and K is the product's own."""

ROWS_ALONE = ("head", "a and b")
"""Products that are timed without operands. Those of a mixer's outputs have them in the delta
layers, three of four."""

TUNED_ROWS = (1, 16, 24, 32)
"""Rows at which an entry is timed, one of each class; 1 stands for 1 to 8, as decode runs it."""


def timed(sizes: ModelSizes, rows: int) -> tuple[Problem, ...]:
    """Return every product of a model for up to 32 rows, in both formats, fused as in the engine.

    Above, the two largest of a prompt's chunk.

    Bars: shares of read bandwidth for the two largest and the outputs of the mixers, microseconds
    for the fused groups, a factor over humming-kernels for all others.
    """
    if rows > MAX_ROWS:
        return timed_prefill(sizes, rows)
    head = _upto(rows, HEAD, WIDE_HEAD)
    return (
        *_projections(sizes, rows, "nvfp4"),
        *_projections(sizes, rows, "fp8_block"),
        _problem("head", rows, sizes.vocab_size, sizes.hidden_size, "e4m3_row", head),
        _problem("head", rows, sizes.vocab_size, sizes.hidden_size, "bf16", head),
        _problem("a and b", rows, 2 * sizes.num_value_heads, sizes.hidden_size, "bf16", None),
    )


def _projections(sizes: ModelSizes, rows: int, name: str) -> tuple[Problem, ...]:
    hidden, middle = sizes.hidden_size, sizes.intermediate_size
    qkv = (
        2 * sizes.num_key_heads * sizes.key_head_dim + sizes.num_value_heads * sizes.value_head_dim
    )
    z = sizes.num_value_heads * sizes.value_head_dim
    q, k = 2 * sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim
    four = name == "nvfp4"
    large = Bar(min_share=0.70 if four else 0.85, gpu=GPU)
    other = Bar(min_speed_up={"humming": 1.5 if four else 1.15}, gpu=GPU)
    of_27b = hidden == 5120
    rest = (
        ("qkv and z", qkv + z, hidden, Bar(max_us=15.0 if four else 22.0, gpu=GPU)),
        ("q, k and v", q + 2 * k, hidden, Bar(max_us=13.1 if four else 19.2, gpu=GPU)),
        ("mixer out", hidden, z, Bar(min_share=0.60 if four else 0.75, gpu=GPU)),
        ("q", q, hidden, other),
        ("qkv", qkv, hidden, other),
        ("z", z, hidden, other),
        ("k", k, hidden, other),
    )
    return tuple(
        _problem(title, rows, N, K, name, _upto(rows, bar) if of_27b else None)
        for title, N, K, bar in (
            ("gate and up", 2 * middle, hidden, large),
            ("down", hidden, middle, large),
            *rest,
        )
    )


def _upto(rows: int, bar: Bar, wide: Bar = WIDE) -> Bar:
    """Return a bar where it is stated, for 1 to 16 rows, and the one of wide calls above."""
    return bar if rows <= 16 else wide


def _problem(title: str, rows: int, N: int, K: int, name: str, bar: Bar | None) -> Problem:
    logits = title == "head"
    proven = "skinny_logits" if logits else "skinny_linear"
    return Problem(
        name=f"{title} {N}x{K}",
        op="skinny_linear",
        rows=rows,
        sizes={"N": N, "K": K},
        num_bytes=weight_bytes(N, K, name) + 2 * rows * K + (4 if logits else 2) * rows * N,
        make_calls=partial(_make_calls, rows, N, K, name, logits, title not in ROWS_ALONE),
        case=product_case(proven, name, rows, PROOF_OUTPUTS, K, cuda_only=False),
        format_name=name,
        bar=bar,
        peers=_peers(rows, N, K, name),
    )


def _peers(rows: int, N: int, K: int, name: str) -> tuple[Peer, ...]:
    if name in ("nvfp4", "fp8_block"):
        return (humming_product(name, N, K, rows),)
    return (library_product(N, K, rows),)


def _make_calls(
    rows: int, N: int, K: int, name: str, logits: bool, ready: bool, num_copies: int, device: str
) -> Sequence[Callable[[Tile], object]]:
    spread = is_spread_on(device)
    x = torch.randn(rows, K, device=device, dtype=torch.bfloat16)
    dtype = torch.float32 if logits else torch.bfloat16
    out = torch.empty(rows, N, device=device, dtype=dtype)
    weights = [random_weight(N, K, name, device, spread=spread) for _ in range(num_copies)]
    assert num_bytes(weights[0]) == weight_bytes(N, K, name)
    order = order_of(weights[0]) if ready else None
    orders = [one for one in ORDERS if order is not None and one // 2 == order // 2]
    operands = {order: operands_of(x, order) for order in orders}
    return [partial(_call, x, operands, weight, out) for weight in weights]


def _call(
    x: torch.Tensor,
    operands: Mapping[int, Operands],
    weight: Weight,
    out: torch.Tensor,
    tile: SkinnyTile | None,
) -> None:
    """Multiply with overlap and from operands, as a round does."""
    tiles, ready = _all_rows(tile, x.shape[0]), operands.get(order_of(weight, tile) or 0)
    skinny_linear(x, weight, tiles=tiles, overlap=x.is_cuda, operands=ready, out=out)


def _all_rows(tile: SkinnyTile | None, rows: int) -> SkinnyTiles | None:
    """Let one tile serve a call: two launches of at most 16 rows where it serves no more."""
    if tile is None:
        return None
    return SkinnyTiles(tile, tile, tile if rows <= tile.most_rows else None)


def _run(inputs: Tensors, outputs: Tensors, tile: SkinnyTile | None) -> None:
    run_skinny(inputs, outputs, _all_rows(tile, inputs["x"].shape[0]))


def _key(problem: Problem) -> Row:
    sizes, rows = problem.sizes, _row_class(problem)
    return {"N": sizes["N"], "K": sizes["K"], "format": problem.format_name, "rows": rows}


def _row_class(problem: Problem) -> int:
    """Return the most rows of the launches that share the problem's entry."""
    return next(most for most in ROW_CLASSES if problem.rows <= most)


def _skinny_problem(key: Row) -> SkinnyProblem:
    return SkinnyProblem(key["N"], key["K"], key["format"], key["rows"])


def _capabilities() -> tuple[tuple[int, int], ...]:
    """Return the capability of the GPU that is here; where there is none, of all with a table."""
    return (torch.cuda.get_device_capability(),) if torch.cuda.is_available() else ((12, 1), (9, 0))


def _default(key: Row) -> SkinnyTile:
    return _candidates(key)[0]


def _candidates(key: Row) -> Sequence[SkinnyTile]:
    found = (tile_choice.candidates(_skinny_problem(key), one) for one in _capabilities())
    return tuple(dict.fromkeys(tile for tiles in found for tile in tiles))


def _case(problem: Problem) -> Case:
    N, K = min(problem.sizes["N"], PROOF_OUTPUTS), problem.sizes["K"]
    rows, name = _row_class(problem), problem.format_name
    return product_case("skinny_linear", name, rows, N, K, cuda_only=False)


TUNABLES = (
    Tunable(
        op="skinny_linear",
        rows=TUNED_ROWS,
        key=_key,
        key_fields=("N", "K", "format", "rows"),
        candidates=_candidates,
        default=_default,
        case=_case,
        run=_run,
        to_row=SkinnyTile.as_row,
        from_row=tile_choice.from_row,
    ),
)
