"""A widget of rows that draws again only those that changed."""

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from app.tui.instruments.bars import Row


class Rows(Widget):
    """Rows of segments, none of which wraps or is markup; a margin of ``pad`` cells."""

    def __init__(self, *, pad: int = 0, **options: str) -> None:
        super().__init__(**options)  # pyright: ignore[reportArgumentType]
        self._pad = pad
        self._rows: list[Row] = []

    def show(self, rows: list[Row]) -> None:
        """Show other rows; nothing happens where they are the same."""
        before, self._rows = self._rows, rows
        if len(before) != len(rows):
            self.refresh()
            return
        for at, (old, new) in enumerate(zip(before, rows, strict=True)):
            if old != new:
                self.refresh(Region(0, at, self.size.width, 1))

    @property
    def room(self) -> int:
        """Cells of a row."""
        return max(self.size.width - 2 * self._pad, 0)

    @property
    def shown(self) -> str:
        """What stands there now."""
        return "\n".join("".join(one.text for one in row) for row in self._rows)

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        width, base = self.size.width, self.rich_style
        if y >= len(self._rows):
            return Strip.blank(width, base)
        margin = Segment(" " * self._pad, Style())
        strip = Strip([margin, *self._rows[y]])
        return strip.crop_extend(0, width, base).apply_style(base)
