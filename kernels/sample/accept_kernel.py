"""Hold the device code of the round's end: one warp walks the verified tree, one marks its ids."""

import triton
import triton.language as tl

from kernels.common.typing import constexpr

STOPPED = constexpr(1)
SPENT = constexpr(2)
BROKEN = constexpr(3)
"""Finish codes other than 0: a stop id; no budget left; a row without a sound logit."""


@triton.jit(do_not_specialize=["num_rows"])
def accept_kernel(
    row_ids_ptr,  # int32 [32]
    chosen_ptr,  # int32 [T]
    parents_ptr,  # int32 [32]
    stop_ids_ptr,  # int32 [16]
    num_stop_ids_ptr,  # int32 [1]
    start_ptr,  # int32 [1]
    parity_ptr,  # int32 [1]
    budget_ptr,  # int32 [1]
    num_pending_ptr,  # int32 [1]
    pending_rows_ptr,  # int32 [32]
    result_ptr,  # int32 [80]
    num_rows,
) -> None:
    """Walk from row 0 to the child that holds the chosen id; commit what was chosen on the way."""
    rows, stops = tl.arange(0, 32), tl.arange(0, 16)
    inside = rows < num_rows
    row_ids = tl.load(row_ids_ptr + rows)
    chosen = tl.load(chosen_ptr + rows, mask=inside, other=-1)
    parents = tl.load(parents_ptr + rows, mask=inside & (rows > 0), other=-2)
    stop_ids = tl.load(stop_ids_ptr + stops)
    is_stop = stops < tl.load(num_stop_ids_ptr)
    budget = tl.load(budget_ptr)

    row = num_rows * 0  # 32 where the walk has ended
    count, accepted, tested, finish, last = row, row, row, row, row - 1
    committed, path = tl.zeros((32,), tl.int32), tl.zeros((32,), tl.int32)
    if budget <= 0:
        row, finish = row + 32, row + SPENT
    while row < 32:
        token = tl.sum(tl.where(rows == row, chosen, 0), 0)
        if token < 0:
            finish = row * 0 + BROKEN
            row = row * 0 + 32
        else:
            committed = tl.where(rows == count, token, committed)
            path = tl.where(rows == count, row, path)
            count += 1
            last = token
            drafts = parents == row
            tested += tl.max(drafts.to(tl.int32), 0)
            following = tl.min(tl.where(drafts & (row_ids == token), rows, 32), 0)
            accepted += (following < 32).to(tl.int32)
            row = following
            if tl.sum((is_stop & (stop_ids == token)).to(tl.int32), 0) > 0:
                finish = row * 0 + STOPPED
                row = row * 0 + 32
            elif count >= budget:
                finish = row * 0 + SPENT
                row = row * 0 + 32

    start = tl.load(start_ptr) + count
    tl.store(start_ptr, start)
    tl.store(parity_ptr, 1 - tl.load(parity_ptr))
    tl.store(budget_ptr, budget - count)
    tl.store(num_pending_ptr, count)
    tl.store(pending_rows_ptr + rows, path)
    if count > 0:
        tl.store(row_ids_ptr, last)
    tl.store(result_ptr, count)
    tl.store(result_ptr + 1, accepted)
    tl.store(result_ptr + 2, tested)
    tl.store(result_ptr + 3, finish)
    tl.store(result_ptr + 4, start)
    tl.store(result_ptr + 16 + rows, committed)
    tl.store(result_ptr + 48 + rows, path)


@triton.jit
def mark_kernel(
    result_ptr,  # int32 [80]
    seen_ptr,  # uint8 [V]
    generated_ptr,  # uint8 [V]
) -> None:
    """Mark the committed ids of a round as seen and as generated."""
    lanes = tl.arange(0, 32)
    committed = lanes < tl.load(result_ptr)
    ids = tl.load(result_ptr + 16 + lanes, mask=committed, other=0)
    one = tl.full((32,), 1, tl.uint8)
    tl.store(seen_ptr + ids, one, mask=committed)
    tl.store(generated_ptr + ids, one, mask=committed)
