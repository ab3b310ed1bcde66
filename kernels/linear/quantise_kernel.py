"""Hold the device code that rounds activations to e4m3: codes, and fp32 scales."""

import triton
import triton.language as tl

from kernels.common.typing import constexpr


@triton.jit(do_not_specialize=["num_rows"])
def quantise_steps_kernel(
    x_ptr,  # bf16 [T, K]
    codes_ptr,  # e4m3 [T, Kp]
    scales_ptr,  # fp32 [Kp / 128, T]
    num_rows,
    num_inputs,
    num_steps,
    stride_x_row,
    ROWS: constexpr,
) -> None:
    """Write e4m3(x / scale) and scale = max |x| / 448 of ROWS rows x one step of 128 inputs.

    The scale is at least 2^-126, so a quotient never divides by zero.
    """
    step = tl.program_id(0)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    inputs = step * 128 + tl.arange(0, 128)
    inside = (rows < num_rows)[:, None]
    x_at = x_ptr + rows.to(tl.int64)[:, None] * stride_x_row + inputs[None, :]
    x = tl.load(x_at, mask=inside & (inputs < num_inputs)[None, :], other=0.0).to(tl.float32)
    largest = tl.maximum(tl.max(tl.abs(x), axis=1), 448.0 * 1.1754943508222875e-38)
    scale = tl.div_rn(largest, 448.0)
    codes = tl.div_rn(x, tl.broadcast_to(scale[:, None], x.shape)).to(tl.float8e4nv)
    codes_at = codes_ptr + rows.to(tl.int64)[:, None] * (num_steps * 128) + inputs[None, :]
    tl.store(codes_at, codes, mask=inside)
    tl.store(scales_ptr + step.to(tl.int64) * num_rows + rows, scale, mask=rows < num_rows)


@triton.jit
def quantise_rows_kernel(
    x_ptr,  # bf16 [T, K]
    codes_ptr,  # e4m3 [T, Kp]
    scales_ptr,  # fp32 [T]
    num_inputs,
    num_padded,
    stride_x_row,
    WIDTH: constexpr,
) -> None:
    """Write e4m3(x / scale) and scale = max |x| / 448 of one row, WIDTH inputs at a time.

    The row is read twice, the second time from the cache.
    """
    row = tl.program_id(0).to(tl.int64)
    x_at = x_ptr + row * stride_x_row
    codes_at = codes_ptr + row * num_padded
    at = tl.arange(0, WIDTH)
    largest = tl.zeros((WIDTH,), tl.float32)
    for start in range(0, num_inputs, WIDTH):
        x = tl.load(x_at + start + at, mask=at < num_inputs - start, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.abs(x))
    limit = 448.0 * 1.1754943508222875e-38
    scale = tl.div_rn(tl.maximum(tl.max(largest), limit), 448.0)
    wide = tl.broadcast_to(scale, (WIDTH,))
    for start in range(0, num_padded, WIDTH):
        x = tl.load(x_at + start + at, mask=at < num_inputs - start, other=0.0).to(tl.float32)
        codes = tl.div_rn(x, wide).to(tl.float8e4nv)
        tl.store(codes_at + start + at, codes, mask=at < num_padded - start)
    tl.store(scales_ptr + row, scale)
