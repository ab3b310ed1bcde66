"""A list whose highlighted row also has a sign before it: colour alone never says where one is."""

from collections.abc import Iterable

from rich.segment import Segment
from textual.strip import Strip
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from app.tui.theme import Look

GUTTER_CELLS = 2


class PointedList(OptionList):
    """An option list of plain rows; `look` gives the sign and its colour."""

    def __init__(self, look: Look, options: Iterable[Option] = ()) -> None:
        super().__init__(*options, markup=False)
        self._look = look

    def _get_left_gutter_width(self) -> int:
        return GUTTER_CELLS

    def render_line(self, y: int) -> Strip:
        """A row with its sign."""
        strip = super().render_line(y)
        row = self.scroll_offset.y + y
        if row >= len(self._lines):
            return strip
        option, line = self._lines[row]
        style = next((one.style for one in strip if one.style is not None), None)
        is_here = option == self.highlighted and line == 0
        sign = f"{self._look.signs.folded if is_here else '':<{GUTTER_CELLS}}"
        tone = self._look.accent if style is None else style + self._look.accent
        return Strip([Segment(sign, tone), *strip])
