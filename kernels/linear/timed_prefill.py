"""List the products of a prompt's chunk as problems to time: of bf16 rows, and of FP8 operands.

A chunk multiplies by a weight that is decoded while it is multiplied, or widened first, or by FP8
operands where the person says so: the first and the last are problems, the second is their peer.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch

from kernels.common.peers import Peer, library_product
from kernels.common.problem import Bar, ModelSizes, Problem, Tile
from kernels.linear.expand import expanded_linear
from kernels.linear.formats import STEP
from kernels.linear.middle import middle_linear
from kernels.linear.prefill_fp8 import fp8_prefill_linear
from kernels.linear.problems import product_case
from kernels.linear.skinny import is_spread_on
from kernels.linear.timed_weight import random_weight, weight_bytes
from kernels.linear.weight import Weight

GPU = "H200"
MOST_DECODED = 1024
"""Rows up to which the kernel that decodes while it multiplies is timed."""

DECODED_BAR = Bar(min_speed_up={"expand": 1.2}, gpu=GPU)
PROOF_SIZES = (64, 256, 384)
"""Rows, outputs and inputs of the case that is proven before a product is timed."""

Product = Callable[[torch.Tensor, Weight, torch.Tensor, torch.Tensor], object]
"""(rows, weight, buffer, out): one call."""


def _decode(x: torch.Tensor, weight: Weight, _buffer: torch.Tensor, out: torch.Tensor) -> object:
    return middle_linear(x, weight, out=out)


def _widen(x: torch.Tensor, weight: Weight, buffer: torch.Tensor, out: torch.Tensor) -> object:
    return expanded_linear(x, weight, buffer=buffer, out=out)


def _round(x: torch.Tensor, weight: Weight, buffer: torch.Tensor, out: torch.Tensor) -> object:
    return fp8_prefill_linear(x, weight, buffer=buffer, out=out)


def timed_prefill(sizes: ModelSizes, rows: int) -> tuple[Problem, ...]:
    """Return the two largest products of a layer for a chunk of so many rows, in both formats."""
    hidden, middle = sizes.hidden_size, sizes.intermediate_size
    found: list[Problem] = []
    for name in ("nvfp4", "fp8_block"):
        for title, N, K in (("gate and up", 2 * middle, hidden), ("down", hidden, middle)):
            if rows <= MOST_DECODED:
                large = hidden == 5120 and N > K and rows in (256, 512)
                bar = DECODED_BAR if large else None
                found.append(_problem(title, "middle_linear", _decode, rows, N, K, name, bar))
            found.append(_problem(title, "fp8_prefill_linear", _round, rows, N, K, name, None))
    return tuple(found)


def _problem(
    title: str, op: str, run: Product, rows: int, N: int, K: int, name: str, bar: Bar | None
) -> Problem:
    # rounding writes a 4-bit weight as bytes and reads it again
    between = 2 * N * K if op == "fp8_prefill_linear" and name == "nvfp4" else 0
    num_bytes = weight_bytes(N, K, name) + 2 * rows * (N + K)
    widened = num_bytes + 4 * N * K
    return Problem(
        name=f"{title} {N}x{K}, {'fp8' if run is _round else 'bf16'} rows",
        op=op,
        rows=rows,
        sizes={"N": N, "K": K},
        num_bytes=num_bytes + between,
        make_calls=partial(_make_calls, run, rows, N, K, name),
        case=product_case(op, name, *PROOF_SIZES, cuda_only=False),
        format_name=name,
        bar=bar,
        peers=(
            Peer(
                "expand",
                widened,
                partial(_peer_calls, _widen, rows, N, K, name),
                devices=("cuda", "cpu"),
            ),
            library_product(N, K, rows),
        ),
    )


def _make_calls(
    run: Product, rows: int, N: int, K: int, name: str, num_copies: int, device: str
) -> Sequence[Callable[[Tile], object]]:
    calls = _peer_calls(run, rows, N, K, name, num_copies, device)
    return [partial(_without_tile, call) for call in calls]


def _without_tile(call: Callable[[], object], _tile: Tile) -> None:
    call()


def _peer_calls(
    run: Product, rows: int, N: int, K: int, name: str, num_copies: int, device: str
) -> Sequence[Callable[[], object]]:
    padded = -(-K // STEP) * STEP
    x = torch.randn(rows, K, device=device, dtype=torch.bfloat16)
    out = torch.empty(rows, N, device=device, dtype=torch.bfloat16)
    buffer = torch.empty(N * padded, device=device, dtype=torch.bfloat16)
    weights = [
        random_weight(N, K, name, device, spread=is_spread_on(device)) for _ in range(num_copies)
    ]
    return [partial(run, x, weight, buffer, out) for weight in weights]
