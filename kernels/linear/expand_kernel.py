"""Hold the device code that widens stored weights to bf16, one kernel a format.

A program widens a few rows of one or more steps of 128 inputs; every element is computed by the
fp32 operations that `reference.py` names, in its order, so the bits are equal. Launch with
`enable_fp_fusion=False`.
"""

import triton
import triton.language as tl

from kernels.common.typing import constexpr
from kernels.linear.middle_operand import e2m1_pairs
from kernels.linear.nvfp4_steps import load_codes, load_scales


@triton.jit
def _value(bits) -> tl.tensor:
    """Turn an e2m1 number that `e2m1_pairs` placed in the upper half of a word into fp32, exactly.

    As a bf16 number it is 2^126 times too small, subnormals included.
    """
    return bits.to(tl.float32, bitcast=True) * 8.507059173023462e37


@triton.jit
def expand_nvfp4_kernel(
    codes_ptr,  # uint8 [N, Kp / 2] or, SPREAD, words of eight codes int32 [N, Kp / 8]
    runs_ptr,  # bytes of scale_runs
    row_scales_ptr,  # fp32 [N]
    out_ptr,  # bf16 [N, K]
    num_outputs,
    num_inputs,
    num_steps,
    stride_out_row,
    STEPS: constexpr,
    SPREAD: constexpr,
) -> None:
    """Write e2m1(code) * (float(scale) * multiplier) of 16 rows x STEPS steps, rounded once.

    `SPREAD`: the codes are in the order of `spread.py`.
    """
    width: constexpr = STEPS * 64
    tile = tl.program_id(1)
    first_step = tl.program_id(0) * STEPS
    rows = tile * 16 + tl.arange(0, 16)
    inside = (rows < num_outputs)[:, None]
    codes = load_codes(codes_ptr, tile, first_step, num_outputs, num_steps, STEPS, SPREAD)
    pairs = e2m1_pairs(codes, SPREAD, NATIVE=False)

    scales = load_scales(runs_ptr, tile, first_step, num_steps, STEPS)
    multiplier = tl.load(row_scales_ptr + rows, mask=rows < num_outputs, other=0.0)
    scales = scales * multiplier[:, None]
    scales = tl.broadcast_to(scales[:, :, None], (16, STEPS * 8, 8))
    scales = tl.reshape(scales, (16, width))

    low = (_value(pairs << 16) * scales).to(tl.bfloat16)
    high = (_value(pairs & 0xFFFF0000) * scales).to(tl.bfloat16)
    values = tl.reshape(tl.join(low, high), (16, 2 * width))
    inputs = first_step * 128 + tl.arange(0, 2 * width)
    out_at = out_ptr + rows.to(tl.int64)[:, None] * stride_out_row + inputs[None, :]
    tl.store(out_at, values, mask=inside & (inputs < num_inputs)[None, :])


@triton.jit
def expand_e4m3_kernel(
    codes_ptr,  # e4m3 bytes [N, Kp]
    scales_ptr,  # fp32 [ceil(N / 128), Kp / 128], or [N] with BY_ROW
    out_ptr,  # bf16 [N, K]
    num_outputs,
    num_inputs,
    num_steps,
    stride_out_row,
    ROWS: constexpr,
    BY_ROW: constexpr,
) -> None:
    """Write float(code) * scale of ROWS rows x one step, rounded once; ROWS divides 128."""
    first_row = tl.program_id(1) * ROWS
    step = tl.program_id(0)
    rows = first_row + tl.arange(0, ROWS)
    inside = (rows < num_outputs)[:, None]
    inputs = step * 128 + tl.arange(0, 128)
    codes_at = codes_ptr + rows.to(tl.int64)[:, None] * (num_steps * 128) + inputs[None, :]
    codes = tl.load(codes_at, mask=inside, other=0)
    values = codes.to(tl.float8e4nv, bitcast=True).to(tl.float32)
    if BY_ROW:
        values *= tl.load(scales_ptr + rows, mask=rows < num_outputs, other=0.0)[:, None]
    else:
        values *= tl.load(scales_ptr + first_row // 128 * num_steps + step)
    out_at = out_ptr + rows.to(tl.int64)[:, None] * stride_out_row + inputs[None, :]
    mask = inside & (inputs < num_inputs)[None, :]
    tl.store(out_at, values.to(tl.bfloat16), mask=mask)
