"""Hold the device code of the gates: decay and write share, from a and b or what they are made of.

The product of a row adds `PRODUCT_LANES` sums side by side over the inputs and then these by one
fixed tree; products and sums are rounded apart. So its bits depend on the row alone.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_wait

from kernels.common.exact import exp, sum_rows
from kernels.common.typing import constexpr
from kernels.conv.arguments import PRODUCT_LANES

_LANES: tl.constexpr = tl.constexpr(PRODUCT_LANES)
_PAIRS: tl.constexpr = tl.constexpr(PRODUCT_LANES.bit_length() - 1)


@triton.jit
def softplus(x) -> tl.tensor:
    """Compute log(1 + e^x) in fp32 by IEEE operations alone.

    max(x, 0) + log(1 + z) with z = e^-|x|, and log(1 + z) = 2 atanh(s) with s = z / (2 + z) <= 1/3
    by its series to s^15 (remainder 1.6e-9 of it). Above 20 the second term is below half a unit:
    the result is x itself.
    """
    z = exp(-tl.abs(x))
    s = tl.div_rn(z, 2.0 + z)
    square = s * s
    p = square * 6.6666666666666667e-02 + 7.6923076923076923e-02
    p = p * square + 9.0909090909090909e-02
    p = p * square + 1.1111111111111111e-01
    p = p * square + 1.4285714285714285e-01
    p = p * square + 0.2
    p = p * square + 3.3333333333333333e-01
    p = p * square + 1.0
    return tl.where(x > 0.0, x, 0.0) + (2.0 * s) * p


@triton.jit
def log_decay(a, rate, bias) -> tl.tensor:
    """Compute rate * softplus(a + bias): the logarithm of what a head keeps."""
    return rate * softplus(a.to(tl.float32) + bias)


@triton.jit
def write_share(b) -> tl.tensor:
    """Compute the sigmoid of b, rounded to bf16."""
    return tl.div_rn(1.0, 1.0 + exp(-b.to(tl.float32))).to(tl.bfloat16)


@triton.jit
def store_gates(
    ab_ptr, decay_rate_ptr, dt_bias_ptr, decay_ptr, beta_ptr, row, parity, stride_ab_row,
    VALUE_HEADS: constexpr, HEAD_LANES: constexpr, OVERLAP: constexpr,
) -> None:  # fmt: skip
    """Write decay and write share of all heads of a row of a round."""
    lanes = tl.arange(0, HEAD_LANES)
    mask = lanes < VALUE_HEADS
    rate = tl.load(decay_rate_ptr + lanes, mask=mask, other=0.0)
    bias = tl.load(dt_bias_ptr + lanes, mask=mask, other=0.0)
    if OVERLAP:
        gdc_wait()
    a = tl.load(ab_ptr + row * stride_ab_row + lanes, mask=mask, other=0.0)
    b = tl.load(ab_ptr + row * stride_ab_row + VALUE_HEADS + lanes, mask=mask, other=0.0)
    decay = exp(log_decay(a, rate, bias))
    tl.store(decay_ptr + (parity * 32 + row) * VALUE_HEADS + lanes, decay, mask=mask)
    beta = write_share(b).to(tl.float32)
    tl.store(beta_ptr + row * VALUE_HEADS + lanes, beta, mask=mask)


@triton.jit
def store_product_gates(
    hidden_ptr, weight_ptr, decay_rate_ptr, dt_bias_ptr, decay_ptr, beta_ptr, head, row, parity,
    stride_hidden_row, stride_weight_row,
    INPUTS: constexpr, VALUE_HEADS: constexpr, OVERLAP: constexpr,
) -> None:  # fmt: skip
    """Multiply a row to a and b of one head, and write decay and write share."""
    rate, bias = tl.load(decay_rate_ptr + head), tl.load(dt_bias_ptr + head)
    a_ptr = weight_ptr + head * stride_weight_row
    b_ptr = weight_ptr + (VALUE_HEADS + head) * stride_weight_row
    hidden_ptr += row * stride_hidden_row
    lanes = tl.arange(0, _LANES)[None, :]
    a = tl.zeros((1, _LANES), dtype=tl.float32)
    b = tl.zeros((1, _LANES), dtype=tl.float32)
    for start in tl.static_range(0, INPUTS, _LANES):  # pyright: ignore[reportGeneralTypeIssues]
        at = start + lanes
        known = at < INPUTS
        a_weight = tl.load(a_ptr + at, mask=known, other=0.0).to(tl.float32)
        b_weight = tl.load(b_ptr + at, mask=known, other=0.0).to(tl.float32)
        x = tl.load(hidden_ptr + at, mask=known, other=0.0, cache_modifier=".cg").to(tl.float32)
        a += x * a_weight
        b += x * b_weight
    a = sum_rows(a, 1, 0, _PAIRS).to(tl.bfloat16)
    b = sum_rows(b, 1, 0, _PAIRS).to(tl.bfloat16)
    only = tl.zeros((1, 1), dtype=tl.int32)
    decay = exp(log_decay(a, rate, bias))
    share = write_share(b).to(tl.float32)
    if OVERLAP:
        gdc_wait()  # what was read is older than the predecessor; it may read what is written
    tl.store(decay_ptr + (parity * 32 + row) * VALUE_HEADS + head + only, decay)
    tl.store(beta_ptr + row * VALUE_HEADS + head + only, share)
