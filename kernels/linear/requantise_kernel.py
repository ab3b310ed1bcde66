"""Hold the device code that finds by how much each row of a 4-bit weight is moved to fill e4m3."""

import triton
import triton.language as tl

from kernels.common.typing import constexpr


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
