"""Bars: to scale, never too wide, drawn with # and . where only ASCII is wanted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from app.tui.instruments.bars import cells_of, columns, ends, line, parts, whole
from app.tui.instruments.sections import row
from app.tui.theme import ASCII, UNICODE

PLAIN = Style()


def test_columns_stand_on_one_ground():
    assert columns([0, 1, 4, 8], 8, 1, UNICODE) == [" ▁▄█"]
    assert columns([0, 8, 16], 16, 2, UNICODE) == ["  █", " ██"]
    assert columns([0, 1, 8], 8, 1, ASCII) == [" .#"]
    assert columns([], 0, 2, UNICODE) == ["", ""]


@pytest.mark.parametrize("signs", [UNICODE, ASCII])
@given(share=st.floats(-1, 2), width=st.integers(0, 50))
def test_a_line_has_its_width_at_any_share(signs, share, width):
    found = line(share, width, PLAIN, PLAIN, signs)
    assert cells_of(found) == width


@given(values=st.lists(st.floats(0, 1e6), min_size=4, max_size=4), width=st.integers(8, 120))
def test_parts_fill_the_whole(values, width):
    cells = parts(values, width)
    assert sum(cells) == (width if sum(values) else 0)
    assert all(cells[at] > 0 for at, one in enumerate(values) if one)


@given(left=st.text("ab漢", max_size=40), width=st.integers(0, 40))
def test_the_right_end_stays(left, width):
    found = ends(row((left, PLAIN)), row(("9 ms", PLAIN)), width)
    assert "".join(one.text for one in found).endswith("9 ms")
    assert cells_of(found) <= max(width, 4)


def test_pieces_are_shown_whole_or_not_at_all():
    pieces = [row((text, PLAIN)) for text in ("draft 1", "  verify 22", "  host 3")]
    for width, text in ((40, "draft 1  verify 22  host 3"), (25, "draft 1  verify 22"),
                        (17, "draft 1"), (6, "")):  # fmt: skip
        assert "".join(one.text for one in whole(pieces, width)) == text
