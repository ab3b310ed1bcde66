"""Hold the device code of a round's convolution: one program a row and head, and some for gates.

A program reads records of one half and writes the other, so programs never race; it reads nothing
that follows from the number of rows, so a row's bits are its path's alone. Sums run over one fixed
tree and every step is an IEEE operation (`common/exact.py`): launch with `enable_fp_fusion=False`.

A place names a row: from 0 on a row of this call, below 0 a row before it, -1 the newest. A
window's next older row is then `parents[place]` or `place - 1`, since row 0 follows place -1.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.common.exact import silu, sum_rows
from kernels.common.typing import constexpr
from kernels.conv.gates_kernel import store_gates, store_product_gates


@triton.jit
def _tap(packed, TAP: constexpr) -> tl.tensor:
    """Take one of the four bf16 taps of an int64 and widen it, which is exact."""
    bits = ((packed >> (16 * TAP)) & 0xFFFF).to(tl.int32) << 16
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def convolve(oldest, older, before, newest, packed) -> tl.tensor:
    """Sum four rows by their taps, oldest first, round to bf16, apply SiLU, round to bf16."""
    total = oldest.to(tl.float32) * _tap(packed, 0)
    total += older.to(tl.float32) * _tap(packed, 1)
    total += before.to(tl.float32) * _tap(packed, 2)
    total += newest.to(tl.float32) * _tap(packed, 3)
    return silu(total.to(tl.bfloat16).to(tl.float32)).to(tl.bfloat16)


@triton.jit
def _older(place, parents_ptr) -> tl.tensor:
    """Return the place of the row that a row follows."""
    parent = tl.load(parents_ptr + place, mask=place >= 0, other=0)
    return tl.where(place >= 0, parent, place - 1)


@triton.jit
def _row_before(
    place, tail_ptr, raw_ptr, pending_rows_ptr, num_pending, WIDTH: constexpr
) -> tl.tensor:
    """Return the address of the row at a place below 0: a pending row, or one before those.

    Args:
        place: int32; from 0 on the address means nothing.
        tail_ptr: bf16 [3, C], the rows before the pending rows, oldest first.
        raw_ptr: bf16 [32, C], the rows of the last round.
        pending_rows_ptr: int32 [32].
        num_pending: int32.
        WIDTH: C.
    """
    pending = num_pending + place
    is_pending = (place < 0) & (pending >= 0)
    row = tl.load(pending_rows_ptr + pending, mask=is_pending, other=0)
    return tl.where(is_pending, raw_ptr + row * WIDTH, tail_ptr + (3 + pending) * WIDTH)


@triton.jit
def _load_row(
    place, rows_ptr, stride_row, before, channels, known, OVERLAP: constexpr
) -> tl.tensor:
    """Load the row at a place: one of the call's, or the one before it.

    Args:
        place: int32.
        rows_ptr: bf16 [T, C], the rows of the call.
        stride_row: from one to the next.
        before: where the row lies if it is none of them; with OVERLAP what lies there.
        channels: int32 [D].
        known: whether there are such channels.
        OVERLAP: constexpr.
    """
    at = rows_ptr + place * stride_row
    if OVERLAP:
        row = tl.load(at + channels, mask=known & (place >= 0), other=0.0)
        row = tl.where(place >= 0, row, before)
    else:
        # one load serves both sources: its address is chosen, not its result.
        row = tl.load(tl.where(place >= 0, at, before) + channels, mask=known, other=0.0)
    return row


@triton.jit
def conv_gates_kernel(
    x_ptr,  # bf16 [T, C]
    gates_ptr,  # bf16 [T, 2 H]: a | b; or, with INPUTS, bf16 [T, INPUTS]: what they are made of
    gates_weight_ptr,  # bf16 [2 H, INPUTS]; not read without INPUTS
    weight_ptr,  # int64 [C]: four bf16 taps
    decay_rate_ptr,  # fp32 [H]
    dt_bias_ptr,  # fp32 [H]
    tails_ptr,  # bf16 [2, 3, C]
    raw_ptr,  # bf16 [2, 32, C]
    k_ptr,  # fp32 [2, 32, G, D]
    decay_ptr,  # fp32 [2, 32, H]
    parity_ptr,  # int32 [1]
    num_pending_ptr,  # int32 [1]
    pending_rows_ptr,  # int32 [32]
    parents_ptr,  # int32 [32]
    q_ptr,  # fp32 [T, G, D]
    v_ptr,  # bf16 [T, H, D]
    beta_ptr,  # fp32 [T, H]
    stride_x_row,
    stride_gates_row,
    stride_gates_weight_row,
    KEY_HEADS: constexpr,
    VALUE_HEADS: constexpr,
    HEAD_LANES: constexpr,
    D: constexpr,
    PAIRS: constexpr,
    Q_SCALE: constexpr,
    INPUTS: constexpr,
    OVERLAP: constexpr,
) -> None:
    """Write one head of one row, or its gates, or the gates of all heads of a row.

    Gates come first, as a product takes longest. Row 0 writes the tail before it.
    """
    WIDTH: constexpr = (2 * KEY_HEADS + VALUE_HEADS) * D
    NUM_GATES: constexpr = VALUE_HEADS if INPUTS else 1
    place, row = tl.program_id(0), tl.program_id(1)
    if OVERLAP:
        gdc_launch_dependents()
    parity = tl.load(parity_ptr)
    if place < NUM_GATES:
        if INPUTS:
            store_product_gates(
                gates_ptr, gates_weight_ptr, decay_rate_ptr, dt_bias_ptr, decay_ptr, beta_ptr,
                place, row, parity, stride_gates_row, stride_gates_weight_row,
                INPUTS, VALUE_HEADS, OVERLAP,
            )  # fmt: skip
        else:
            store_gates(
                gates_ptr, decay_rate_ptr, dt_bias_ptr, decay_ptr, beta_ptr, row, parity,
                stride_gates_row, VALUE_HEADS, HEAD_LANES, OVERLAP,
            )  # fmt: skip
    else:
        head = place - NUM_GATES
        channels = head * D + tl.arange(0, D)
        known = channels < WIDTH
        packed = tl.load(weight_ptr + channels, mask=known, other=0)
        num_pending = tl.load(num_pending_ptr)
        tail_ptr = tails_ptr + (1 - parity) * (3 * WIDTH)
        last_ptr = raw_ptr + (1 - parity) * (32 * WIDTH)
        one = _older(row, parents_ptr)
        two = _older(one, parents_ptr)
        three = _older(two, parents_ptr)
        first = _row_before(one, tail_ptr, last_ptr, pending_rows_ptr, num_pending, WIDTH)
        second = _row_before(two, tail_ptr, last_ptr, pending_rows_ptr, num_pending, WIDTH)
        third = _row_before(three, tail_ptr, last_ptr, pending_rows_ptr, num_pending, WIDTH)
        if OVERLAP:
            # tables, tails and pending rows are older than the predecessor; x is not
            first = tl.load(first + channels, mask=known & (one < 0), other=0.0)
            second = tl.load(second + channels, mask=known & (two < 0), other=0.0)
            third = tl.load(third + channels, mask=known & (three < 0), other=0.0)
            gdc_wait()
        newest = tl.load(x_ptr + row * stride_x_row + channels)
        first = _load_row(one, x_ptr, stride_x_row, first, channels, known, OVERLAP)
        second = _load_row(two, x_ptr, stride_x_row, second, channels, known, OVERLAP)
        third = _load_row(three, x_ptr, stride_x_row, third, channels, known, OVERLAP)

        y = convolve(third, second, first, newest, packed)
        y32 = tl.reshape(y.to(tl.float32), (1, D))
        length = tl.sqrt_rn(sum_rows(y32 * y32, 1, 0, PAIRS) + 1e-6)
        unit = tl.reshape(y32 * tl.div_rn(1.0, length), (D,))

        is_q, is_v = head < KEY_HEADS, head >= 2 * KEY_HEADS
        within = tl.arange(0, D)
        key_head, value_head = head - KEY_HEADS, head - 2 * KEY_HEADS
        q_at = (row * KEY_HEADS + head) * D + within
        tl.store(q_ptr + q_at, unit * Q_SCALE, mask=known & is_q)
        k_at = ((parity * 32 + row) * KEY_HEADS + key_head) * D + within
        tl.store(k_ptr + k_at, unit, mask=known & (key_head >= 0) & (value_head < 0))
        v_at = (row * VALUE_HEADS + value_head) * D + within
        tl.store(v_ptr + v_at, y, mask=known & is_v)

        tl.store(raw_ptr + (parity * 32 + row) * WIDTH + channels, newest)
        written_ptr = tails_ptr + parity * (3 * WIDTH) + channels
        is_first = known & (row == 0)
        tl.store(written_ptr, third, mask=is_first)
        tl.store(written_ptr + WIDTH, second, mask=is_first)
        tl.store(written_ptr + 2 * WIDTH, first, mask=is_first)


@triton.jit
def conv_fold_kernel(
    tails_ptr,  # bf16 [layers, 2, 3, C]
    raw_ptr,  # bf16 [layers, 2, 32, C]
    parity_ptr,  # int32 [1]
    num_pending_ptr,  # int32 [1]
    pending_rows_ptr,  # int32 [32]
    WIDTH: constexpr,
    LANES: constexpr,
) -> None:
    """Write the tail behind the pending rows of some channels of one layer to both halves."""
    channels = tl.program_id(0) * LANES + tl.arange(0, LANES)
    layer = tl.program_id(1).to(tl.int64)
    mask = channels < WIDTH
    parity, num_pending = tl.load(parity_ptr), tl.load(num_pending_ptr)
    tails_ptr += layer * (2 * 3 * WIDTH)
    tail_ptr = tails_ptr + (1 - parity) * (3 * WIDTH)
    last_ptr = raw_ptr + (layer * 2 + 1 - parity) * (32 * WIDTH)
    third_ptr = _row_before(-3, tail_ptr, last_ptr, pending_rows_ptr, num_pending, WIDTH)
    third = tl.load(third_ptr + channels, mask=mask)
    second_ptr = _row_before(-2, tail_ptr, last_ptr, pending_rows_ptr, num_pending, WIDTH)
    second = tl.load(second_ptr + channels, mask=mask)
    first_ptr = _row_before(-1, tail_ptr, last_ptr, pending_rows_ptr, num_pending, WIDTH)
    first = tl.load(first_ptr + channels, mask=mask)
    for half in tl.static_range(2):  # pyright: ignore[reportGeneralTypeIssues]
        written_ptr = tails_ptr + half * (3 * WIDTH) + channels
        tl.store(written_ptr, third, mask=mask)
        tl.store(written_ptr + WIDTH, second, mask=mask)
        tl.store(written_ptr + 2 * WIDTH, first, mask=mask)
