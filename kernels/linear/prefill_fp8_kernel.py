"""Hold the device code of products of two e4m3 matrices on the FP8 tensor cores."""

import triton
import triton.language as tl

from kernels.common.typing import constexpr


@triton.jit(do_not_specialize=["num_rows", "num_steps"])
def prefill_fp8_kernel(
    x_map,  # tensor map of e4m3 [T, Kp], blocks of [TILE_T, 128]
    x_scales_ptr,  # fp32 [Kp / 128, T], or [T] with BY_ROW
    codes_map,  # tensor map of e4m3 [N, Kp], blocks of [TILE_N, 128]
    scales_ptr,  # fp32 [ceil(N / 128), Kp / 128], or [N] with BY_ROW
    out_ptr,  # bf16 [T, N]
    num_rows,
    num_outputs,
    num_steps,
    stride_out_row,
    TILE_T: constexpr,
    TILE_N: constexpr,
    BY_ROW: constexpr,
) -> None:
    """Write the product of two scaled e4m3 matrices; TILE_N divides 128 unless `BY_ROW`.

    The scales of rows and blocks meet the sum of each step, a weight row's the sum of all. The copy
    engine loads both operands and fills what lies outside with zeros. Programs of one column of
    weight tiles are neighbours, eight row tiles deep, so that both operands of a wave stay in the
    cache.
    """
    num_row_tiles, num_columns = tl.cdiv(num_rows, TILE_T), tl.cdiv(num_outputs, TILE_N)
    group = tl.program_id(0) // (8 * num_columns)
    depth = tl.minimum(num_row_tiles - group * 8, 8)
    within = tl.program_id(0) % (8 * num_columns)
    first_row = (group * 8 + within % depth) * TILE_T
    first_output = within // depth * TILE_N
    at_row, at_output = tl.arange(0, TILE_T), tl.arange(0, TILE_N)
    x_scales_at = x_scales_ptr + tl.minimum(first_row + at_row, num_rows - 1)
    scales_at = scales_ptr + first_output // 128 * num_steps

    total = tl.zeros((TILE_T, TILE_N), tl.float32)
    for step in range(num_steps):
        x = x_map.load([first_row, step * 128])
        codes = codes_map.load([first_output, step * 128])
        scale = tl.load(x_scales_at)
        if not BY_ROW:
            scale *= tl.load(scales_at + step)
            x_scales_at += num_rows
        total += tl.dot(x, tl.trans(codes)) * scale[:, None]
    if BY_ROW:
        outputs = tl.minimum(first_output + at_output, num_outputs - 1)
        total *= tl.load(scales_ptr + outputs)[None, :]

    out_at = out_ptr + first_row.to(tl.int64) * stride_out_row + first_output
    mask = (at_row < num_rows - first_row)[:, None] & (at_output < num_outputs - first_output)
    out_offsets = at_row[:, None] * stride_out_row + at_output[None, :]
    tl.store(out_at + out_offsets, total.to(tl.bfloat16), mask=mask)
