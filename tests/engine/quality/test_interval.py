"""The interval of a mean difference holds the truth as often as it says."""

import numpy as np
import pytest

from engine.quality.interval import BLOCK_TOKENS, paired_interval, student


@pytest.mark.parametrize(
    ("freedom", "table"),
    [(1, 12.7062), (2, 4.30265), (3, 3.18245), (5, 2.57058), (10, 2.22814), (100, 1.98397)],
)
def test_students_quantile_is_that_of_the_tables(freedom: int, table: float):
    assert student(freedom) == pytest.approx(table, rel=3e-3)


def test_the_truth_lies_inside_nineteen_times_of_twenty_though_neighbours_hang_together():
    draws = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        noise = draws.normal(size=12 * BLOCK_TOKENS + 3)
        neighbours = 0.03 + np.convolve(noise, np.full(4, 0.25), mode="valid")
        found = paired_interval(neighbours)
        inside += found.low <= 0.03 <= found.high
    assert 0.90 <= inside / 400 <= 0.99  # 0.95, less what leaks over the edges of blocks


def test_equal_losses_differ_by_nothing_for_sure():
    found = paired_interval(np.zeros(1000))
    assert (found.mean, found.low, found.high) == (0, 0, 0)


def test_less_than_two_blocks_tell_nothing_of_the_spread():
    found = paired_interval(np.ones(2 * BLOCK_TOKENS - 1))
    assert found.mean == 1
    assert found.half == np.inf


def test_a_ragged_end_counts_for_the_mean():
    assert paired_interval(np.array([0.0] * 128 + [64.0])).mean == pytest.approx(64 / 129)
