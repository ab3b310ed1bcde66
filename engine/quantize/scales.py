"""The two scales of NVFP4: one fp32 for a matrix, and one e4m3 for every 16 inputs of a row.

Positive e4m3 numbers are ordered as their bytes are, so that a scale is handled as a byte, 1 to
126: never zero, never infinite, and the next larger scale is the next byte.
"""

import torch

from engine.quantize.grid import LARGEST
from kernels.common.e4m3 import E4M3_MAX

E4M3 = torch.float8_e4m3fn
LARGEST_SCALE = E4M3_MAX
SMALLEST_BYTE, LARGEST_BYTE = 1, 126
"""2^-9 and 448."""

SMALLEST_TENSOR_SCALE = 2.0**-100
"""Of a matrix of zeros; every product with a group's scale is a normal fp32."""


def tensor_scale(weight: torch.Tensor, room: float = 1.0) -> torch.Tensor:
    """The scale of a whole matrix.

    Args:
        weight: [N, K], floating point.
        room: how far above the scale of the largest weight's group a scale may go.

    Returns:
        fp32 [], positive: the largest weight has the group scale 448 / ``room``.
    """
    low, high = torch.aminmax(weight)
    largest = torch.maximum(-low, high).float()
    return (largest * (room / (LARGEST * LARGEST_SCALE))).clamp(min=SMALLEST_TENSOR_SCALE)


def nearest_scales(groups: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """The e4m3 scales that bring each group's largest weight next to 6.

    Args:
        groups: fp32 [..., 16].
        whole: fp32 [], of the matrix.

    Returns:
        uint8 [...], bytes of e4m3 scales.
    """
    wanted = groups.abs().amax(-1) / (LARGEST * whole)
    return wanted.clamp(2.0**-9, LARGEST_SCALE).to(E4M3).view(torch.uint8)


def multipliers(scales: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """What codes are multiplied with: uint8 [...] -> fp32 [...], as loaders compute it."""
    return scales.view(E4M3).float() * whole
