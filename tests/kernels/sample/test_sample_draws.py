"""The kernels' draws follow the filtered distribution; their walks are the reference's."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def chances(run_script) -> dict[str, float]:
    """P of the chi-square statistic by filters, from the interpreter."""
    return run_script(HERE / "chi_square_script.py", interpreted=True)


def test_every_filter_is_drawn(chances):
    assert len(chances) == 7


def test_interpreted_draws_follow_the_filtered_distribution(chances):
    assert {filters: p for filters, p in chances.items() if p < 0.01} == {}


def test_interpreted_walks_are_those_of_the_reference(run_script):
    assert run_script(HERE / "accept_script.py", interpreted=True) == []
