"""List attention's preparation as a problem to time."""

from collections.abc import Callable
from functools import partial

import torch

from kernels.attention.prep import MAX_VERIFY_ROWS
from kernels.attention.prep_cases import empty_store, prep_case, prepare
from kernels.common.case import Tensors
from kernels.common.peers import library_copy
from kernels.common.problem import Bar, ModelSizes, Problem, Tile

BAR = Bar(max_times_floor=1.5)
"""It takes at most this many times an empty launch plus its bytes."""

POSITIONS, START = 4096, 1000
"""Positions of the store and those that are held before the call."""

TURNED = 64
"""Dimensions of a head that are rotated: a quarter of 256 in every Qwen3.5 to 3.8 model."""

SHARED = ("q_norm", "k_norm", "cos", "sin", "start", "depths", "key_scales", "value_scales")
"""What an engine has once for all layers, or reads in every one: the rotation, the tree."""


def timed_prep(sizes: ModelSizes, rows: int) -> tuple[Problem, ...]:
    """Return the preparation of a model's attention, for a number of tokens and either store."""
    return tuple(_problem(sizes, rows, coded=coded) for coded in (False, True))


def _problem(sizes: ModelSizes, rows: int, *, coded: bool) -> Problem:
    heads, width = (sizes.num_heads, sizes.num_kv_heads), sizes.head_dim
    positions = START + max(rows, POSITIONS)
    case = prep_case(
        rows, heads, width=width, turned=TURNED, start=START, positions=positions,
        tree=rows <= MAX_VERIFY_ROWS, coded=coded, interpreted=False,
    )  # fmt: skip
    # a head is read and written, its gates are not; a value too; two rows of angles a token.
    num_bytes = 2 * rows * (2 * (heads[0] + 2 * heads[1]) * width + 2 * TURNED)
    if coded:
        num_bytes -= rows * 2 * heads[1] * width
    return Problem(
        name="query, key and value" + (", e4m3" if coded else ""),
        op="attention_prep",
        rows=rows,
        sizes={"H": heads[0], "G": heads[1], "D": width},
        num_bytes=num_bytes,
        make_calls=partial(_calls, rows, case.draw),
        case=case,
        bar=BAR,
        peers=(library_copy(num_bytes),),
    )


def _calls(
    rows: int, draw: Callable[[int, str], dict[str, torch.Tensor]], num_copies: int, device: str
) -> list[Callable[[Tile], object]]:
    """Make calls on products and stores of their own, with overlap as a round runs them."""
    drawn = draw(0, device)
    width = drawn["q_norm"].shape[0]
    calls: list[Callable[[Tile], object]] = []
    for _ in range(num_copies):
        own = {name: x if name in SHARED else x.clone() for name, x in drawn.items()}
        out = own["q"].new_empty((rows, own["q"].shape[1] // (2 * width), width))
        calls.append(partial(_prepare, own, empty_store(own), empty_store(own), out))
    return calls


def _prepare(
    inputs: Tensors, keys: torch.Tensor, values: torch.Tensor, out: torch.Tensor, _tile: Tile
) -> None:
    prepare(inputs, keys, values, out, overlap=out.is_cuda)
