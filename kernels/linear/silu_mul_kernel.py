"""Hold the device code of silu(gate) * up: element by element, so a row's bits are its own."""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.common.exact import silu
from kernels.common.store_operands import store_operands
from kernels.common.typing import constexpr


@triton.jit(do_not_specialize=["num_rows"])
def silu_mul_kernel(
    gate_ptr,  # bf16 [T, N]
    up_ptr,  # bf16 [T, N]
    out_ptr,  # bf16 [T, N]
    image_ptr,  # the operands of out, written where ORDER is not 0
    largest_ptr,
    num_rows,
    stride_gate_row,
    stride_up_row,
    stride_out_row,
    WIDTH: constexpr,
    LANES: constexpr,
    ORDER: constexpr,
    OVERLAP: constexpr,
) -> None:
    """Write bf16(bf16(silu(gate)) * up) for LANES columns of one row."""
    rows = (tl.program_id(0) + tl.arange(0, 1)[:, None]).to(tl.int64)
    first = tl.program_id(1) * LANES
    cols = first + tl.arange(0, LANES)[None, :]
    mask = (rows < num_rows) & (cols < WIDTH)
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    gate = tl.load(gate_ptr + rows * stride_gate_row + cols, mask=mask, other=0.0)
    up = tl.load(up_ptr + rows * stride_up_row + cols, mask=mask, other=0.0).to(tl.float32)
    gated = silu(gate.to(tl.float32)).to(tl.bfloat16).to(tl.float32)
    out = (gated * up).to(tl.bfloat16)
    tl.store(out_ptr + rows * stride_out_row + cols, out, mask=mask)
    if ORDER:
        store_operands(
            out, rows, num_rows, first, image_ptr, largest_ptr, WIDTH, LANES, LANES, 1, ORDER
        )
