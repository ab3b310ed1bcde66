"""Lines that a person typed while no prompt stood: while the model loads, while it answers.

The terminal took them by lines then, and its Enter is a line feed, which is a new line of a message
to the prompt that comes.
"""

import os
import select
import termios

from prompt_toolkit.input import Input
from prompt_toolkit.input.vt100 import Vt100Input

from app.streams import decode_input

MOST_BYTES = 4096
"""A line of a terminal is no longer than so many bytes."""

LOCAL_MODES = 3
"""Where the local modes stand in what termios tells of a terminal."""


def lines_ahead(source: Input) -> list[str]:
    """The whole lines that wait in a terminal, without their ends; none for other sources of keys.

    Raises:
        EOFError: the end of input was typed, and nothing before it.
    """
    lines: list[str] = []
    while isinstance(source, Vt100Input) and has_line(source.fileno()):
        data = os.read(source.fileno(), MOST_BYTES)
        if not data and not lines:
            raise EOFError
        if not data:
            break
        lines.append(decode_input(data, "stdin").rstrip("\r\n"))
    return lines


def has_line(fd: int) -> bool:
    """Whether a whole line waits in a terminal that is read by lines: its echo is long past."""
    try:
        is_by_lines = bool(termios.tcgetattr(fd)[LOCAL_MODES] & termios.ICANON)
    except termios.error:
        return False
    return is_by_lines and bool(select.select([fd], [], [], 0)[0])
