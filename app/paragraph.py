"""Sentences and rows of tables, broken between words where the terminal that shows them ends."""

import os
import sys
import textwrap
from typing import TextIO

WIDEST = 100
"""Columns of a paragraph at most: longer rows read badly. A pipe or a file gets as many."""

NARROWEST = 24
"""Columns that a paragraph needs beside what stands in front of it; else it goes below that."""

INDENT = "    "


def cells_of(stream: TextIO | None) -> int:
    """How many cells of a row of a stream's terminal are written to; 0 where it is none."""
    try:
        return max(os.get_terminal_size(stream.fileno()).columns - 1, 1) if stream else 0
    except (AttributeError, OSError, ValueError):  # no file, no terminal, closed
        return 0


def paragraph(text: str, head: str = "", widest: int | None = WIDEST) -> list[str]:
    """The rows of a text behind ``head``, for stdout.

    Args:
        text: sentences; what the screen may not show is out of it already.
        head: what the first row begins with; the others begin with as many blanks. A terminal that
            leaves no room beside it gets the text in rows of its own.
        widest: columns at most; None is all that the terminal has, and one row for a pipe.
    """
    room = cells_of(sys.stdout) or widest or len(head) + len(text)
    cells = min(room, widest or room)
    if not head or len(head) + min(NARROWEST, len(text)) <= cells:
        return in_rows(text, cells, head, " " * len(head)) or [head.rstrip()]
    return [*folded(head.rstrip(), cells), *in_rows(text, cells, INDENT, INDENT)]


def folded(line: str, cells: int) -> list[str]:
    """A line in rows of at most ``cells``; columns of a table keep the blanks between them.

    What goes on in a further row stands further in than the line.
    """
    if len(line) <= cells:
        return [line]
    begins = " " * (len(line) - len(line.lstrip()))
    return in_rows(line.lstrip(), cells, begins, begins + INDENT)


def in_rows(text: str, cells: int, first: str = "", others: str = "") -> list[str]:
    """A text in rows of at most ``cells``, the first behind ``first``; longer words stay whole."""
    return textwrap.wrap(
        text, max(cells, len(others) + 1), initial_indent=first, subsequent_indent=others,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
