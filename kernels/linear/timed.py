"""List a model's matrix products as problems to time, with their bars."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch

from kernels.common import gpu
from kernels.common.chips import has_wgmma
from kernels.common.operands import APART, ORDERS, STEP, Operands, new_operands, operands_of
from kernels.common.peers import Peer, humming_product, library_product
from kernels.common.problem import Bar, ModelSizes, Problem, Tile
from kernels.common.round import MAX_ROWS
from kernels.linear.problems import product_case
from kernels.linear.skinny import default_for, is_spread_on, order_of, skinny_linear
from kernels.linear.tile import ROW_CLASSES, SkinnyTile, SkinnyTiles
from kernels.linear.tile_choice import OP, PAIR_OP, PAIRED_FORMAT, paired_to
from kernels.linear.timed_prefill import timed_prefill
from kernels.linear.timed_weight import random_weight, weight_bytes
from kernels.linear.weight import Weight, num_bytes

GPU = "H200"
"""What bars are stated for; other GPUs are timed and not judged."""

WIDE = Bar(max_times_rows=(16, 1.25), min_speed_up={"humming": 1.0}, gpu=GPU)
WIDE_HEAD = Bar(max_times_rows=(16, 1.25), gpu=GPU)
HEAD = Bar(min_share=0.9, gpu=GPU)
PROOF_OUTPUTS = 256
"""Outputs that are proven before a product is timed: the order of its sums is a matter of K alone,
and K is the product's own."""


def timed(sizes: ModelSizes, rows: int) -> tuple[Problem, ...]:
    """Return every product of a model for up to 32 rows, by format, fused as in the engine.

    Those of the MTP head are among them. Above, the two largest of a prompt's chunk.

    Bars: shares of read bandwidth for the two largest and the outputs of the mixers, microseconds
    for the fused groups, a factor over humming-kernels for all others.
    """
    if rows > MAX_ROWS:
        return timed_prefill(sizes, rows)
    head = _upto(rows, HEAD, WIDE_HEAD)
    return (
        *(one for name in sizes.formats for one in _projections(sizes, rows, name)),
        _problem("head", rows, sizes.vocab_size, sizes.hidden_size, "e4m3_row", 1, head),
        _problem("head", rows, sizes.vocab_size, sizes.hidden_size, "bf16", 1, head),
        _problem("a and b", rows, 2 * sizes.num_value_heads, sizes.hidden_size, "bf16", 0),
        _problem("MTP in", rows, sizes.hidden_size, 2 * sizes.hidden_size, "bf16", 1),
    )


def _projections(sizes: ModelSizes, rows: int, name: str) -> tuple[Problem, ...]:
    hidden, middle = sizes.hidden_size, sizes.intermediate_size
    qkv = (
        2 * sizes.num_key_heads * sizes.key_head_dim + sizes.num_value_heads * sizes.value_head_dim
    )
    z = sizes.num_value_heads * sizes.value_head_dim
    q, k = 2 * sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim
    attended = sizes.num_heads * sizes.head_dim
    four = name == "nvfp4"
    large = Bar(min_share=0.70 if four else 0.85, gpu=GPU)
    other = Bar(min_speed_up={"humming": 1.5 if four else 1.15}, gpu=GPU)
    is_judged = hidden == 5120 and name in ("nvfp4", "fp8_block")
    delta, attention, every = sizes.num_delta_layers, sizes.num_attention_layers, sizes.num_layers
    outs = (
        (("mixer out", z, every),)
        if z == attended
        else (("delta out", z, delta), ("attention out", attended, attention))
    )
    mixed = Bar(min_share=0.60 if four else 0.75, gpu=GPU)
    rest = (
        ("qkv and z", qkv + z, hidden, delta, Bar(max_us=15.0 if four else 22.0, gpu=GPU)),
        ("q, k and v", q + 2 * k, hidden, attention, Bar(max_us=13.1 if four else 19.2, gpu=GPU)),
        *((title, hidden, width, calls, mixed) for title, width, calls in outs),
        ("q", q, hidden, 0, other),
        ("qkv", qkv, hidden, 0, other),
        ("z", z, hidden, 0, other),
        ("k", k, hidden, 0, other),
        ("MTP k and v", 2 * k, hidden, 1, None),
    )
    is_paired = name == PAIRED_FORMAT and rows <= max(map(paired_to, capabilities()))
    alone = tuple(
        _problem(title, rows, N, K, name, calls, _upto(rows, bar) if bar and is_judged else None)
        for title, N, K, calls, bar in (
            ("gate and up", 2 * middle, hidden, 0 if is_paired else every, large),
            ("down", hidden, middle, every, large),
            *rest,
        )
    )
    return (*alone, _pair(sizes, rows, name)) if is_paired else alone


def capabilities() -> tuple[tuple[int, int], ...]:
    """Return the capability of the GPU that is here; where there is none, of all with a table."""
    return (gpu.choices(),) if torch.cuda.is_available() else ((12, 1), (9, 0))


def _upto(rows: int, bar: Bar, wide: Bar = WIDE) -> Bar:
    """Return a bar where it is stated, for 1 to 16 rows, and the one of wide calls above."""
    return bar if rows <= 16 else wide


