"""Bars of few cells: columns for what changes, a line for a share, parts of a whole."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from app.tui.theme import Signs

Row = list[Segment]
"""One row of an instrument."""


def columns(values: Sequence[float], top: float, num_rows: int, signs: Signs) -> list[str]:
    """Columns that stand on the same ground, as rows of text from top to bottom.

    Args:
        values: one a column; what is above 0 shows at least its foot.
        top: value of a full column.
        num_rows: rows of a full column.
        signs: ``levels`` are eighths of a cell.
    """
    steps = len(signs.levels) - 1
    most = num_rows * steps
    heights = [min(max(round(one / top * most), 1), most) if one > 0 < top else 0 for one in values]
    return [
        "".join(signs.levels[min(max(one - row * steps, 0), steps)] for one in heights)
        for row in reversed(range(num_rows))
    ]


def line(share: float, width: int, filled: Style, rest: Style, signs: Signs) -> Row:
    """A share of a whole as a line; ``width`` cells, half a cell exact."""
    halves = round(min(max(share, 0.0), 1.0) * width * 2)
    full, half = divmod(halves, 2)
    text = signs.line * full + (signs.line_half if half else "")
    return [Segment(text, filled), Segment(signs.line_rest * (width - cell_len(text)), rest)]


def parts(values: Sequence[float], width: int) -> list[int]:
    """Cells of each part, which add up to ``width``; what is above 0 has at least one."""
    total = sum(values)
    if total <= 0:
        return [0] * len(values)
    cells = [max(round(one / total * width), 1) if one > 0 else 0 for one in values]
    cells[cells.index(max(cells))] += width - sum(cells)
    return cells


def ends(left: Row, right: Row, width: int) -> Row:
    """A row with something at both ends; the right one stays when both do not fit."""
    room = width - cells_of(right)
    space = room - cells_of(left)
    if space >= 0:
        return [*left, Segment(" " * space), *right]
    return [*Segment.adjust_line_length(left, max(room, 0)), *right]


def whole(pieces: Sequence[Row], width: int) -> Row:
    """The pieces that fit into ``width``, from the first one on; none is cut."""
    row: Row = []
    for piece in pieces:
        if cells_of(row) + cells_of(piece) > width:
            break
        row += piece
    return row


def cells_of(row: Row) -> int:
    """Cells of a row."""
    return sum(one.cell_length for one in row)
