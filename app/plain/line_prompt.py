"""Reading messages line by line: from a pipe, and on a terminal that cannot edit."""

import io
import os
import select
import sys
from typing import Any

from app.interrupt import EndOnSignal
from app.plain.prompt import DRAFT_CELLS, PROMPT
from app.plain.typed_ahead import has_line
from app.report import say
from app.streams import MAX_INPUT_BYTES, decode_input, is_terminal, read_line
from app.visible import visible, visible_line


class LineReader:
    """Messages of one line each, for pipes and terminals that cannot edit; a backslash goes on.

    Args:
        ends: asks for the end of the program, which ends the waiting for a line.
        prompt: stands before a line on a terminal.
    """

    def __init__(self, ends: EndOnSignal, prompt: str = PROMPT) -> None:
        self._ends = ends
        self._prompt = prompt
        self._source = io.BufferedReader(_WokenInput(sys.stdin.fileno(), ends))

    def read(self, draft: str) -> str | None:
        """The next message; ``draft`` is told, since it cannot be edited here.

        Ctrl+C leaves, as it does an empty line that can be edited: what was typed is gone by then.

        Raises:
            RequestError: a message is longer than any context.
            SystemExit: the end of the program was asked for.
        """
        self._ends.expect_no_end()
        if draft:
            say(f"(not sent: {visible_line(draft, DRAFT_CELLS)})")
        try:
            return self._message()
        except KeyboardInterrupt:
            if not is_terminal(sys.stdin):
                raise
            say("")
            return None

    def _message(self) -> str | None:
        lines: list[str] = []
        num_left = MAX_INPUT_BYTES
        while True:
            line = self._line("...> " if lines else self._prompt, num_left)
            if not line:
                return "\n".join(lines) or None
            num_left -= len(line)
            lines.append(line.rstrip("\r\n").removesuffix("\\"))
            if not line.rstrip("\r\n").endswith("\\"):
                return "\n".join(lines)

    def _line(self, prompt: str, max_bytes: int) -> str:
        """One line with its end; one that was typed ahead is shown behind its prompt."""
        is_shown = bool(sys.stderr) and is_terminal(sys.stdin)
        was_ahead = is_shown and has_line(sys.stdin.fileno())
        if is_shown:
            sys.stderr.write(prompt)
            sys.stderr.flush()
        line = decode_input(read_line(self._source, "stdin", max_bytes), "stdin")
        if was_ahead:
            sys.stderr.write(visible(line.rstrip("\n")) + "\n")
            sys.stderr.flush()
        return line


class _WokenInput(io.RawIOBase):
    """What a descriptor holds; waiting for it ends with SystemExit when ``ends`` wants that."""

    def __init__(self, fd: int, ends: EndOnSignal) -> None:
        self._fd = fd
        self._ends = ends
        self._waits = select.poll()
        for one in (fd, ends):
            self._waits.register(one, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401  the base class's own type
        self._waits.poll()
        self._ends.expect_no_end()
        return os.readv(self._fd, [buffer])