def _problem(
    title: str, rows: int, N: int, K: int, name: str, calls: int, bar: Bar | None = None
) -> Problem:
    logits = title == "head"
    proven = "skinny_logits" if logits else "skinny_linear"
    return Problem(
        name=f"{title} {N}x{K}",
        op=OP,
        rows=rows,
        sizes={"N": N, "K": K},
        num_bytes=weight_bytes(N, K, name) + 2 * rows * K + (4 if logits else 2) * rows * N,
        make_calls=partial(_make_calls, rows, N, K, name, logits),
        case=product_case(proven, name, rows, proof_outputs(N, rows), K, cuda_only=False),
        format_name=name,
        bar=bar,
        peers=_peers(rows, N, K, name),
        calls=calls,
    )


def _pair(sizes: ModelSizes, rows: int, name: str) -> Problem:
    """Return gate and up that end in one output, written as the next product's operands too."""
    N, K = 2 * sizes.intermediate_size, sizes.hidden_size
    return Problem(
        name=f"gate and up in one {N}x{K}",
        op=PAIR_OP,
        rows=rows,
        sizes={"N": N, "K": K},
        num_bytes=weight_bytes(N, K, name) + 2 * rows * (K + N // 2),
        make_calls=partial(_make_pair_calls, rows, N, K, name),
        case=product_case(
            PAIR_OP, name, rows, proof_outputs(N, rows, paired=True), K, cuda_only=False
        ),
        format_name=name,
        calls=sizes.num_layers,
    )


def proof_outputs(N: int, rows: int, *, paired: bool = False) -> int:
    """Return the outputs of the case that is proven before a product is timed.

    A few, but all of a pair past which activations stream: tiles are left over of that many alone.
    """
    streams = rows > ROW_CLASSES[1] and all(map(has_wgmma, capabilities()))
    return N if paired and streams else min(N, PROOF_OUTPUTS)


def _peers(rows: int, N: int, K: int, name: str) -> tuple[Peer, ...]:
    if name in ("nvfp4", "fp8_block"):
        return (humming_product(name, N, K, rows),)
    return (library_product(N, K, rows),)


def _make_calls(
    rows: int, N: int, K: int, name: str, logits: bool, num_copies: int, device: str
) -> Sequence[Callable[[Tile], object]]:
    spread = is_spread_on(device)
    x = torch.randn(rows, K, device=device, dtype=torch.bfloat16)
    dtype = torch.float32 if logits else torch.bfloat16
    out = torch.empty(rows, N, device=device, dtype=dtype)
    weights = [random_weight(N, K, name, device, spread=spread) for _ in range(num_copies)]
    assert num_bytes(weights[0]) == weight_bytes(N, K, name)
    operands = {} if logits else _in_every_order(x, weights[0])
    return [partial(_call, x, operands, weight, out) for weight in weights]


def _in_every_order(x: torch.Tensor, weight: Weight) -> dict[int, Operands]:
    """Return rows as operands, for any tile of the weight's product."""
    order = order_of(weight)
    orders = () if order is None else (one for one in (order, order + APART) if one in ORDERS)
    return {order: operands_of(x, order) for order in orders}


def _call(
    x: torch.Tensor,
    operands: Mapping[int, Operands],
    weight: Weight,
    out: torch.Tensor,
    tile: SkinnyTile | None,
) -> None:
    """Multiply with overlap, and but for a head from operands, as a round does."""
    tiles, ready = all_rows(tile, x.shape[0]), operands.get(order_of(weight, tile) or 0)
    skinny_linear(x, weight, tiles=tiles, overlap=x.is_cuda, operands=ready, out=out)


def _make_pair_calls(
    rows: int, N: int, K: int, name: str, num_copies: int, device: str
) -> Sequence[Callable[[Tile], object]]:
    x = torch.randn(rows, K, device=device, dtype=torch.bfloat16)
    weights = [
        random_weight(N, K, name, device, spread=is_spread_on(device)) for _ in range(num_copies)
    ]
    width, operands = N // 2, _in_every_order(x, weights[0])
    orders = () if width % STEP else operands
    ready = {order: new_operands(rows, width, order, device) for order in orders}
    out = torch.empty(rows, width, device=device, dtype=torch.bfloat16)
    return [partial(_call_pair, x, operands, weight, ready, out) for weight in weights]


def _call_pair(
    x: torch.Tensor,
    operands: Mapping[int, Operands],
    weight: Weight,
    ready: Mapping[int, Operands],
    out: torch.Tensor,
    tile: SkinnyTile | None,
) -> None:
    """Multiply gate and up with overlap, from operands to operands, as a round does.

    The product behind takes the order that this one takes.
    """
    rows = x.shape[0]
    tiles = all_rows(tile, rows)
    if tiles is None and x.is_cuda:
        tiles = default_for(x.get_device(), weight, paired=True)
    order = order_of(weight, None if tiles is None else tiles.serving(rows)) or 0
    skinny_linear(
        x, weight, tiles=tiles, paired=True, overlap=x.is_cuda,
        operands=operands.get(order), ready=ready.get(order), out=out,
    )  # fmt: skip


def all_rows(tile: SkinnyTile | None, rows: int) -> SkinnyTiles | None:
    """Let one tile serve a call: two launches of at most 16 rows where it serves no more.

    Returns:
        Tiles for the call; None where the default serves: for no tile, and for fewer rows than
        stream past.
    """
    if tile is None or (tile.is_streamed and rows <= ROW_CLASSES[1]):
        return None
    wide = tile if rows <= tile.most_rows else None
    return SkinnyTiles(tile, tile, wide, wide)
