"""Hold the device code that draws from a whole vocabulary: best scores of chunks, then of rows."""

import triton
import triton.language as tl

from kernels.common.ordered_keys import is_finite, logit_of
from kernels.common.typing import constexpr
from kernels.sample.logits_kernel import MIN_P, SEED, TEMPERATURE, row_keys
from kernels.sample.noise_kernel import gumbel


@triton.jit(do_not_specialize=["num_logits", "num_chunks"])
def draw_chunk_kernel(
    logits_ptr,
    floats_ptr,
    ints_ptr,
    row_ids_ptr,
    depths_ptr,
    paths_ptr,
    seen_ptr,
    generated_ptr,
    maxima_ptr,  # int64 [T, num_chunks]
    start_ptr,  # int32 [1]
    floors_ptr,  # int64 [T], keys below are out; unread without HAS_FLOOR
    scores_ptr,  # fp64 [T, num_chunks]
    winners_ptr,  # int32 [T, num_chunks]
    stride_row,
    num_logits,
    num_chunks,
    HAS_FLOOR: constexpr,
    PENALISED: constexpr,
    CHUNK: constexpr,
    LANES: constexpr,
) -> None:
    """Write a chunk's best score (log share + noise) and its lowest id; -inf where none is kept.

    The share's normaliser is one number a row and left out.
    """
    chunk = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    chunks = tl.arange(0, LANES)
    maxima = tl.load(maxima_ptr + row * num_chunks + chunks, mask=chunks < num_chunks, other=-1)
    top = tl.max(maxima, 0)
    floor = top * 0
    if HAS_FLOOR:
        floor = tl.load(floors_ptr + row)
    at = row * num_chunks + chunk
    if tl.load(maxima_ptr + at) >= floor:
        cols = chunk * CHUNK + tl.arange(0, CHUNK)
        keys = row_keys(
            cols, cols < num_logits, row, logits_ptr, stride_row, floats_ptr, ints_ptr,
            row_ids_ptr, depths_ptr, paths_ptr, seen_ptr, generated_ptr, PENALISED,
        )  # fmt: skip
        distance = logit_of(keys).to(tl.float64) - logit_of(top).to(tl.float64)
        exponent = distance / tl.load(floats_ptr + TEMPERATURE)
        kept, min_p = keys >= floor, tl.load(floats_ptr + MIN_P)
        if min_p > 0.0:
            kept = kept & ((tl.exp(exponent) >= min_p) | (keys == top))
        position = (tl.load(start_ptr) + tl.load(depths_ptr + row) + 1).to(tl.int64)
        noise = gumbel(tl.load(ints_ptr + SEED), position, cols)
        scores = tl.where(kept, exponent + noise, float("-inf"))
        best = tl.max(scores, 0)
        tl.store(scores_ptr + at, best)
        tl.store(winners_ptr + at, tl.min(tl.where(scores == best, cols, 2147483647), 0))
    else:
        tl.store(scores_ptr + at, float("-inf"))
        tl.store(winners_ptr + at, 2147483647)


@triton.jit(do_not_specialize=["num_chunks"])
def draw_row_kernel(
    maxima_ptr,  # int64 [T, num_chunks]
    scores_ptr,  # fp64 [T, num_chunks]
    winners_ptr,  # int32 [T, num_chunks]
    ids_ptr,  # int32 [T]
    num_chunks,
    LANES: constexpr,
) -> None:
    """Write the id of a row's best score, the lowest among equals; -1 where no logit is sound."""
    row = tl.program_id(0).to(tl.int64)
    chunks = tl.arange(0, LANES)
    inside, at = chunks < num_chunks, row * num_chunks + chunks
    top = tl.max(tl.load(maxima_ptr + at, mask=inside, other=-1), 0)
    scores = tl.load(scores_ptr + at, mask=inside, other=float("-inf"))
    winners = tl.load(winners_ptr + at, mask=inside, other=2147483647)
    best = tl.max(scores, 0)
    chosen = tl.min(tl.where(scores == best, winners, 2147483647), 0)
    tl.store(ids_ptr + row, tl.where(is_finite(top), chosen, -1))
