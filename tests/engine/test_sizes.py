"""How a size reads."""

import pytest

from engine.sizes import counted, size_text


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (13_640_000, "13.6 MB"),
     (999_900_000, "999.9 MB"), (1_000_000_000, "1.0 GB"), (15.43e9, "15.4 GB"),
     (4_096e9, "4,096.0 GB")],
)  # fmt: skip
def test_a_size_is_told_in_the_largest_unit_that_it_fills(num_bytes, text):
    assert size_text(num_bytes) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 rows"), (1, "1 row"), (31_523, "31,523 rows")])
def test_a_count_is_told_with_its_thousands(number, text):
    assert counted(number, "row") == text
