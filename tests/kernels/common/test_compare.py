"""What a comparison says when a kernel is wrong, and that it never says nothing."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.common.compare import (
    Tolerance,
    beyond_tolerance,
    bf16_steps,
    different_bits,
    share_of_different_bits,
)

LOOSE = Tolerance(1.0, 1.0, "anything near")


def test_equal_bits_pass():
    x = torch.tensor([[1.0, -0.0, math.nan]], dtype=torch.bfloat16)
    assert different_bits(x.clone(), x, "TD") is None


def test_the_message_names_count_coordinate_and_both_values():
    want = torch.zeros(3, 4, dtype=torch.bfloat16)
    got = want.clone()
    got[1, 2], got[2, 0] = 0.5, 7.0
    message = different_bits(got, want, "TD")
    assert message == "2 of 12 elements differ in bits; first at [T=1, D=2]: got 0.5, want 0.0"


def test_zeros_of_two_signs_differ_in_bits():
    assert different_bits(torch.tensor([0.0]), torch.tensor([-0.0]), "D") is not None


def test_another_dtype_or_shape_is_a_difference():
    x = torch.zeros(2, 2)
    assert "torch.bfloat16" in (different_bits(x.bfloat16(), x, "TD") or "")
    assert "[2, 1]" in (different_bits(x[:, :1], x, "TD") or "")


@settings(deadline=None)
@given(st.integers(0, 63), st.integers(0, 15))
def test_any_single_flipped_bit_is_found_where_it_is(position: int, bit: int):
    want = torch.linspace(-3, 3, 64).bfloat16()
    got = want.clone()
    bits = got.view(torch.int16)
    bits[position] ^= -(1 << 15) if bit == 15 else 1 << bit
    assert f"[D={position}]" in (different_bits(got, want, "D") or "")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 9.0])
def test_nothing_but_a_near_value_is_within_tolerance(bad: float):
    truth = torch.ones(3, dtype=torch.float64)
    got = torch.tensor([1.0, bad, 1.0])
    message = beyond_tolerance(got, truth, LOOSE, "D")
    assert message is not None
    assert message.startswith("1 of 3 elements are beyond 1 |truth| + 1; first at [D=1]")


def test_a_truth_of_nan_never_passes():
    truth = torch.tensor([math.nan], dtype=torch.float64)
    assert beyond_tolerance(torch.tensor([math.nan]), truth, LOOSE, "D") is not None


def test_an_infinite_truth_is_met_by_the_same_infinity_only():
    truth = torch.tensor([math.inf], dtype=torch.float64)
    assert beyond_tolerance(torch.tensor([math.inf]), truth, LOOSE, "D") is None
    assert beyond_tolerance(torch.tensor([-math.inf]), truth, LOOSE, "D") is not None
    assert beyond_tolerance(torch.tensor([3.0e38]), truth, LOOSE, "D") is not None


def test_steps_count_bf16_numbers_across_zero():
    smallest = torch.tensor([1], dtype=torch.int16).view(torch.bfloat16)
    assert bf16_steps(smallest, -smallest).tolist() == [2]
    assert bf16_steps(torch.tensor([0.0]).bfloat16(), torch.tensor([-0.0]).bfloat16()) == 0
    assert bf16_steps(torch.tensor([math.nan]).bfloat16(), smallest).tolist() == [65536]


def test_share_of_different_bits():
    got = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert share_of_different_bits(got, torch.tensor([1.0, 2.0, 3.0, 5.0])) == 0.25
