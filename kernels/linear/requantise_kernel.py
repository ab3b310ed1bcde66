"""Hold the device code that rounds a 4-bit weight to e4m3 codes with one multiplier a row."""

import triton
import triton.language as tl

from kernels.common.typing import constexpr
from kernels.linear.middle_operand import e2m1_pairs
from kernels.linear.nvfp4_steps import load_codes, load_scales


@triton.jit
def row_factors_kernel(
    runs_ptr,  # bytes of scale_runs
    row_scales_ptr,  # fp32 [N]
    factors_ptr,  # fp32 [N]
    scales_ptr,  # fp32 [N]
    num_outputs,
    num_steps,
    STEPS: constexpr,
) -> None:
    """Write a power of two for each of 16 rows, and the row's multiplier over it.

    The row's largest group scale times the factor lies in [32, 64), so that a product with a code,
    at most 6, stays below 360. Scales have no sign: the largest byte is the largest number. STEPS
    steps of scale runs are read at once.
    """
    tile = tl.program_id(0)
    at_step, at_byte = tl.arange(0, STEPS)[:, None], tl.arange(0, 128)[None, :]
    runs_at = runs_ptr + tile.to(tl.int64) * num_steps * 128 + at_step * 128 + at_byte
    largest = tl.zeros((STEPS, 128), tl.int32)
    for step in range(0, num_steps, STEPS):
        known = at_step < num_steps - step
        runs = tl.load(runs_at + step * 128, mask=known, other=0)
        largest = tl.maximum(largest, runs.to(tl.int32))
    of_byte = tl.reshape(tl.max(largest, axis=0), (8, 4, 2, 2))  # g, t, half, pair
    of_row = tl.max(tl.max(of_byte, axis=3), axis=1)
    of_row = tl.reshape(tl.trans(of_row), (16,)).to(tl.uint8)
    numbers = of_row.to(tl.float8e4nv, bitcast=True).to(tl.float32)
    numbers = tl.maximum(numbers, 0.001953125)  # 2^-9, the smallest: a row of zeros stays zeros
    exponents = numbers.to(tl.int32, bitcast=True) >> 23
    factors = ((259 - exponents) << 23).to(tl.float32, bitcast=True)
    inverses = ((exponents - 5) << 23).to(tl.float32, bitcast=True)
    rows = tile * 16 + tl.arange(0, 16)
    inside = rows < num_outputs
    multipliers = tl.load(row_scales_ptr + rows, mask=inside, other=0.0)
    tl.store(factors_ptr + rows, factors, mask=inside)
    tl.store(scales_ptr + rows, multipliers * inverses, mask=inside)


@triton.jit
def _rounded_pairs(pairs, scales, NATIVE: constexpr) -> tl.tensor:
    """Multiply pairs of e2m1 numbers by scales and round both products to e4m3, once.

    Args:
        pairs: uint32, two fp16 numbers 2^14 times too small (`e2m1_pairs`).
        scales: uint32, the group's scale x its row's factor x 2^8 as fp16, twice.
        NATIVE: three instructions for two weights; the other branch serves the interpreter.

    Returns:
        uint16, the even input in the low byte. Every product is exact in fp16: a multiple of 2^-19
        with six significant bits, and 2^6 times that.
    """
    if NATIVE:
        return tl.inline_asm_elementwise(  # pyright: ignore[reportReturnType]
            "{.reg .b32 t, u; mov.b32 u, 0x54005400; mul.rn.f16x2 t, $1, $2; "
            "mul.rn.f16x2 t, t, u; cvt.rn.satfinite.e4m3x2.f16x2 $0, t;}",
            "=h,r,r", [pairs, scales], dtype=tl.uint16, is_pure=True, pack=1,
        )  # fmt: skip
    low = _rounded(pairs, scales)
    high = _rounded(pairs >> 16, scales >> 16)
    return low | (high << 8)


@triton.jit
def _rounded(left, right) -> tl.tensor:
    """Multiply the low halves of two words as fp16 numbers x 2^6, and round to an e4m3 byte."""
    one = (left & 0xFFFF).to(tl.uint16).to(tl.float16, bitcast=True).to(tl.float32)
    other = (right & 0xFFFF).to(tl.uint16).to(tl.float16, bitcast=True).to(tl.float32)
    code = (one * other * 64.0).to(tl.float8e4nv)
    return code.to(tl.uint8, bitcast=True).to(tl.uint16)


@triton.jit
def requantise_kernel(
    codes_ptr,  # uint8 [N, Kp / 2] or, SPREAD, words of eight codes int32 [N, Kp / 8]
    runs_ptr,  # bytes of scale_runs
    factors_ptr,  # fp32 [N]
    out_ptr,  # pairs of e4m3, uint16 [N, Kp / 2]
    num_outputs,
    num_steps,
    STEPS: constexpr,
    SPREAD: constexpr,
    NATIVE: constexpr,
) -> None:
    """Write e4m3(e2m1(code) * float(scale) * factor) of 16 rows x STEPS steps.

    `SPREAD`: the codes are in the order of `spread.py`.
    """
    width: constexpr = STEPS * 64
    tile, first_step = tl.program_id(1), tl.program_id(0) * STEPS
    rows = tile * 16 + tl.arange(0, 16)
    inside = (rows < num_outputs)[:, None]
    codes = load_codes(codes_ptr, tile, first_step, num_outputs, num_steps, STEPS, SPREAD)
    pairs = e2m1_pairs(codes, SPREAD, NATIVE, HALF=True)

    scales = load_scales(runs_ptr, tile, first_step, num_steps, STEPS)
    factors = tl.load(factors_ptr + rows, mask=rows < num_outputs, other=0.0) * 256.0
    halves = (scales * factors[:, None]).to(tl.float16).to(tl.uint16, bitcast=True).to(tl.uint32)
    words = tl.broadcast_to((halves | (halves << 16))[:, :, None], (16, STEPS * 8, 8))
    words = tl.reshape(words, (16, width))

    out = _rounded_pairs(pairs, words, NATIVE)
    at_pair = first_step * 64 + tl.arange(0, width)
    out_at = out_ptr + rows.to(tl.int64)[:, None] * (num_steps * 64) + at_pair[None, :]
    tl.store(out_at, out, mask=inside & (at_pair < num_steps * 64)[None, :])
