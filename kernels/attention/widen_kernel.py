"""Hold the device code that widens keys and values: one program some slots of one head."""

import triton
import triton.language as tl

from kernels.common.typing import constexpr


@triton.jit(do_not_specialize=["capacity"])
def widen_kernel(
    keys_ptr,  # e4m3 as bytes [G, capacity, D]
    values_ptr,  # e4m3 as bytes [G, capacity, D]
    key_scales_ptr,  # fp32 [G]
    value_scales_ptr,  # fp32 [G]
    positions_ptr,  # int32 [2]
    out_ptr,  # bf16 [2, G, capacity, D]
    capacity,
    stride_keys_head,
    stride_values_head,
    D: constexpr,
    SLOTS: constexpr,
) -> None:
    """Multiply codes by the scale of their head; slots past the positions cost a return."""
    first = tl.program_id(0) * SLOTS
    # a store of many slots has more numbers than int32 counts
    group, kind = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    held = tl.load(positions_ptr + 1)
    if first >= held:
        return
    slots = (first + tl.arange(0, SLOTS)[:, None]).to(tl.int64)
    cols = tl.arange(0, D)[None, :]
    mask = (slots < held) & (cols < D)
    if kind == 0:
        codes_ptr, scale = keys_ptr + group * stride_keys_head, tl.load(key_scales_ptr + group)
    else:
        codes_ptr, scale = (
            values_ptr + group * stride_values_head,
            tl.load(value_scales_ptr + group),
        )
    codes = tl.load(codes_ptr + slots * D + cols, mask=mask, other=0)
    wide = codes.to(tl.float8e4nv, bitcast=True).to(tl.float32) * scale
    into = out_ptr + (kind * tl.num_programs(1) + group) * capacity * D
    tl.store(into + slots * D + cols, wide.to(tl.bfloat16), mask=mask)
