"""Rearrange the bits of 4-bit codes for GPUs that have no converter for them, and back.

A word of eight codes k0..k7 keeps its 32 bits, in another order: even codes in the low half, odd
ones in the high half, and in each half the sign and the three magnitude bits of its four codes
where one mask, after at most one multiplication, brings them to the places of an fp16 number
(skinny_decode.cuh, `decode_e2m1`). Nine operations decode a word, where the stored order takes 13
to 16.
"""

from functools import cache

import torch

PLACES = ((15, 9), (12, 6), (14, 3), (13, 0))
"""Bit of the sign and lowest bit of the magnitude, for each of a half's four codes in order."""

ROWS_AT_A_TIME = 2048
"""Rows rearranged at once, which bounds the temporaries to a few times their codes."""


def spread_words(codes: torch.Tensor) -> torch.Tensor:
    """Rearrange the bits of every word of eight codes.

    Args:
        codes: uint8 [N, B], B a multiple of 4, contiguous; the low nibble is the even input.

    Returns:
        uint8 [N, B]: new memory.
    """
    out = torch.empty_like(codes)
    tables = _byte_tables().to(codes.device)
    for part, into in zip(codes.split(ROWS_AT_A_TIME), out.split(ROWS_AT_A_TIME), strict=True):
        words = into.view(torch.int32).zero_()
        for table, bytes_there in zip(tables, part.view(-1, 4).unbind(1), strict=True):
            words |= table.index_select(0, bytes_there.int()).view(words.shape)
    return out


@cache
def _byte_tables() -> torch.Tensor:
    """The bits of a spread word by byte of a stored one and its value: int32 [4, 256]."""
    halves = torch.zeros((4, 256, 2), dtype=torch.int32)
    value = torch.arange(256, dtype=torch.int32)
    for place, (sign, magnitude) in enumerate(PLACES):
        for half, nibble in enumerate((value & 15, value >> 4)):
            halves[place, :, half] = (nibble >> 3 << sign) | ((nibble & 7) << magnitude)
    return halves[..., 0] | halves[..., 1] << 16


def gather_words(codes: torch.Tensor) -> torch.Tensor:
    """Undo `spread_words`.

    Args:
        codes: uint8 [N, B] as `spread_words` returns it.

    Returns:
        uint8 [N, B]: new memory; the low nibble is the even input.
    """
    out = torch.empty_like(codes)
    for part, into in zip(codes.split(ROWS_AT_A_TIME), out.split(ROWS_AT_A_TIME), strict=True):
        halves = part.contiguous().view(torch.int16).view(part.shape[0], -1, 2).int()
        quads = into.view(part.shape[0], -1, 4)
        for place, (sign, magnitude) in enumerate(PLACES):
            low, high = (
                ((half >> sign & 1) << 3) | (half >> magnitude & 7) for half in halves.unbind(-1)
            )
            quads[..., place] = (low | (high << 4)).to(torch.uint8)
    return out
