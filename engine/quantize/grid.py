"""The e2m1 grid: rounding to it, its 4-bit codes, and two codes in a byte.

The fifteen values are numbered from -6 to 6. Rounding finds a number's place in that order, and a
place is looked up as value or as code.
"""

from dataclasses import dataclass
from functools import cache

import torch

from kernels.linear.formats import E2M1_VALUES

LARGEST = E2M1_VALUES[-1]
"""The largest magnitude, which greater ones are rounded to."""

QUARTERS = int(4 * LARGEST)
"""Borders between neighbours are whole quarters: what rounds alike are quarters, or what lies
between two of them."""


@dataclass(frozen=True, slots=True)
class _Tables:
    """What is looked up, on one device.

    Attributes:
        borders: fp32 [14], between neighbours in order.
        values: fp32 [15], by place.
        codes: uint8 [15], by place.
        by_quarter: int32 [97], places by the sum of the quarters below and above a number.
    """

    borders: torch.Tensor
    values: torch.Tensor
    codes: torch.Tensor
    by_quarter: torch.Tensor


@cache
def _tables(device: torch.device) -> _Tables:
    codes = [*range(15, 8, -1), *range(8)]
    values = torch.tensor([-E2M1_VALUES[one - 8] if one > 8 else E2M1_VALUES[one] for one in codes])
    borders = (values[:-1] + values[1:]) / 2
    # a border itself belongs to the value below: where that one's code is odd, the border is moved
    # down by the least there is, so that halfway goes to the even code, as hardware does
    odd = torch.tensor([code % 2 == 1 for code in codes[:-1]])
    borders = torch.where(odd, torch.nextafter(borders, torch.tensor(-torch.inf)), borders)
    eighths = torch.arange(-2 * QUARTERS, 2 * QUARTERS + 1) / 8
    by_quarter = torch.bucketize(eighths, borders, out_int32=True)
    return _Tables(
        borders.to(device),
        values.to(device),
        torch.tensor(codes, dtype=torch.uint8).to(device),
        by_quarter.to(device),
    )


def places(x: torch.Tensor) -> torch.Tensor:
    """The places of the nearest values; of halfway numbers that of the even code.

    Args:
        x: fp32, any shape, contiguous. A NaN has any place.

    Returns:
        int32 of that shape, 0 to 14.
    """
    # one launch on a GPU, but on a CPU five times slower than the table
    if x.is_cuda:
        return by_search(x)
    quarters = (4 * x).clamp_(-QUARTERS, QUARTERS)
    sums = quarters.floor().add_(quarters.ceil_()).add_(2 * QUARTERS).int().clamp_(0, 4 * QUARTERS)
    return _tables(x.device).by_quarter.index_select(0, sums.view(-1)).view(x.shape)


def by_search(x: torch.Tensor) -> torch.Tensor:
    """`places` by a search among the borders."""
    return torch.bucketize(x, _tables(x.device).borders, out_int32=True)


def values(found: torch.Tensor) -> torch.Tensor:
    """The values of places: int32, contiguous -> fp32 of that shape."""
    return _tables(found.device).values.index_select(0, found.view(-1)).view(found.shape)


def encode(found: torch.Tensor) -> torch.Tensor:
    """The codes of places: int32, contiguous -> uint8 of that shape, 0 to 15; zero has no sign."""
    return _tables(found.device).codes.index_select(0, found.view(-1)).view(found.shape)


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
