"""Hold the device code of the choices from logits: a pass over chunks of a row, then one a row.

Grids are (chunks, T) and (T,). A row's chunks do not know how many rows there are, and a maximum
of keys (`common/ordered_keys.py`) is the same in any order: a row's result depends on the row
alone. With OVERLAP a choice reads its map before it waits for the kernel before it.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.common.exact import exp, sum_rows
from kernels.common.ordered_keys import (
    id_of,
    is_finite,
    key_of,
    largest_key,
    largest_keys,
    logit_of,
)
from kernels.common.typing import constexpr


@triton.jit
def _is_banned(ids, banned_ptr, num_banned) -> tl.tensor:
    found = ids < 0
    for index in range(num_banned):
        found = found | (ids == tl.load(banned_ptr + index))
    return found


@triton.jit(do_not_specialize=["num_logits", "num_ids"])
def best_of_chunk_kernel(
    logits_ptr,  # fp32 [T, V]
    map_ptr,  # int32 [V], token id of each column; unread without HAS_MAP
    banned_ptr,  # int32 [any]; unread without HAS_BANNED
    num_banned_ptr,  # int32 [1]
    best_ptr,  # int64 [T, CHUNKS], the largest key of each chunk
    sums_ptr,  # fp32 [T, CHUNKS], sum of exp(logit - chunk's largest); unread without LOGPROB
    stride_row,
    num_logits,
    num_ids,
    HAS_MAP: constexpr,
    HAS_BANNED: constexpr,
    LOGPROB: constexpr,
    CHUNK: constexpr,
    PAIRS: constexpr,
    OVERLAP: constexpr,
) -> None:
    """Find the largest key of a chunk, and the chunk's share of the sum of exponentials."""
    chunk, num_chunks = tl.program_id(0), tl.num_programs(0)
    row = tl.program_id(1).to(tl.int64)
    cols = chunk * CHUNK + tl.arange(0, CHUNK)
    inside = cols < num_logits
    ids = cols
    if HAS_MAP:
        ids = tl.load(map_ptr + cols, mask=inside, other=0)
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    x = tl.load(logits_ptr + row * stride_row + cols, mask=inside, other=float("-inf"))
    allowed = inside & (ids < num_ids)
    if HAS_BANNED:
        allowed = allowed & ~_is_banned(ids, banned_ptr, tl.load(num_banned_ptr))
    x = tl.where(allowed, x, float("-inf"))
    best = largest_key(x, ids, 0)
    at = row * num_chunks + chunk
    tl.store(best_ptr + at, best)
    if LOGPROB:
        weights = tl.where(x != float("-inf"), exp(x - logit_of(best)), 0.0)
        total = sum_rows(tl.reshape(weights, (1, CHUNK)), 1, 0, PAIRS)
        tl.store(sums_ptr + at, tl.sum(tl.sum(total, 1), 0))


@triton.jit(do_not_specialize=["num_chunks"])
def best_of_row_kernel(
    best_ptr,  # int64 [T, CHUNKS]
    sums_ptr,  # fp32 [T, CHUNKS]
    ids_ptr,  # int32 [T]
    logprobs_ptr,  # fp32 [T]; unread without LOGPROB
    num_chunks,
    LOGPROB: constexpr,
    LANES: constexpr,
    PAIRS: constexpr,
    OVERLAP: constexpr,
) -> None:
    """Write the id of a row's largest key, -1 where it is not finite, and its log-probability."""
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, LANES)
    inside = lanes < num_chunks
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    keys = tl.load(best_ptr + row * num_chunks + lanes, mask=inside, other=-1)
    best = tl.max(keys, 0)
    finite = is_finite(best)
    tl.store(ids_ptr + row, tl.where(finite, id_of(best), -1))
    if LOGPROB:
        sums = tl.load(sums_ptr + row * num_chunks + lanes, mask=inside, other=0.0)
        shares = tl.where(keys >= 0, sums * exp(logit_of(keys) - logit_of(best)), 0.0)
        total = tl.sum(tl.sum(sum_rows(tl.reshape(shares, (1, LANES)), 1, 0, PAIRS), 1), 0)
        logprob = -tl.log(total.to(tl.float64)).to(tl.float32)
        tl.store(logprobs_ptr + row, tl.where(finite, logprob, float("nan")))


@triton.jit(do_not_specialize=["num_logits", "num_ids", "num_groups"])
def best_of_group_kernel(
    logits_ptr,  # fp32 [T, V]
    best_ptr,  # int64 [T, GROUPS], the largest key of each group
    stride_row,
    num_logits,
    num_ids,
    num_groups,
    CHUNK: constexpr,
    GROUP: constexpr,
) -> None:
    """Find the largest key of each group of GROUP neighbours."""
    chunk = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    groups = chunk * (CHUNK // GROUP) + tl.arange(0, CHUNK // GROUP)
    cols = groups[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    allowed = (cols < num_logits) & (cols < num_ids)
    x = tl.load(logits_ptr + row * stride_row + cols, mask=allowed, other=float("-inf"))
    best = largest_key(x, cols, 1)
    tl.store(best_ptr + row * num_groups + groups, best, mask=groups < num_groups)


@triton.jit(do_not_specialize=["num_logits", "num_ids", "num_groups", "k"])
def top_of_row_kernel(
    logits_ptr,  # fp32 [T, V]
    best_ptr,  # int64 [T, GROUPS]
    values_ptr,  # fp32 [T, k]
    ids_ptr,  # int32 [T, k]
    stride_row,
    num_logits,
    num_ids,
    num_groups,
    k,
    GROUP: constexpr,
    LANES: constexpr,
    TOP: constexpr,
) -> None:
    """Write a row's k largest logits, which lie in the k groups with the largest maxima.

    Were one of them in another group, the maxima of those k groups would be k larger keys.
    """
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, LANES)
    maxima = tl.load(best_ptr + row * num_groups + lanes, mask=lanes < num_groups, other=-1)
    of_groups = largest_keys(maxima, k, TOP)
    cols = (id_of(of_groups) // GROUP)[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    allowed = (of_groups >= 0)[:, None] & (cols < num_logits) & (cols < num_ids)
    x = tl.load(logits_ptr + row * stride_row + cols, mask=allowed, other=0.0)
    found = largest_keys(tl.reshape(key_of(x, cols, allowed), (TOP * GROUP,)), k, TOP)
    sound = is_finite(tl.max(found, 0))
    top = tl.arange(0, TOP)
    values = tl.where(found >= 0, logit_of(found), float("-inf"))
    ids = tl.where(sound & (found >= 0), id_of(found), -1)
    at = row * k + top
    tl.store(values_ptr + at, tl.where(sound, values, float("nan")), mask=top < k)
    tl.store(ids_ptr + at, ids, mask=top < k)
