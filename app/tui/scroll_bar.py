"""A scroll bar whose handle stands on whole cells: it is drawn anew only when it moves by one.

While an answer grows, a handle of eighths moves with every row, and all of the bar is drawn anew.
"""

from rich.color import Color
from rich.segment import Segments
from textual.scrollbar import ScrollBarRender

BACK, BAR = Color.parse("#555555"), Color.parse("bright_magenta")


def handle_of(num_rows: float, window: float, top: float, num_cells: int) -> tuple[int, int]:
    """First cell of the handle, and the one behind its last.

    Args:
        num_rows: rows that there are.
        window: of them that are in view.
        top: the first one in view.
        num_cells: of the bar.
    """
    hidden = max(num_rows - window, 0.0)
    size = max(round(num_cells * min(window / max(num_rows, 1.0), 1.0)), 1)
    if hidden and num_cells > 1:
        size = min(size, num_cells - 1)  # where something is hidden, the handle can move
    begin = round((num_cells - size) * min(top / hidden, 1.0)) if hidden else 0
    return begin, begin + size


class WholeCells(ScrollBarRender):
    """Draws as the library does, for a handle that begins and ends with a cell."""

    @classmethod
    def render_bar(
        cls,
        size: int = 25,
        virtual_size: float = 50,
        window_size: float = 20,
        position: float = 0,
        thickness: int = 1,
        vertical: bool = True,
        back_color: Color = BACK,
        bar_color: Color = BAR,
    ) -> Segments:
        """The bar, with what the mouse does on it."""
        if window_size and size:
            begin, end = handle_of(virtual_size, window_size, position, size)
            # twice the cells: a view of as many rows as the bar has cells would have no handle
            virtual_size = 2.0 * size
            window_size = 2.0 * (end - begin) if end - begin < size else 0
            position = 2.0 * begin + 1e-6
        return super().render_bar(
            size, virtual_size, window_size, position, thickness, vertical, back_color, bar_color
        )
