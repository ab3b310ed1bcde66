"""The clip search: for each group of 16 the scale with the least error that inputs would see.

A smaller scale clips the largest weights and draws the grid finer for the others; a larger one
puts the largest weight on 4, where the grid below it is finer than below 6.
"""

import torch

from engine.quantize.grid import places, values
from engine.quantize.scales import LARGEST_BYTE, SMALLEST_BYTE, multipliers, nearest_scales

OFFSETS = (0, -1, 1, -2, 2, -3, 3, -4, 4, -5, 5, -6)
"""Candidates, as e4m3 bytes from the one that keeps the largest weight: a step is 6 to 12 %, so
that they reach from about 0.6 to 1.5 times its scale. Of equal errors the first here wins."""

ROOM = 2.0
"""Scales above the largest weight's must exist: a whole octave holds 8 bytes."""


def search(groups: torch.Tensor, weighting: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """Choose the scale of every group.

    Args:
        groups: fp32 [..., 16].
        weighting: fp32, broadcasts to ``groups``: what a squared error of each weight costs, 0 or
            more. With the second moments of the inputs the sum is the expected squared error of an
            output, as far as inputs are uncorrelated.
        whole: fp32 [], of the matrix.

    Returns:
        uint8 [...], bytes of e4m3 scales.

    Numerics:
        fp32; twelve copies of ``groups`` exist at a time.
    """
    offsets = torch.tensor(OFFSETS, device=groups.device).view(-1, *(1,) * (groups.dim() - 1))
    first = nearest_scales(groups, whole)
    candidates = (first.int() + offsets).clamp_(SMALLEST_BYTE, LARGEST_BYTE).to(torch.uint8)
    scale = multipliers(candidates, whole)[..., None]
    found = values(places((groups / scale).contiguous()))
    error = found.mul_(scale).sub_(groups).square_().mul_(weighting).sum(-1)
    return candidates.gather(0, error.argmin(0, keepdim=True))[0]
