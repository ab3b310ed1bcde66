"""Compute sums, exponentials and SiLU on the device with bits that no launch can change.

Two things make the bits of a Triton expression depend on more than its source: `tl.sum` adds in an
order that follows from the layout (so from the warps), and approximate instructions (`ex2.approx`,
`div.full`, `rsqrt.approx`) differ between a GPU, another GPU and a CPU. The functions here use
IEEE additions, multiplications and `tl.div_rn` in an order written in the source, so the torch
twins in `exact_torch.py` give the same bits on any CPU, and the interpreter does too.

Launch every kernel that uses them with `enable_fp_fusion=False`: a contracted multiply-add rounds
once where the source rounds twice.
"""

import triton
import triton.language as tl

from kernels.common.typing import constexpr


@triton.jit
def sum_rows(values, ROWS: constexpr, FOLDS: constexpr, PAIRS: constexpr) -> tl.tensor:
    """Sum each row by one fixed binary tree.

    The first `FOLDS` levels add the upper half of the row to the lower half, the next `PAIRS`
    levels add neighbours. With 2,048 lanes left after the folds, the partners of the folds and of
    the first three pair levels live in one thread, the next five in one warp: the order costs no
    more shuffles than `tl.sum`.

    Args:
        values: fp32 [ROWS, LANES], LANES = 2 ** (FOLDS + PAIRS).
        ROWS: rows of the block.
        FOLDS: levels that halve the row.
        PAIRS: levels that add neighbours.

    Returns:
        fp32 [ROWS, 1].
    """
    for _ in tl.static_range(FOLDS):  # pyright: ignore[reportGeneralTypeIssues]
        values = tl.sum(tl.reshape(values, (ROWS, 2, values.shape[1] // 2)), axis=1)
    for _ in tl.static_range(PAIRS):  # pyright: ignore[reportGeneralTypeIssues]
        values = tl.sum(tl.reshape(values, (ROWS, values.shape[1] // 2, 2)), axis=2)
    return values


@triton.jit
def exp(x) -> tl.tensor:
    """Exponentiate fp32 by IEEE operations alone, within 2 units in the last place.

    x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor series to r^7 (remainder 5e-9, below
    half a unit); the scale 2^n in two factors, so that results reach infinity above 88.7 and the
    subnormals below -87.3 as IEEE says. NaN stays NaN.
    """
    # 126 is past both ends of the fp32 range and keeps n small enough for two exponent fields.
    x = tl.where(x > 126.0, 126.0, x)
    x = tl.where(x < -126.0, -126.0, x)
    # adding and taking away 1.5 * 2^23 rounds to the nearest integer, ties to even.
    n = (x * 1.4426950408889634 + 12582912.0) - 12582912.0
    # ln 2 as 45426 / 2^16 and a remainder: n times the first part is exact.
    r = (x - n * 0.693145751953125) - n * 1.4286068203094173e-06
    p = r * 1.9841269841269841e-04 + 1.3888888888888889e-03
    p = p * r + 8.3333333333333333e-03
    p = p * r + 4.1666666666666664e-02
    p = p * r + 1.6666666666666666e-01
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    exponent = n.to(tl.int32)
    half = exponent >> 1
    low = ((half + 127) << 23).to(tl.float32, bitcast=True)
    high = ((exponent - half + 127) << 23).to(tl.float32, bitcast=True)
    return (p * low) * high


@triton.jit
def silu(x) -> tl.tensor:
    """Compute x / (1 + e^-x) in fp32 by IEEE operations alone."""
    return tl.div_rn(x, 1.0 + exp(-x))
