"""The e2m1 grid: rounding to it, its 4-bit codes, and two codes in a byte."""

import torch

from kernels.linear.formats import E2M1_VALUES

LARGEST = E2M1_VALUES[-1]
"""The largest magnitude, which greater ones are rounded to."""


def rounded(x: torch.Tensor) -> torch.Tensor:
    """Round to the nearest of the fifteen values; halfway to the even code, as hardware does.

    Args:
        x: fp32, any shape, finite.

    Returns:
        fp32 of that shape; zeros have no sign.
    """
    size = x.abs().clamp(max=LARGEST)
    # values are 0.5 apart below 2, 1 apart below 4 and 2 apart above
    step = torch.where(size < 2.0, 0.5, torch.where(size < 4.0, 1.0, 2.0))
    return (size / step).round_().mul_(step).mul_(x.sign())


def encode(values: torch.Tensor) -> torch.Tensor:
    """The codes of values that `rounded` gave: fp32 -> uint8 of that shape, 0 to 15."""
    size = values.abs()
    # the code is a concave function of the magnitude, straight between 2, 4 and 6
    code = torch.minimum(torch.minimum(2.0 * size, size + 2.0), 0.5 * size + 4.0)
    return (code + 8.0 * (values < 0)).to(torch.uint8)


def decode(codes: torch.Tensor) -> torch.Tensor:
    """The values of codes: uint8 -> fp32 of that shape."""
    table = torch.tensor([*E2M1_VALUES, *(-one for one in E2M1_VALUES)], device=codes.device)
    return table[codes.int()]


def pack(codes: torch.Tensor) -> torch.Tensor:
    """Put two codes in a byte, the even input low: uint8 [N, K] -> uint8 [N, K/2]."""
    return codes[:, 0::2] | codes[:, 1::2] << 4


def unpack(packed: torch.Tensor) -> torch.Tensor:
    """Take the codes out again: uint8 [N, K/2] -> uint8 [N, K]."""
    return torch.stack((packed & 15, packed >> 4), -1).flatten(1)
