"""Spread words hold the same codes: each at the places that the kernel's masks look at."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.linear.formats import E2M1_VALUES
from kernels.linear.spread import ROWS_AT_A_TIME, gather_words, spread_words

VALUE = 0x8E008E00
"""The mask of skinny_decode.cuh: sign and magnitude of one code in each half of a word."""


def words_of(codes: torch.Tensor) -> list[int]:
    return codes.contiguous().view(torch.int32).flatten().tolist()


def pairs_of(word: int) -> list[int]:
    """Decode a spread word to four words of two halves, as skinny_decode.cuh does."""
    word &= 0xFFFFFFFF
    return [
        word & VALUE,
        (word << 3) & VALUE,
        ((word & 0x40384038) * 66) & VALUE,
        ((word & 0x20072007) * 516) & VALUE,
    ]


def halves_of(pairs: list[int]) -> torch.Tensor:
    halves = [half for pair in pairs for half in (pair & 0xFFFF, pair >> 16)]
    signed = [half - 0x10000 if half & 0x8000 else half for half in halves]
    return torch.tensor(signed, dtype=torch.int16).view(torch.float16)


def all_words() -> torch.Tensor:
    """Every code at every place of a word, among all others."""
    generator = torch.Generator().manual_seed(3)
    codes = torch.randint(0, 256, (128, 64), dtype=torch.uint8, generator=generator)
    for place in range(4):
        codes.view(128, 16, 4)[:, 0, place] = torch.arange(128, dtype=torch.uint8)
        codes.view(128, 16, 4)[:, 1, place] = torch.arange(128, 256, dtype=torch.uint8)
    return codes


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 20), st.integers(0, 2**31))
def test_gathering_undoes_spreading(num_rows: int, num_words: int, seed: int):
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 256, (num_rows, 4 * num_words), dtype=torch.uint8, generator=generator)
    spread = spread_words(codes)
    assert torch.equal(gather_words(spread), codes)
    assert spread.data_ptr() != codes.data_ptr()


def test_rows_past_the_first_block_are_spread_too():
    codes = torch.randint(0, 256, (ROWS_AT_A_TIME + 3, 4), dtype=torch.uint8)
    alone = torch.cat([spread_words(codes[:5]), spread_words(codes[-3:])])
    together = spread_words(codes)
    assert torch.equal(torch.cat([together[:5], together[-3:]]), alone)
    assert torch.equal(gather_words(together), codes)


def test_every_bit_has_a_place_of_its_own():
    """One bit in, one bit out, another for each of 32."""
    places = set()
    for bit in range(32):
        value = 1 << bit
        codes = torch.tensor([list(value.to_bytes(4, "little"))], dtype=torch.uint8)
        (word,) = words_of(spread_words(codes))
        assert (word & 0xFFFFFFFF).bit_count() == 1
        places.add((word & 0xFFFFFFFF).bit_length())
    assert places == set(range(1, 33))


@pytest.mark.parametrize("index", range(8))
def test_a_code_lies_at_the_bits_of_its_place(index: int):
    """Even codes in the low half; sign and magnitude where the kernel's masks look for them."""
    sign, lowest = ((15, 9), (12, 6), (14, 3), (13, 0))[index // 2]
    for code in range(16):
        nibbles = [0] * 8
        nibbles[index] = code
        packed = [nibbles[2 * i] | nibbles[2 * i + 1] << 4 for i in range(4)]
        (word,) = words_of(spread_words(torch.tensor([packed], dtype=torch.uint8)))
        expected = ((code >> 3) << sign | (code & 7) << lowest) << 16 * (index % 2)
        assert word & 0xFFFFFFFF == expected


def test_the_kernels_masks_find_every_code_as_a_number_2_14_times_too_small():
    table = torch.tensor([*E2M1_VALUES, *(-one for one in E2M1_VALUES)])
    codes = all_words()
    nibbles = torch.stack((codes & 15, codes >> 4), -1).flatten(1).long()
    expected = (table[nibbles] * 2.0**-14).half().flatten()
    spread = words_of(spread_words(codes))
    found = torch.cat([halves_of(pairs_of(word)) for word in spread])
    assert torch.equal(found.view(torch.int16), expected.view(torch.int16))


def test_scaled_halves_are_the_converters_products_times_2_minus_7_for_all_scales():
    """So spread and stored codes give the bits of one another: a power of two is undone exactly."""
    table = torch.tensor([*E2M1_VALUES, *(-one for one in E2M1_VALUES)])
    scales = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn).half()
    converted = table.half()[:, None] * scales
    small = (table * 2.0**-14).half()[:, None] * (scales * torch.tensor(128.0).half())
    assert torch.equal(converted.double(), table.double()[:, None] * scales.double())
    assert torch.equal(small.double() * 128, converted.double())
