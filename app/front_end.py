"""Which form of the chat this terminal can carry."""

import os
import sys

from app.streams import is_terminal
from engine.settings import environment

MIN_COLUMNS, MIN_ROWS = 40, 10
"""The smallest window that the full screen draws into."""


def plain_reason() -> str:
    """Why the full screen cannot be drawn here; empty when it can."""
    if not is_terminal(sys.stdin):
        return "stdin is no terminal"
    if not is_terminal(sys.stdout):
        return "stdout is no terminal"
    if not is_terminal(sys.stderr):
        # textual draws on stderr: redirected, the screen would stay black
        return "stderr is no terminal"
    if environment.terminal_name() in ("dumb", "unknown"):
        return f"TERM is {environment.terminal_name()}"
    columns, rows = window_size()
    if columns and rows and (columns < MIN_COLUMNS or rows < MIN_ROWS):
        return f"the window has {columns} x {rows} cells, fewer than {MIN_COLUMNS} x {MIN_ROWS}"
    return ""


def window_size() -> tuple[int, int]:
    """Columns and rows of the window on stdout; zeros when the terminal does not say."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return 0, 0
    return size.columns, size.lines
