"""A code times a power of two is a number of BF16, and rounding to codes is to the nearest."""

import math

import pytest
import torch

from kernels.attention.kv_codes import (
    COLUMN_ORDER,
    E4M3,
    KvScales,
    expect_scales,
    power_of_two_from,
    to_bf16,
    to_codes,
)
from kernels.common.e4m3 import E4M3_MAX

ALL = torch.arange(256, dtype=torch.uint8).view(E4M3)
NUMBERS = ALL[~ALL.float().isnan()]
SCALES = [2.0**exponent for exponent in (-64, -9, -1, 0, 3, 64)]


@pytest.mark.parametrize("scale", SCALES)
def test_every_code_is_exact_in_bf16_and_comes_back(scale):
    by = torch.tensor(scale)
    wide = to_bf16(NUMBERS, by)
    assert torch.equal(wide.double(), NUMBERS.double() * scale)
    assert torch.equal(to_codes(wide, by).view(torch.uint8), NUMBERS.view(torch.uint8))


def test_numbers_between_codes_go_to_the_nearest_and_ties_to_even():
    by = torch.tensor(0.5)
    given = torch.tensor(
        [1.0, 1.0625, 1.1875, 1.07, 0.0, -3.25, 2.0**-11, 2.0**-10 * 1.5]
    ).bfloat16()
    rounded = to_bf16(to_codes(given, by), by).tolist()
    assert rounded == [1.0, 1.0, 1.25, 1.125, 0.0, -3.25, 0.0, 2.0**-9]


def test_large_numbers_saturate_and_what_is_not_finite_is_no_number():
    by = torch.tensor(1.0)
    given = torch.tensor([449.0, -1e30, math.inf, -math.inf, math.nan]).bfloat16()
    rounded = to_bf16(to_codes(given, by), by).tolist()
    assert rounded[:2] == [E4M3_MAX, -E4M3_MAX]
    assert all(math.isnan(one) for one in rounded[2:])


def test_the_error_between_the_limits_is_a_sixteenth_whatever_the_scale():
    x = torch.randn(20_000, generator=torch.Generator().manual_seed(1)).bfloat16()
    x = x[x.abs() > 2.0**-4]
    for exponent in (-6, -5, -3, 0, 1):
        by = torch.tensor(2.0**exponent)
        error = (to_bf16(to_codes(x, by), by).double() - x.double()).abs() / x.double().abs()
        assert 2.0**-5 < float(error.max()) <= 2.0**-4


@pytest.mark.parametrize(
    ("given", "wanted"),
    [(1.0, 1.0), (1.01, 2.0), (0.26, 0.5), (0.25, 0.25), (0.0, 1.0), (math.nan, 1.0),
     (math.inf, 1.0), (1e-30, 2.0**-64), (1e30, 2.0**64)],
)  # fmt: skip
def test_the_power_of_two_that_is_not_below(given, wanted):
    assert float(power_of_two_from(torch.tensor(given))) == wanted


def test_columns_of_an_instruction_are_each_there_once():
    assert sorted(COLUMN_ORDER) == list(range(16))


def test_keys_and_values_of_two_formats_are_refused():
    codes, wide = torch.zeros(1, 4, 16).to(E4M3), torch.zeros(1, 4, 16).bfloat16()
    scales = KvScales(torch.ones(1), torch.ones(1))
    expect_scales("f", codes, codes, scales)
    expect_scales("f", wide, wide, None)
    with pytest.raises(ValueError, match="f: keys are .*e4m3fn and values .*bfloat16 with scales"):
        expect_scales("f", codes, wide, scales)
