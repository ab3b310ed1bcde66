"""Whether the terminal tells keys such as Ctrl+Enter apart: it is asked, and has to answer soon."""

import os
import re
import select
import sys
import termios
import time
import tty

from app.streams import is_terminal, write_control

ANSWER_SECONDS = 0.4
"""How long an answer is waited for: one over SSH takes a tenth of it."""

_ASK = "\x1b[?u\x1b[c"
"""What of Kitty's keyboard protocol is on, then what the terminal is: all answer the second."""

_HAS_KITTY_KEYS = re.compile(rb"\x1b\[\?\d+u")
_IS_ANSWERED = re.compile(rb"\x1b\[\?[\d;]*c")


def has_kitty_keys() -> bool | None:
    """Whether the terminal speaks Kitty's keyboard protocol; None where nothing answers."""
    if not is_terminal(sys.stdin):
        return None
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)
        if not write_control(_ASK):
            return None
        answer = _read_answer(fd)
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, before)
    return bool(_HAS_KITTY_KEYS.search(answer)) if _IS_ANSWERED.search(answer) else None


def _read_answer(fd: int) -> bytes:
    answer, end = b"", time.monotonic() + ANSWER_SECONDS
    while not _IS_ANSWERED.search(answer) and (left := end - time.monotonic()) > 0:
        if select.select([fd], [], [], left)[0]:
            answer += os.read(fd, 1024)
    return answer
