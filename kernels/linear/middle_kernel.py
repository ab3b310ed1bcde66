"""Hold the device code of the products for many rows: weights decoded in registers, one launch.

The product is computed transposed, out^T = W x^T, because the matrix instruction of Hopper takes
its first operand from registers: decoded weights never pass through shared memory, and Triton
issues the first of a step's instructions while the rest is decoded. The decoding of one group of
four warps overlaps with the instructions of another. On GPUs with the older instruction the same
source compiles to it.

`middle_operand.py` decodes. Steps are summed in their order, so a row's bits depend on the row, the
weight and the tile alone. Rows past the last are copies of others that nobody stores, so loads need
no mask. Row counts are not specialised. Launch with `MiddleTile.constants` and
`MiddleTile.options`.

`NATIVE` is the compute capability whose instructions may be named (90, 121), 0 in the interpreter.
"""

import triton
import triton.language as tl

from kernels.common.typing import constexpr
from kernels.linear.middle_operand import decoded


@triton.jit
def _place(
    program, num_row_tiles, num_columns, num_whole_columns, num_steps, num_slices, SPLIT: constexpr
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """Find what a program computes: its tile, slice (-1: whole), first step and last step + 1."""
    if not SPLIT:
        return program, program * 0 - 1, program * 0, num_steps
    num_whole = num_whole_columns * num_row_tiles
    num_split = num_columns * num_row_tiles - num_whole
    index = tl.maximum(program - num_whole, 0) // num_split
    slice_steps = tl.cdiv(num_steps, num_slices)
    is_split = program >= num_whole
    first = tl.where(is_split, index * slice_steps, 0)
    end = tl.where(is_split, tl.minimum(first + slice_steps, num_steps), num_steps)
    return program - index * num_split, tl.where(is_split, index, -1), first, end


@triton.jit
def _finish_products(step) -> tl.tensor:
    """Wait until the matrix unit has read its first operand; Hopper.

    Its instructions read registers after they are issued. Triton 3.6 and 3.7 wait for those of a
    step after the next step was decoded, and ptxas gives their registers away where the loop begins
    again. Without this a build is right or wrong by the choice of registers: on an H200, one gave
    other bits in every run and one got about half of its outputs wrong.
    """
    return tl.inline_asm_elementwise(  # pyright: ignore[reportReturnType]
        "wgmma.wait_group.sync.aligned 0; mov.b32 $0, $1;", "=r,r", [step],
        dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@triton.jit(do_not_specialize=["num_rows", "num_steps", "num_slices"])
def middle_kernel(
    x_ptr,  # bf16 [T, K], or its tensor map with blocks of [TILE_T, 128]
    codes_ptr,  # bf16 [N, Kp], e4m3 pairs int16 [N, Kp / 2], e2m1 pairs uint8 [N, Kp / 2] or,
    # SPREAD, words of eight int32 [N, Kp / 8]
    scales_ptr,  # fp32 [ceil(N / 128), Kp / 128] or bytes of scale_runs; else unused
    row_scales_ptr,  # fp32 [N]; unused by bf16 and fp8_block
    out_ptr,  # bf16 or fp32 [T, N]
    slices_ptr,  # fp32 [num_slices, T, N - num_whole]; unused without SPLIT
    num_rows,
    num_outputs,
    num_inputs,
    num_steps,  # Kp / 128
    num_whole,  # outputs that are not split, a multiple of TILE_N
    num_slices,
    stride_x_row,
    stride_out_row,
    FORMAT: constexpr,
    TILE_N: constexpr,
    TILE_T: constexpr,
    SPLIT: constexpr,
    FOLD_SCALE: constexpr,
    SPREAD: constexpr,
    TENSOR_MAP: constexpr,
    MASK_INPUTS: constexpr,
    NATIVE: constexpr,
) -> None:
    """Write x W^T of the first num_whole outputs, and of the others the sums of slices of K.

    Without `SPLIT` all outputs are whole. `FOLD_SCALE` (fp8_block): the block's scale multiplies
    the weight, rounded to bf16, instead of the fp32 sum of the step. `SPREAD` (nvfp4):
    the codes are in the order of `spread.py`. `MASK_INPUTS`: K is no multiple of 128.
    """
    scales_sums: constexpr = FORMAT == "fp8_block" and not FOLD_SCALE
    scales_weight: constexpr = FORMAT == "nvfp4" or (FORMAT == "fp8_block" and FOLD_SCALE)
    width: constexpr = 128 if FORMAT == "bf16" else 16 if SPREAD else 64
    num_row_tiles = tl.cdiv(num_rows, TILE_T)
    tile, slice_index, first_step, end_step = _place(
        tl.program_id(0), num_row_tiles, tl.cdiv(num_outputs, TILE_N), num_whole // TILE_N,
        num_steps, num_slices, SPLIT,
    )  # fmt: skip
    first_row = (tile % num_row_tiles) * TILE_T
    first_output = (tile // num_row_tiles) * TILE_N
    outputs = tl.minimum(tl.arange(0, TILE_N), num_outputs - 1 - first_output)
    inputs = tl.arange(0, 128)
    # not the last row again and again: one address asked for by all programs is slow.
    rows = tl.arange(0, TILE_T) % tl.minimum(num_rows - first_row, TILE_T)
    x_offsets = rows[None, :] * stride_x_row + inputs[:, None]
    codes_at = codes_ptr + first_output.to(tl.int64) * (num_steps * width) + first_step * width
    code_offsets = outputs[:, None] * (num_steps * width) + tl.arange(0, width)[None, :]
    if FORMAT == "nvfp4":
        first_run = first_output // 16
        runs = tl.minimum(tl.arange(0, TILE_N // 16), tl.cdiv(num_outputs, 16) - 1 - first_run)
        scales_at = scales_ptr + first_run.to(tl.int64) * (num_steps * 128) + first_step * 128
        scale_offsets = (runs * (num_steps * 128))[:, None] + inputs[None, :]
        scale_stride: constexpr = 128
    else:
        scales_at = scales_ptr + first_step
        scale_offsets = ((first_output + outputs) // 128 * num_steps)[:, None]
        scale_stride: constexpr = 1

    total = tl.zeros((TILE_N, TILE_T), tl.float32)
    for step in range(first_step, end_step):
        codes = tl.load(codes_at + code_offsets)
        if SPREAD:
            codes = codes.to(tl.uint32, bitcast=True)
        if TENSOR_MAP:
            x = tl.trans(x_ptr.load([first_row, step * 128]))
        else:
            x_at = x_ptr + first_row.to(tl.int64) * stride_x_row + step * 128
            inside = (inputs < num_inputs - step * 128)[:, None] if MASK_INPUTS else None
            x = tl.load(x_at + x_offsets, mask=inside, other=0.0 if MASK_INPUTS else None)
        scales = tl.load(scales_at + scale_offsets) if scales_weight else None
        operand = decoded(codes, scales, TILE_N, FORMAT, SPREAD, NATIVE)
        if scales_sums:
            scale = tl.load(scales_at + first_output // 128 * num_steps)
            total += tl.dot(operand, x) * scale
        else:
            total = tl.dot(operand, x, total)
            if NATIVE == 90 and FORMAT != "bf16":
                _finish_products(step)
        scales_at += scale_stride
        codes_at += width

    at_row, at_output = tl.arange(0, TILE_T)[:, None], tl.arange(0, TILE_N)[None, :]
    mask = (at_row < num_rows - first_row) & (at_output < num_outputs - first_output)
    if slice_index >= 0:
        num_split = num_outputs - num_whole
        first = slice_index.to(tl.int64) * num_rows + first_row
        slice_at = slices_ptr + first * num_split + (first_output - num_whole)
        tl.store(slice_at + at_row * num_split + at_output, tl.trans(total), mask=mask)
    else:
        total = _scale_rows(total, row_scales_ptr + first_output + outputs, FORMAT)
        result = tl.trans(total.to(out_ptr.dtype.element_ty))
        out_at = out_ptr + first_row.to(tl.int64) * stride_out_row + first_output
        tl.store(out_at + at_row * stride_out_row + at_output, result, mask=mask)


@triton.jit
def _scale_rows(total, row_scales_at, FORMAT: constexpr) -> tl.tensor:
    """Multiply sums [TILE_N, TILE_T] by the multipliers of their weight rows."""
    if FORMAT == "nvfp4":
        total = total * (tl.load(row_scales_at) * 256.0)[:, None]
    elif FORMAT == "e4m3_row":
        total = total * tl.load(row_scales_at)[:, None]
    return total


@triton.jit(do_not_specialize=["num_rows"])
def add_slices_kernel(
    slices_ptr,  # fp32 [SLICES, T, N - num_whole]
    row_scales_ptr,  # fp32 [N]; unused by bf16 and fp8_block
    out_ptr,  # bf16 or fp32 [T, N]
    num_rows,
    num_outputs,
    num_whole,
    stride_out_row,
    FORMAT: constexpr,
    SLICES: constexpr,
    BLOCK: constexpr,
) -> None:
    """Add the slices of the split outputs in their order, scale and round as unsplit ones are."""
    row = tl.program_id(1).to(tl.int64)
    num_split = num_outputs - num_whole
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < num_split
    slice_at = slices_ptr + row * num_split
    total = tl.load(slice_at + at, mask=mask, other=0.0)
    for _ in tl.static_range(1, SLICES):  # pyright: ignore[reportGeneralTypeIssues]
        slice_at += num_rows.to(tl.int64) * num_split
        total += tl.load(slice_at + at, mask=mask, other=0.0)
    outputs = num_whole + at
    if FORMAT == "nvfp4":
        total *= tl.load(row_scales_ptr + outputs, mask=mask, other=0.0) * 256.0
    elif FORMAT == "e4m3_row":
        total *= tl.load(row_scales_ptr + outputs, mask=mask, other=0.0)
    out = total.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row * stride_out_row + outputs, out, mask=mask)
