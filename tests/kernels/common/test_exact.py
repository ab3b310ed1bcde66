"""The torch twins of the exact device functions: right to the last places, and one order only."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.common import exact_torch

EPSILON = 2.0**-23


def test_exp_is_within_two_units_in_the_last_place_over_its_range():
    x = torch.linspace(-87.0, 88.7, 400_001)
    truth = x.double().exp()
    error = (exact_torch.exp(x).double() - truth).abs() / truth
    assert float(error.max()) <= 2 * EPSILON


@pytest.mark.parametrize(
    ("x", "expected"),
    [(0.0, 1.0), (-0.0, 1.0), (89.0, math.inf), (math.inf, math.inf), (-200.0, 0.0)],
)
def test_exp_at_the_ends(x: float, expected: float):
    assert exact_torch.exp(torch.tensor([x])).item() == expected


def test_exp_reaches_into_the_subnormals():
    assert exact_torch.exp(torch.tensor([-100.0])).item() == pytest.approx(math.exp(-100), rel=0.05)


def test_exp_of_nan_is_nan():
    assert math.isnan(exact_torch.exp(torch.tensor([math.nan])).item())


@settings(deadline=None)
@given(st.floats(-80, 80, width=32))
def test_silu_agrees_with_torch_to_a_few_units(x: float):
    value = torch.tensor([x])
    torch.testing.assert_close(
        exact_torch.silu(value), torch.nn.functional.silu(value), rtol=4 * EPSILON, atol=1e-38
    )


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 300), st.integers(0, 2**31))
def test_the_tree_sums_integers_exactly_whatever_the_width(width: int, seed: int):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(-999, 999, (2, width), generator=generator).float()
    levels = (width - 1).bit_length()
    for folds in range(levels + 1):
        total = exact_torch.sum_rows(values, folds, levels - folds)
        assert torch.equal(total, values.sum(-1, keepdim=True))


def test_folds_pair_halves_and_pairs_pair_neighbours():
    # 2^24 + 1 is not an fp32 number: the order decides which ones are lost.
    big = 2.0**24
    values = torch.tensor([[big, 1.0, 1.0, 0.0]])
    assert exact_torch.sum_rows(values, 0, 2).item() == big  # (big + 1) + (1 + 0)
    values = torch.tensor([[big, 1.0, 0.0, 1.0]])
    assert exact_torch.sum_rows(values, 1, 1).item() == big + 2.0  # (big + 0) + (1 + 1)
