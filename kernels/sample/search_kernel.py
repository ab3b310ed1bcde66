"""Hold the device code that finds where a row's distribution is cut, without sorting it.

Ids in descending order are kept up to a cut: top_k of them, or until their mass reaches top_p. So
what is kept is the set of keys of at least some threshold, the largest threshold at and above which
lie top_k keys, or the mass P = top_p times the whole. A step counts, chunk by chunk, what lies at
and above 16 thresholds of a bracket; the next step reads those counts and goes on within the part
that holds the cut. Brackets nest, so a chunk without mass in one is not read again.

Mass is a whole number, 2^42 for the most likely id: whole numbers sum to the same in any order. An
id's mass is off by at most 2^-43 of the most likely one's, and ids below 2^-43 of it have none.
"""

import triton
import triton.language as tl

from kernels.common.ordered_keys import logit_of, place_of
from kernels.common.typing import constexpr
from kernels.sample.logits_kernel import TEMPERATURE, TOP_K, TOP_P, row_keys


@triton.jit
def _thresholds(low, high, top, floats_ptr, is_first) -> tl.tensor:
    """Cut a bracket of keys into 16: evenly; the first one, all keys, by steps of 2 temperatures.

    Returns:
        int64 [16], ascending, all below `high`; the first is `low`.
    """
    lanes = tl.arange(0, 16)
    spread = (2.0 * tl.load(floats_ptr + TEMPERATURE)).to(tl.float32)
    logits = logit_of(top) - (16 - lanes).to(tl.float32) * spread
    first = tl.where(lanes == 0, 0, place_of(logits) << 20)
    evenly = low + lanes * ((high - low + 15) // 16)
    return tl.minimum(tl.where(is_first, first, evenly), high - 1)


@triton.jit
def _entry(values, lane) -> tl.tensor:
    return tl.sum(tl.where(tl.arange(0, 16) == lane, values, 0), 0)


@triton.jit
def _narrowed(
    step,
    row,
    chunk,
    top,
    floats_ptr,
    ints_ptr,
    brackets_ptr,
    targets_ptr,
    sums_ptr,
    num_chunks,
    COUNTS: constexpr,
    LANES: constexpr,
):
    """Find the bracket of a step, 1 or later, from what the step before counted.

    Returns:
        low, high, what lies from high on, the target, and what a chunk has within the bracket.
    """
    at = ((step - 1) % 2) * 32 + row
    low, high = tl.load(brackets_ptr + at * 3), tl.load(brackets_ptr + at * 3 + 1)
    above = tl.load(brackets_ptr + at * 3 + 2)
    lanes, chunks = tl.arange(0, 16), tl.arange(0, LANES)
    places = (at * num_chunks + chunks[:, None]) * 16 + lanes[None, :]
    sums = tl.load(sums_ptr + places, mask=(chunks < num_chunks)[:, None], other=0)
    reached = above + tl.sum(sums, 0)
    target = tl.load(targets_ptr + at)
    if step == 1:
        if COUNTS:
            target = tl.load(ints_ptr + TOP_K).to(tl.float64)
        else:
            target = tl.load(floats_ptr + TOP_P) * _entry(reached, 0).to(tl.float64)
    enough = tl.sum((reached.to(tl.float64) >= target).to(tl.int32), 0)
    part = tl.maximum(enough - 1, 0)
    thresholds = _thresholds(low, high, top, floats_ptr, step == 1)
    own = tl.load(sums_ptr + (at * num_chunks + chunk) * 16 + lanes)
    own_inside = _entry(own, part) - _entry(own, part + 1)  # there is no entry 16: 0
    is_last = part == 15
    high = tl.where(is_last, high, _entry(thresholds, part + 1))
    above = tl.where(is_last, above, _entry(reached, part + 1))
    return _entry(thresholds, part), high, above, target, own_inside


@triton.jit
def _share_exponent(keys, top, floats_ptr) -> tl.tensor:
    """Compute (logit - largest logit) / temperature in fp64."""
    distance = logit_of(keys).to(tl.float64) - logit_of(top).to(tl.float64)
    return distance / tl.load(floats_ptr + TEMPERATURE)


@triton.jit
def _top_of(maxima_ptr, row, num_chunks, LANES: constexpr) -> tl.tensor:
    lanes = tl.arange(0, LANES)
    maxima = tl.load(maxima_ptr + row * num_chunks + lanes, mask=lanes < num_chunks, other=-1)
    return tl.max(maxima, 0)


@triton.jit(do_not_specialize=["num_logits", "num_chunks", "step"])
def search_kernel(
    logits_ptr,
    floats_ptr,
    ints_ptr,
    row_ids_ptr,
    depths_ptr,
    paths_ptr,
    seen_ptr,
    generated_ptr,
    maxima_ptr,  # int64 [T, num_chunks]
    brackets_ptr,  # int64 [2, 32, 3]: low, high, and what lies from high on
    targets_ptr,  # fp64 [2, 32]
    sums_ptr,  # int64 [2, 32, num_chunks, 16]
    floors_ptr,  # int64 [T], keys below are out already; unread without HAS_FLOOR
    stride_row,
    num_logits,
    num_chunks,
    step,
    COUNTS: constexpr,
    HAS_FLOOR: constexpr,
    PENALISED: constexpr,
    CHUNK: constexpr,
    LANES: constexpr,
) -> None:
    """Count (`COUNTS`) or weigh what a chunk has at and above the thresholds of a step."""
    chunk = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    top = _top_of(maxima_ptr, row, num_chunks, LANES)
    low, high, above, target = top * 0, top + 1, top * 0, tl.load(floats_ptr + TOP_P)
    own_top = tl.load(maxima_ptr + row * num_chunks + chunk)
    own_inside = (own_top >= 0).to(tl.int64)
    if not COUNTS:  # e^-32 is no mass
        heavy = _share_exponent(own_top, top, floats_ptr) > -32.0
        own_inside = own_inside * heavy.to(tl.int64)
    if step > 0:
        low, high, above, target, own_inside = _narrowed(
            step, row, chunk, top, floats_ptr, ints_ptr, brackets_ptr, targets_ptr, sums_ptr,
            num_chunks, COUNTS, LANES,
        )  # fmt: skip
    at = (step % 2) * 32 + row
    if chunk == 0:
        tl.store(brackets_ptr + at * 3, low)
        tl.store(brackets_ptr + at * 3 + 1, high)
        tl.store(brackets_ptr + at * 3 + 2, above)
        tl.store(targets_ptr + at, target)
    lanes = tl.arange(0, 16)
    sums = tl.zeros((16,), tl.int64)
    if own_inside > 0:
        cols = chunk * CHUNK + tl.arange(0, CHUNK)
        keys = row_keys(
            cols, cols < num_logits, row, logits_ptr, stride_row, floats_ptr, ints_ptr,
            row_ids_ptr, depths_ptr, paths_ptr, seen_ptr, generated_ptr, PENALISED,
        )  # fmt: skip
        inside = (keys >= low) & (keys < high)
        if HAS_FLOOR:
            inside = inside & (keys >= tl.load(floors_ptr + row))
        if COUNTS:
            weights = inside.to(tl.int64)
        else:
            mass = tl.exp(_share_exponent(keys, top, floats_ptr)) * 4398046511104.0 + 0.5
            weights = tl.where(inside, mass, 0.0).to(tl.int64)
        thresholds = _thresholds(low, high, top, floats_ptr, step == 0)
        for lane in range(16):
            reached = keys >= _entry(thresholds, lane)
            sums = tl.where(lanes == lane, tl.sum(tl.where(reached, weights, 0), 0), sums)
    tl.store(sums_ptr + (at * num_chunks + chunk) * 16 + lanes, sums)


@triton.jit(do_not_specialize=["num_chunks", "step"])
def settle_kernel(
    maxima_ptr,
    floats_ptr,
    ints_ptr,
    brackets_ptr,
    targets_ptr,
    sums_ptr,
    floors_ptr,  # int64 [T]
    num_chunks,
    step,
    COUNTS: constexpr,
    HAS_FLOOR: constexpr,
    LANES: constexpr,
) -> None:
    """Write a row's threshold once the bracket holds one key: never below the floor it has."""
    row = tl.program_id(0).to(tl.int64)
    top = _top_of(maxima_ptr, row, num_chunks, LANES)
    low, _high, _above, _target, _own = _narrowed(
        step, row, 0, top, floats_ptr, ints_ptr, brackets_ptr, targets_ptr, sums_ptr,
        num_chunks, COUNTS, LANES,
    )  # fmt: skip
    if HAS_FLOOR:
        low = tl.maximum(low, tl.load(floors_ptr + row))
    tl.store(floors_ptr + row, low)
