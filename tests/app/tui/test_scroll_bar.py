"""The handle of a scroll bar: on whole cells, and in its place."""

import pytest
from rich.color import Color

from app.tui.scroll_bar import WholeCells, handle_of


@pytest.mark.parametrize(
    ("rows", "top", "handle"),
    [(100, 0, (0, 4)), (100, 80, (16, 20)), (100, 40, (8, 12)), (20, 0, (0, 20)), (5, 0, (0, 20)),
     (21, 0, (0, 19)), (21, 1, (1, 20)), (100_000, 0, (0, 1)), (100_000, 99_980, (19, 20)),
     (0, 0, (0, 20))],
)  # fmt: skip
def test_the_handle_shows_which_part_is_in_view(rows, top, handle):
    assert handle_of(rows, 20, top, 20) == handle


@pytest.mark.parametrize("top", [0, 7, 33, 50, 79, 80])
def test_what_is_drawn_are_whole_cells_that_the_mouse_can_take(top):
    colours = {"back_color": Color.parse("black"), "bar_color": Color.parse("blue")}
    drawn = WholeCells.render_bar(20, 100, 20, top, **colours).segments
    assert {one.text for one in drawn} == {" "}
    taken = [at for at, one in enumerate(drawn) if one.style.meta == {"@mouse.down": "grab"}]
    assert taken == [*range(*handle_of(100, 20, top, 20))]


@pytest.mark.parametrize(("rows", "cells"), [(20, 20), (21, 1), (0, 5), (3, 0), (21, 20)])
def test_a_bar_without_room_to_move_draws(rows, cells):
    WholeCells.render_bar(cells, rows, min(rows, 20), 0)
