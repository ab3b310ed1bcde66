"""Hold the device code of the embedding: a program copies a piece of one row."""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.common.typing import constexpr


@triton.jit(do_not_specialize=["num_ids"])
def embed_kernel(
    ids_ptr,  # int32 [T]
    table_ptr,  # bf16 [V, D]
    out_ptr,  # bf16 [T, D]
    num_ids,  # V
    stride_table_row,
    stride_out_row,
    WIDTH: constexpr,
    LANES: constexpr,
    OVERLAP: constexpr,
) -> None:
    """Copy the row of an id; zeros for an id that the table does not hold."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * LANES + tl.arange(0, LANES)
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    token = tl.load(ids_ptr + row).to(tl.int64)
    held = (token >= 0) & (token < num_ids) & (cols < WIDTH)
    values = tl.load(table_ptr + token * stride_table_row + cols, mask=held, other=0.0)
    tl.store(out_ptr + row * stride_out_row + cols, values, mask=cols < WIDTH)
