"""Hold the device code of the norms: one program a block of rows, a whole row in one block.

Rows of a block share nothing but the weight, and the sum of squares runs over one fixed tree, so a
row's bits depend on the row alone: not on how many rows the call has, nor on the tile. Addresses
are int64. Row and head counts are not specialised: one binary serves every count. Launch with
`NormTile.constants` and `NormTile.options`. With OVERLAP a kernel reads its weight before it waits
for the kernel before it.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.common.exact import silu, sum_rows
from kernels.common.store_operands import store_operands
from kernels.common.typing import constexpr


@triton.jit
def _inverse_rms(
    x, eps, WIDTH: constexpr, ROWS: constexpr, FOLDS: constexpr, PAIRS: constexpr
) -> tl.tensor:
    """Compute 1 / sqrt(mean(x^2) + eps) of each row in fp32, every step correctly rounded."""
    mean = tl.div_rn(sum_rows(x * x, ROWS, FOLDS, PAIRS), WIDTH * 1.0)
    return tl.div_rn(1.0, tl.sqrt_rn(mean + eps))


@triton.jit(do_not_specialize=["num_rows"])
def rms_norm_kernel(
    x_ptr,  # bf16 [T, D]
    weight_ptr,  # bf16 or fp32 [D]
    out_ptr,  # bf16 [T, D]
    image_ptr,  # the operands of out, written where ORDER is not 0
    largest_ptr,
    num_rows,
    stride_x_row,
    stride_out_row,
    eps,
    WIDTH: constexpr,
    LANES: constexpr,
    ROWS: constexpr,
    FOLDS: constexpr,
    PAIRS: constexpr,
    ORDER: constexpr,
    OVERLAP: constexpr,
) -> None:
    """Write x / rms(x) * (1 + weight); one rounding to bf16."""
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)
    cols = tl.arange(0, LANES)[None, :]
    mask = (rows < num_rows) & (cols < WIDTH)
    weight = tl.load(weight_ptr + cols, mask=cols < WIDTH, other=0.0).to(tl.float32)
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    x = tl.load(x_ptr + rows * stride_x_row + cols, mask=mask, other=0.0).to(tl.float32)
    normed = x * _inverse_rms(x, eps, WIDTH, ROWS, FOLDS, PAIRS)
    out = (normed * (1.0 + weight)).to(tl.bfloat16)
    tl.store(out_ptr + rows * stride_out_row + cols, out, mask=mask)
    if ORDER:
        store_operands(
            out, rows, num_rows, 0, image_ptr, largest_ptr, WIDTH, LANES, WIDTH, ROWS, ORDER
        )


@triton.jit(do_not_specialize=["num_rows"])
def add_rms_norm_kernel(
    x_ptr,  # bf16 [T, D]
    residual_ptr,  # bf16 [T, D]
    weight_ptr,  # bf16 or fp32 [D]
    out_ptr,  # bf16 [T, D]
    residual_out_ptr,  # bf16 [T, D]
    image_ptr,  # the operands of out, written where ORDER is not 0
    largest_ptr,
    num_rows,
    stride_x_row,
    stride_residual_row,
    stride_out_row,
    stride_residual_out_row,
    eps,
    WIDTH: constexpr,
    LANES: constexpr,
    ROWS: constexpr,
    FOLDS: constexpr,
    PAIRS: constexpr,
    ORDER: constexpr,
    OVERLAP: constexpr,
) -> None:
    """Write the sum rounded to bf16, and the norm of that rounded sum."""
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)
    cols = tl.arange(0, LANES)[None, :]
    mask = (rows < num_rows) & (cols < WIDTH)
    weight = tl.load(weight_ptr + cols, mask=cols < WIDTH, other=0.0).to(tl.float32)
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    x = tl.load(x_ptr + rows * stride_x_row + cols, mask=mask, other=0.0).to(tl.float32)
    residual_at = rows * stride_residual_row + cols
    residual = tl.load(residual_ptr + residual_at, mask=mask, other=0.0).to(tl.float32)
    total = (residual + x).to(tl.bfloat16)
    tl.store(residual_out_ptr + rows * stride_residual_out_row + cols, total, mask=mask)
    # the model stores the sum before it normalises it, so the norm reads the rounded one.
    total = total.to(tl.float32)
    normed = total * _inverse_rms(total, eps, WIDTH, ROWS, FOLDS, PAIRS)
    out = (normed * (1.0 + weight)).to(tl.bfloat16)
    tl.store(out_ptr + rows * stride_out_row + cols, out, mask=mask)
    if ORDER:
        store_operands(
            out, rows, num_rows, 0, image_ptr, largest_ptr, WIDTH, LANES, WIDTH, ROWS, ORDER
        )


@triton.jit(do_not_specialize=["num_rows", "num_heads"])
def gated_rms_norm_kernel(
    x_ptr,  # bf16 [T, H, D]
    gate_ptr,  # bf16 [T, H, D]
    weight_ptr,  # bf16 or fp32 [D]
    out_ptr,  # bf16 [T, H, D]
    image_ptr,  # the operands of out [T, H * D], written where ORDER is not 0
    largest_ptr,
    num_rows,  # T * H
    num_heads,
    stride_x_token,
    stride_x_head,
    stride_gate_token,
    stride_gate_head,
    stride_out_token,
    stride_out_head,
    eps,
    WIDTH: constexpr,
    LANES: constexpr,
    ROWS: constexpr,
    FOLDS: constexpr,
    PAIRS: constexpr,
    ROUND_PRODUCT: constexpr,
    INPUTS: constexpr,
    ORDER: constexpr,
    OVERLAP: constexpr,
) -> None:
    """Write x / rms(x) * weight * silu(gate) with the model's rounding points.

    `ROUND_PRODUCT`: the weight is bf16, so the model's product with it is rounded to bf16.
    `INPUTS`: H * D, of operands, for which D is a multiple of 128.
    """
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)
    token, head = rows // num_heads, rows % num_heads
    cols = tl.arange(0, LANES)[None, :]
    mask = (rows < num_rows) & (cols < WIDTH)
    x_at = token * stride_x_token + head * stride_x_head + cols
    gate_at = token * stride_gate_token + head * stride_gate_head + cols
    out_at = token * stride_out_token + head * stride_out_head + cols
    weight = tl.load(weight_ptr + cols, mask=cols < WIDTH, other=0.0).to(tl.float32)
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    x = tl.load(x_ptr + x_at, mask=mask, other=0.0).to(tl.float32)
    gate = tl.load(gate_ptr + gate_at, mask=mask, other=0.0).to(tl.float32)
    normed = x * _inverse_rms(x, eps, WIDTH, ROWS, FOLDS, PAIRS)
    scaled = normed.to(tl.bfloat16).to(tl.float32) * weight
    if ROUND_PRODUCT:
        scaled = scaled.to(tl.bfloat16).to(tl.float32)
    out = (scaled * silu(gate)).to(tl.bfloat16)
    tl.store(out_ptr + out_at, out, mask=mask)
    if ORDER:
        store_operands(
            out, token, num_rows // num_heads, (head * WIDTH).to(tl.int32),
            image_ptr, largest_ptr, INPUTS, LANES, WIDTH, ROWS, ORDER,
        )  # fmt: skip
