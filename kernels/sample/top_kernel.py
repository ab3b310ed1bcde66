"""Hold the device code that ends a row by one program: the best id, or a draw among a few."""

import triton
import triton.language as tl

from kernels.common.ordered_keys import id_of, is_finite, largest_keys, logit_of
from kernels.common.typing import constexpr
from kernels.sample.logits_kernel import MIN_P, SEED, TEMPERATURE, TOP_K, TOP_P, row_keys
from kernels.sample.noise_kernel import gumbel


@triton.jit(do_not_specialize=["num_maxima"])
def best_kernel(maxima_ptr, ids_ptr, num_maxima, LANES: constexpr) -> None:
    """Write the id of a row's largest key; -1 where it is not finite."""
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, LANES)
    maxima = tl.load(maxima_ptr + row * num_maxima + lanes, mask=lanes < num_maxima, other=-1)
    best = tl.max(maxima, 0)
    tl.store(ids_ptr + row, tl.where(is_finite(best), id_of(best), -1))


@triton.jit
def _kept_shares(keys, floats_ptr, TOP: constexpr):
    """Filter descending keys [TOP] by top-p and min-p as `filter_reference` does, in fp64.

    Returns:
        Which are kept, and their probabilities, which sum to 1 over those kept.
    """
    lanes = tl.arange(0, TOP)
    logits = logit_of(keys).to(tl.float64)
    top = tl.sum(tl.where(lanes == 0, logits, 0.0), 0)
    powers = tl.where(keys >= 0, tl.exp((logits - top) / tl.load(floats_ptr + TEMPERATURE)), 0.0)
    shares = powers / tl.sum(powers, 0)
    top_p, min_p = tl.load(floats_ptr + TOP_P), tl.load(floats_ptr + MIN_P)
    before = tl.cumsum(shares, 0) - shares
    within = before < tl.where(top_p >= 1.0, float("inf"), top_p)
    likely = shares >= min_p * tl.sum(tl.where(lanes == 0, shares, 0.0), 0)
    kept = (keys >= 0) & ((within & likely) | (lanes == 0))
    return kept, shares / tl.sum(tl.where(kept, shares, 0.0), 0)


@triton.jit(do_not_specialize=["num_logits", "num_maxima"])
def draw_top_kernel(
    logits_ptr,
    floats_ptr,
    ints_ptr,
    row_ids_ptr,
    depths_ptr,
    paths_ptr,
    seen_ptr,
    generated_ptr,
    maxima_ptr,  # int64 [T, num_maxima] of groups
    start_ptr,  # int32 [1]
    ids_ptr,  # int32 [T]
    stride_row,
    num_logits,
    num_maxima,
    PENALISED: constexpr,
    GROUP: constexpr,
    LANES: constexpr,
    TOP: constexpr,
) -> None:
    """Draw an id among the top_k most likely, which lie in the top_k groups of largest maxima.

    Were one of them in another group, the maxima of those groups would be top_k larger keys.
    """
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, LANES)
    top_k = tl.load(ints_ptr + TOP_K).to(tl.int32)
    maxima = tl.load(maxima_ptr + row * num_maxima + lanes, mask=lanes < num_maxima, other=-1)
    groups = largest_keys(maxima, top_k, TOP)
    cols = (id_of(groups) // GROUP)[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    keys = row_keys(
        cols, (groups >= 0)[:, None] & (cols < num_logits), row, logits_ptr, stride_row,
        floats_ptr, ints_ptr, row_ids_ptr, depths_ptr, paths_ptr, seen_ptr, generated_ptr,
        PENALISED,
    )  # fmt: skip
    found = largest_keys(tl.reshape(keys, (TOP * GROUP,)), top_k, TOP)
    kept, shares = _kept_shares(found, floats_ptr, TOP)
    position = (tl.load(start_ptr) + tl.load(depths_ptr + row) + 1).to(tl.int64)
    noise = gumbel(tl.load(ints_ptr + SEED), position, id_of(found))
    scores = tl.where(kept, tl.log(shares) + noise, float("-inf"))
    ties = kept & (scores == tl.max(scores, 0))
    chosen = tl.min(tl.where(ties, id_of(found), 2147483647), 0)
    tl.store(ids_ptr + row, tl.where(is_finite(tl.max(found, 0)), chosen, -1))
