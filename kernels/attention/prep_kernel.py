"""Hold the device code that prepares attention: one program some rows of one query or key head.

Query and key heads run through one body and differ in masks alone. The sum of squares runs over
one fixed tree and every step is an IEEE operation (`common/exact.py`), so a head's bits are those
of `rms_norm` followed by the rotation, whatever the number of rows: launch with
`enable_fp_fusion=False`.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.common.exact import sum_rows
from kernels.common.typing import constexpr


@triton.jit
def _normed(x, inverse_rms, weight) -> tl.tensor:
    """Scale by 1 / rms and by 1 + weight; one rounding to bf16."""
    return ((x.to(tl.float32) * inverse_rms) * (1.0 + weight.to(tl.float32))).to(tl.bfloat16)


@triton.jit
def _times(x, y) -> tl.tensor:
    """Multiply bf16 numbers, rounded to bf16: the product is exact in fp32."""
    return (x.to(tl.float32) * y.to(tl.float32)).to(tl.bfloat16)


@triton.jit
def _codes(x, inverse_scale) -> tl.tensor:
    """Round bf16 numbers to the bytes of e4m3 codes; see `to_codes`."""
    scaled = x.to(tl.float32) * inverse_scale
    bounded = tl.minimum(tl.maximum(scaled, -448.0), 448.0)
    bounded = tl.where(tl.abs(scaled) < float("inf"), bounded, float("nan"))
    return bounded.to(tl.float8e4nv).to(tl.uint8, bitcast=True)


@triton.jit(do_not_specialize=["num_rows", "num_positions", "capacity"])
def attention_prep_kernel(
    q_ptr,  # bf16 [T, H * 2 D]: values, then gates, per head
    k_ptr,  # bf16 [T, G * D]
    v_ptr,  # bf16 [T, G * D]
    q_norm_ptr,  # bf16 or fp32 [D]
    k_norm_ptr,  # bf16 or fp32 [D]
    cos_ptr,  # bf16 [positions, R]
    sin_ptr,  # bf16 [positions, R]
    start_ptr,  # int32 [1]
    depths_ptr,  # int32 [>= T]
    keys_ptr,  # bf16 [G, capacity, D], or e4m3 as bytes
    values_ptr,  # bf16 [G, capacity, D], as keys
    key_scales_ptr,  # fp32 [G]
    value_scales_ptr,  # fp32 [G]
    out_ptr,  # bf16 [T, H, D]
    num_rows,
    num_positions,
    capacity,
    stride_q_row,
    stride_k_row,
    stride_v_row,
    stride_keys_head,
    stride_values_head,
    stride_out_row,
    eps,
    QUERY_HEADS: constexpr,
    D: constexpr,
    PAIRS: constexpr,
    HALF: constexpr,
    ROWS: constexpr,
    HAS_DEPTHS: constexpr,
    HAS_CODES: constexpr,
    OVERLAP: constexpr,
) -> None:
    """Normalise and rotate a query head into `out`, or a key head into its slot with its value."""
    head, group = tl.program_id(1), tl.program_id(1) - QUERY_HEADS
    is_q, is_k = group < 0, group >= 0
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)
    known = rows < num_rows
    cols = tl.arange(0, D)[None, :]
    near = tl.arange(0, HALF)[None, :]
    far = near + HALF
    weight_mask_q, weight_mask_k = is_q & (cols < D), is_k & (cols < D)
    half_mask_q, half_mask_k = is_q & (near < HALF), is_k & (near < HALF)

    weight = tl.load(q_norm_ptr + cols, mask=weight_mask_q, other=0.0) + tl.load(
        k_norm_ptr + cols, mask=weight_mask_k, other=0.0
    )
    weight_near = tl.load(q_norm_ptr + near, mask=half_mask_q, other=0.0) + tl.load(
        k_norm_ptr + near, mask=half_mask_k, other=0.0
    )
    weight_far = tl.load(q_norm_ptr + far, mask=half_mask_q, other=0.0) + tl.load(
        k_norm_ptr + far, mask=half_mask_k, other=0.0
    )
    if HAS_CODES:  # a power of two has an exact inverse
        key_inverse = tl.div_rn(1.0, tl.load(key_scales_ptr + group, mask=is_k, other=1.0))
        value_inverse = tl.div_rn(1.0, tl.load(value_scales_ptr + group, mask=is_k, other=1.0))
    if OVERLAP:
        gdc_launch_dependents()
    start = tl.load(start_ptr).to(tl.int64)
    positions = start + rows
    if HAS_DEPTHS:
        positions = start + tl.load(depths_ptr + rows, mask=known, other=0)
    angle = positions * (2 * HALF)
    turn = known & (positions < num_positions) & (near < HALF)
    cos_near = tl.load(cos_ptr + angle + near, mask=turn, other=0.0)
    cos_far = tl.load(cos_ptr + angle + far, mask=turn, other=0.0)
    sin_near = tl.load(sin_ptr + angle + near, mask=turn, other=0.0)
    sin_far = tl.load(sin_ptr + angle + far, mask=turn, other=0.0)
    if OVERLAP:
        gdc_wait()

    q_at = q_ptr + rows * stride_q_row + head * (2 * D)
    k_at = k_ptr + rows * stride_k_row + group * D
    q_mask, k_mask = known & is_q, known & is_k
    x = tl.load(q_at + cols, mask=q_mask & (cols < D), other=0.0)
    x = tl.where(is_q, x, tl.load(k_at + cols, mask=k_mask & (cols < D), other=0.0))
    # the rotated dimensions are read and normalised again rather than moved between threads.
    one = tl.load(q_at + near, mask=q_mask & (near < HALF), other=0.0)
    one = tl.where(is_q, one, tl.load(k_at + near, mask=k_mask & (near < HALF), other=0.0))
    two = tl.load(q_at + far, mask=q_mask & (near < HALF), other=0.0)
    two = tl.where(is_q, two, tl.load(k_at + far, mask=k_mask & (near < HALF), other=0.0))
    v_at = v_ptr + rows * stride_v_row + group * D + cols
    value = tl.load(v_at, mask=k_mask & (cols < D), other=0.0)

    x32 = x.to(tl.float32)
    mean = tl.div_rn(sum_rows(x32 * x32, ROWS, 0, PAIRS), D * 1.0)
    inverse_rms = tl.div_rn(1.0, tl.sqrt_rn(mean + eps))
    passed = _normed(x, inverse_rms, weight)
    one, two = _normed(one, inverse_rms, weight_near), _normed(two, inverse_rms, weight_far)
    turned_near = _times(one, cos_near).to(tl.float32) - _times(two, sin_near).to(tl.float32)
    turned_far = _times(two, cos_far).to(tl.float32) + _times(one, sin_far).to(tl.float32)
    turned_near, turned_far = turned_near.to(tl.bfloat16), turned_far.to(tl.bfloat16)

    slots = start + rows
    stored = k_mask & (slots < capacity)
    out_at = out_ptr + rows * stride_out_row + head * D
    keys_at = keys_ptr + group * stride_keys_head.to(tl.int64) + slots * D
    values_at = values_ptr + group * stride_values_head.to(tl.int64) + slots * D
    tl.store(out_at + cols, passed, mask=q_mask & (cols >= 2 * HALF))
    tl.store(out_at + near, turned_near, mask=q_mask & (near < HALF))
    tl.store(out_at + far, turned_far, mask=q_mask & (near < HALF))
    if HAS_CODES:
        passed, turned_near = _codes(passed, key_inverse), _codes(turned_near, key_inverse)
        turned_far = _codes(turned_far, key_inverse)
        value = _codes(value, value_inverse)
    tl.store(keys_at + cols, passed, mask=stored & (cols >= 2 * HALF))
    tl.store(keys_at + near, turned_near, mask=stored & (near < HALF))
    tl.store(keys_at + far, turned_far, mask=stored & (near < HALF))
    tl.store(values_at + cols, value, mask=stored & (cols < D))
