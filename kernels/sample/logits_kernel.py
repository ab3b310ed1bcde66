"""Hold the device code that every sampling kernel begins with: a row's penalised logits as keys."""

import triton
import triton.language as tl

from kernels.common.ordered_keys import key_of, largest_key
from kernels.common.typing import constexpr

TEMPERATURE = constexpr(0)
TOP_P = constexpr(1)
MIN_P = constexpr(2)
PRESENCE = constexpr(3)
REPETITION = constexpr(4)
"""Places in `SampleParams.floats`."""

TOP_K = constexpr(0)
SEED = constexpr(1)
NUM_IDS = constexpr(2)
"""Places in `SampleParams.ints`."""


@triton.jit
def _on_path(cols, row, row_ids_ptr, depths_ptr, paths_ptr) -> tl.tensor:
    """Say which columns are ids of the drafts on the way to a row; row 0 is committed already."""
    lanes = tl.arange(0, 32)
    depth = tl.load(depths_ptr + row)
    drafts = (lanes >= 1) & (lanes <= depth)
    rows = tl.load(paths_ptr + row * 32 + lanes, mask=drafts, other=0)
    tokens = tl.load(row_ids_ptr + rows, mask=drafts, other=-1)
    first, last = tl.min(tl.ravel(cols), 0), tl.max(tl.ravel(cols), 0)
    found = cols < 0
    if tl.sum((drafts & (tokens >= first) & (tokens <= last)).to(tl.int32), 0) > 0:
        for index in range(1, depth + 1):
            found = found | (cols == tl.sum(tl.where(lanes == index, tokens, 0), 0))
    return found


@triton.jit
def _row_logits(
    cols,  # int32, any shape
    inside,
    row,
    logits_ptr,  # fp32 [T, V]
    stride_row,
    floats_ptr,  # fp64 [8]
    ints_ptr,  # int64 [8]
    row_ids_ptr,  # int32 [32]
    depths_ptr,  # int32 [32]
    paths_ptr,  # int32 [32, 32]
    seen_ptr,  # uint8 [V]
    generated_ptr,  # uint8 [V]
    PENALISED: constexpr,
) -> tl.tensor:
    """Read some columns of a row, after the penalties; -inf outside and from num_ids on.

    The penalties are those of `penalise_reference`, in fp32, each step correctly rounded.
    """
    inside = inside & (cols < tl.load(ints_ptr + NUM_IDS).to(tl.int32))
    x = tl.load(logits_ptr + row * stride_row + cols, mask=inside, other=float("-inf"))
    if PENALISED:
        presence = tl.load(floats_ptr + PRESENCE).to(tl.float32)
        repetition = tl.load(floats_ptr + REPETITION).to(tl.float32)
        on_path = _on_path(cols, row, row_ids_ptr, depths_ptr, paths_ptr)
        seen = on_path | (tl.load(seen_ptr + cols, mask=inside, other=0) != 0)
        generated = on_path | (tl.load(generated_ptr + cols, mask=inside, other=0) != 0)
        divided = tl.div_rn(x, repetition + tl.zeros_like(x))
        x = tl.where(seen, tl.where(x > 0.0, divided, x * repetition), x)
        x = tl.where(generated, x - presence, x)
    return x


@triton.jit
def row_keys(
    cols,  # int32, any shape
    inside,
    row,
    logits_ptr,
    stride_row,
    floats_ptr,
    ints_ptr,
    row_ids_ptr,
    depths_ptr,
    paths_ptr,
    seen_ptr,
    generated_ptr,
    PENALISED: constexpr,
) -> tl.tensor:
    """Make the keys of some columns of a row, after the penalties; -1 outside and from num_ids on.

    Arguments are those of `_row_logits`.
    """
    x = _row_logits(
        cols, inside, row, logits_ptr, stride_row, floats_ptr, ints_ptr,
        row_ids_ptr, depths_ptr, paths_ptr, seen_ptr, generated_ptr, PENALISED,
    )  # fmt: skip
    return key_of(x, cols, inside)


@triton.jit(do_not_specialize=["num_logits", "num_maxima"])
def maxima_kernel(
    logits_ptr,
    floats_ptr,
    ints_ptr,
    row_ids_ptr,
    depths_ptr,
    paths_ptr,
    seen_ptr,
    generated_ptr,
    maxima_ptr,  # int64 [T, num_maxima], the largest key of each group
    stride_row,
    num_logits,
    num_maxima,
    PENALISED: constexpr,
    CHUNK: constexpr,
    GROUP: constexpr,
) -> None:
    """Find the largest key of each group of GROUP neighbours."""
    chunk = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    groups = chunk * (CHUNK // GROUP) + tl.arange(0, CHUNK // GROUP)
    cols = groups[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    x = _row_logits(
        cols, cols < num_logits, row, logits_ptr, stride_row, floats_ptr, ints_ptr,
        row_ids_ptr, depths_ptr, paths_ptr, seen_ptr, generated_ptr, PENALISED,
    )  # fmt: skip
    best = largest_key(x, cols, 1)
    tl.store(maxima_ptr + row * num_maxima + groups, best, mask=groups < num_maxima)
