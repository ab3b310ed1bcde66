"""Figures that records add up to."""

import pytest

from engine.records import share_of_read


@pytest.mark.parametrize(
    ("gb_s", "read_gb_s", "share"), [(3.0, 12.0, 0.25), (12.0, 12.0, 1.0), (20.0, 12.0, 1.0),
                                     (3.0, 0.0, 0.0)],
)  # fmt: skip
def test_a_share_of_bandwidth_is_never_above_all_of_it(gb_s, read_gb_s, share):
    assert share_of_read(gb_s, read_gb_s) == share
