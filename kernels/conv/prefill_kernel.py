"""Hold the device code of the convolution of many rows: one program a head and block of rows.

The arithmetic of a row is that of a round (`kernel.py`): launch with `enable_fp_fusion=False`.
"""

import triton
import triton.language as tl

from kernels.common.typing import constexpr
from kernels.conv.gates_kernel import log_decay, write_share
from kernels.conv.kernel import convolve


@triton.jit
def _chain_row(x_ptr, tail_ptr, at, stride_x_row, channels, mask, WIDTH: constexpr) -> tl.tensor:
    """Load rows of a chain at int64 places from -3 on."""
    row = tl.load(x_ptr + at * stride_x_row + channels, mask=mask & (at >= 0), other=0.0)
    kept = tl.load(tail_ptr + (3 + at) * WIDTH + channels, mask=mask & (at < 0), other=0.0)
    return tl.where(at >= 0, row, kept)


@triton.jit
def _store_gates(
    ab_ptr, decay_rate_ptr, dt_bias_ptr, g_ptr, beta_ptr, rows, length, num_rows, stride_ab_row,
    VALUE_HEADS: constexpr, HEAD_LANES: constexpr,
) -> None:  # fmt: skip
    """Write the log decays and write shares of int64 rows [ROWS, 1]; zeros from `length` on."""
    lanes = tl.arange(0, HEAD_LANES)[None, :]
    known = lanes < VALUE_HEADS
    mask = (rows < num_rows) & known
    a = tl.load(ab_ptr + rows * stride_ab_row + lanes, mask=mask, other=0.0)
    b = tl.load(ab_ptr + rows * stride_ab_row + VALUE_HEADS + lanes, mask=mask, other=0.0)
    rate = tl.load(decay_rate_ptr + lanes, mask=known, other=0.0)
    bias = tl.load(dt_bias_ptr + lanes, mask=known, other=0.0)
    is_text = rows < length
    g = tl.where(is_text, log_decay(a, rate, bias), 0.0)
    tl.store(g_ptr + rows * VALUE_HEADS + lanes, g, mask=mask)
    beta = tl.where(is_text, write_share(b), 0.0)
    tl.store(beta_ptr + rows * VALUE_HEADS + lanes, beta, mask=mask)


@triton.jit(do_not_specialize=["num_rows"])
def conv_prefill_kernel(
    x_ptr,  # bf16 [T, C]
    ab_ptr,  # bf16 [T, 2 H]
    weight_ptr,  # int64 [C]: four bf16 taps
    decay_rate_ptr,  # fp32 [H]
    dt_bias_ptr,  # fp32 [H]
    tail_in_ptr,  # bf16 [3, C]
    q_ptr,  # bf16 [T, G, D]
    k_ptr,  # bf16 [T, G, D]
    v_ptr,  # bf16 [T, H, D]
    g_ptr,  # fp32 [T, H]
    beta_ptr,  # bf16 [T, H]
    tail_out_ptr,  # bf16 [3, C]
    length_ptr,  # int32 [1], or any pointer where HAS_LENGTH is false
    num_rows,
    stride_x_row,
    stride_ab_row,
    stride_q_row,
    stride_k_row,
    stride_v_row,
    KEY_HEADS: constexpr,
    VALUE_HEADS: constexpr,
    HEAD_LANES: constexpr,
    D: constexpr,
    ROWS: constexpr,
    HAS_LENGTH: constexpr,
) -> None:
    """Write one head of a block of rows, or their gates; the first block writes the tail.

    Only the first block reads the old tail, and it writes the new one behind a barrier: the two
    may be one tensor.
    """
    WIDTH: constexpr = (2 * KEY_HEADS + VALUE_HEADS) * D
    head = tl.program_id(1)
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)
    length = num_rows
    if HAS_LENGTH:
        length = tl.load(length_ptr)
    if head == 2 * KEY_HEADS + VALUE_HEADS:
        _store_gates(
            ab_ptr, decay_rate_ptr, dt_bias_ptr, g_ptr, beta_ptr, rows, length, num_rows,
            stride_ab_row, VALUE_HEADS, HEAD_LANES,
        )  # fmt: skip
    else:
        within = tl.arange(0, D)[None, :]
        channels = head * D + within
        packed = tl.load(weight_ptr + channels)
        mask = (rows < num_rows) & (within < D)
        third = _chain_row(x_ptr, tail_in_ptr, rows - 3, stride_x_row, channels, mask, WIDTH)
        second = _chain_row(x_ptr, tail_in_ptr, rows - 2, stride_x_row, channels, mask, WIDTH)
        first = _chain_row(x_ptr, tail_in_ptr, rows - 1, stride_x_row, channels, mask, WIDTH)
        newest = tl.load(x_ptr + rows * stride_x_row + channels, mask=mask, other=0.0)
        y = convolve(third, second, first, newest, packed)
        y = tl.where(rows < length, y, 0.0)

        key_head, value_head = head - KEY_HEADS, head - 2 * KEY_HEADS
        q_at = rows * stride_q_row + head * D + within
        tl.store(q_ptr + q_at, y, mask=mask & (key_head < 0))
        k_at = rows * stride_k_row + key_head * D + within
        tl.store(k_ptr + k_at, y, mask=mask & (key_head >= 0) & (value_head < 0))
        v_at = rows * stride_v_row + value_head * D + within
        tl.store(v_ptr + v_at, y, mask=mask & (value_head >= 0))

        if tl.program_id(0) == 0:
            last = tl.arange(0, 4)[:, None].to(tl.int64)
            kept = (last < 3) & (within < D)
            at = length - 3 + last
            row = _chain_row(x_ptr, tail_in_ptr, at, stride_x_row, channels, kept, WIDTH)
            tl.debug_barrier()
            tl.store(tail_out_ptr + last * WIDTH + channels, row, mask=kept)
