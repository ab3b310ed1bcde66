"""How sure a mean difference is: Student's interval over blocks of neighbouring positions.

Losses of neighbouring tokens hang together, so that single positions would claim too much; means of
whole blocks are nearly independent.
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

BLOCK_TOKENS = 64
"""Neighbouring positions whose mean counts as one observation."""

LEAST_TOKENS = 2 * BLOCK_TOKENS
"""Positions that tell anything of the spread."""

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with the bounds that hold it in 95 of 100 such texts; equal to it without blocks."""

    mean: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half of the width."""
        return (self.high - self.low) / 2


def paired_interval(differences: NDArray[np.float64]) -> Interval:
    """The mean of paired differences, and its interval.

    Args:
        differences: [n], candidate minus reference, in the order of the text.

    Returns:
        The mean of all n; bounds from the spread of the means of whole blocks. With fewer than
        ``LEAST_TOKENS`` the bounds are infinite: nothing is known of the spread. Where nothing
        differs there is none.
    """
    mean = float(differences.mean())
    if not differences.any():
        return Interval(mean, mean, mean)
    num_blocks = len(differences) // BLOCK_TOKENS
    if num_blocks < 2:
        return Interval(mean, -np.inf, np.inf)
    blocks = differences[: num_blocks * BLOCK_TOKENS].reshape(num_blocks, BLOCK_TOKENS).mean(axis=1)
    half = student(num_blocks - 1) * float(blocks.std(ddof=1)) / num_blocks**0.5
    return Interval(mean, mean - half, mean + half)


def student(freedom: int) -> float:
    """The two-sided quantile of Student's t at ``CONFIDENCE``.

    Numerics:
        Exact for one and two degrees of freedom. From three on a Cornish-Fisher expansion in
        1 / freedom to the fourth order (Abramowitz and Stegun, 26.7.5): within 0.3 % at 95 %.
    """
    upper = (1 + CONFIDENCE) / 2
    if freedom == 1:
        return float(np.tan(np.pi * (upper - 0.5)))
    if freedom == 2:
        return (2 * upper - 1) / (2 * upper * (1 - upper)) ** 0.5
    z = NormalDist().inv_cdf(upper)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**order for order, term in enumerate(terms, 1))
