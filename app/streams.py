"""The standard streams of a command: data on stdout, talk on stderr, a prompt from stdin.

What goes to a terminal passes the sanitiser; what goes to a pipe or a file stays byte-exact.
"""

import fcntl
import os
import stat
import sys
import termios
import time
from collections.abc import Iterable, Iterator
from typing import BinaryIO, TextIO, cast

from app.paragraph import cells_of, folded
from app.report import say
from app.visible import visible, visible_line
from engine.errors import OutputError, RequestError, how_to_read, how_to_write
from engine.sizes import size_text
from engine.types import Event, LoadProgressed, PromptProgressed

MAX_INPUT_BYTES = 16 << 20
"""Most that is read of a prompt or of token ids; a million tokens have about 5 MB of text."""


class OutputClosedError(OutputError):
    """There is no stdout to write to."""


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is open and a terminal."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def write_data(text: str) -> None:
    """Write text to stdout at once: sanitised for a terminal, as it is for anything else.

    Raises:
        OutputClosedError: the program was started with stdout closed, or the disk is full.
        BrokenPipeError: the reader went away.
    """
    out = cast("TextIO | None", sys.stdout)
    if out is None:
        raise OutputClosedError("stdout is closed.", "Start the command with a stdout.")
    shown = visible(text) if is_terminal(out) else text
    try:
        out.flush()
        write_all(out.fileno(), shown.encode("utf-8", "surrogatepass"))
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise OutputClosedError(
            f"stdout cannot be written: {problem.strerror}.", how_to_write(problem)
        ) from None


def write_lines(lines: Iterable[str]) -> None:
    """Write lines of our own to stdout, such as a table; a narrow terminal gets them folded.

    Raises:
        OutputClosedError, BrokenPipeError: as `write_data` does.
    """
    cells = cells_of(sys.stdout)
    shown = (row for line in lines for row in (folded(line, cells) if cells else [line]))
    write_data("\n".join(shown) + "\n")


def read_prompt() -> str:
    """The whole of stdin as one prompt, without its last line ends.

    Raises:
        RequestError: stdin is closed, a terminal, too long, or holds nothing.
    """
    text = decode_input(read_bounded(stdin_bytes(), "stdin"), "stdin").rstrip("\r\n")
    if not text.strip():
        raise RequestError("stdin holds no prompt.", "Pipe some text into it.")
    return text


def decode_input(data: bytes, name: str) -> str:
    """The text of what a person gave; bytes that are no UTF-8 are replaced, and that is said."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        say(f"Some bytes of {name} are no UTF-8; the model reads a replacement sign for them.")
        return data.decode("utf-8", "replace")


def stdin_bytes() -> BinaryIO:
    """What was piped into the command.

    Raises:
        RequestError: stdin is closed or a terminal.
    """
    source = cast("TextIO | None", sys.stdin)
    if source is None or is_terminal(source):
        raise RequestError(
            "There is no prompt.", "Write it behind the command or pipe it into stdin."
        )
    return source.buffer


def is_piped_in() -> bool:
    """Whether a pipe into the command holds something by now; waits for nothing."""
    source = cast("TextIO | None", sys.stdin)
    try:
        if source is None or not stat.S_ISFIFO(os.fstat(source.fileno()).st_mode):
            return False
        return any(fcntl.ioctl(source, termios.FIONREAD, bytes(4)))
    except (OSError, ValueError):  # closed
        return False


def read_bounded(source: BinaryIO, name: str) -> bytes:
    """All that ``source`` holds, which may be a pipe or a device without an end.

    Raises:
        RequestError: it does not read, or holds more than `MAX_INPUT_BYTES`.
    """
    try:
        data = source.read(MAX_INPUT_BYTES + 1)
    except OSError as problem:
        raise RequestError(
            f"{name} does not read: {problem.strerror}.", how_to_read(problem)
        ) from None
    if len(data) > MAX_INPUT_BYTES:
        raise _too_long(name)
    return data


def read_line(source: BinaryIO, name: str, max_bytes: int) -> bytes:
    """The next line with its end; nothing at the end of ``source``, which may have none.

    Raises:
        RequestError: it has more than ``max_bytes``, `MAX_INPUT_BYTES` at most.
    """
    data = source.readline(max_bytes + 1)
    if len(data) > max_bytes:
        raise _too_long(f"A message from {name}")
    return data


def _too_long(name: str) -> RequestError:
    return RequestError(
        f"{name} holds more than {MAX_INPUT_BYTES:,} bytes, which no context takes.",
        "Give it a part.",
    )


class _RewrittenLine:
    """A line of progress on stderr that rewrites itself; nothing without a terminal."""

    def __init__(self) -> None:
        self._is_shown = is_terminal(sys.stderr)
        self._painted_at = 0.0

    def _paint(self, text: str) -> None:
        """Show it, at most ten times a second."""
        if not self._is_shown or time.monotonic() - self._painted_at < 0.1:
            return
        self._painted_at = time.monotonic()
        sys.stderr.write(f"\r{text}\x1b[K")
        sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._painted_at:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._painted_at = 0.0


class LoadLine(_RewrittenLine):
    """Progress of a load."""

    def __call__(self, step: LoadProgressed) -> None:
        """Take one step."""
        what = step.file if step.is_all_read else f"reading {step.file}"
        self._paint(
            f"{visible_line(what, 38)}  {step.share:4.0%} "
            f"of {size_text(step.total_bytes)}  {step.gb_s:.2f} GB/s"
        )


SHORT_READ_S = 0.5
"""Seconds of reading in front of an answer that nobody asks about."""


class ReadLine(_RewrittenLine):
    """Progress of what the model reads.

    Args:
        what: it is, such as the conversation.
        after_s: seconds without a line: what is read at once is worth none.
    """

    def __init__(self, what: str, after_s: float = 0.0) -> None:
        super().__init__()
        self._what = what
        self._from = time.monotonic() + after_s

    def __call__(self, step: PromptProgressed) -> None:
        """Take one step."""
        if time.monotonic() < self._from:
            return
        rate = f"  {step.tok_s:,.0f} tok/s" if step.tok_s else ""
        self._paint(f"reading {self._what}  {step.num_tokens:,} of {step.num_total:,} tokens{rate}")

    def takes(self, event: Event) -> bool:
        """Show what is read, and give the line to any other event; whether it was of reading."""
        if isinstance(event, PromptProgressed):
            self(event)
            return True
        self.clear()
        return False


def reading_shown(events: Iterable[Event], what: str) -> Iterator[Event]:
    """The events of an answer except its reading, which a terminal is shown where it takes long."""
    line = ReadLine(what, SHORT_READ_S)
    try:
        for event in events:
            if not line.takes(event):
                yield event
    finally:
        line.clear()


def write_all(fd: int, data: bytes) -> None:
    """Write all of ``data``, also where the system takes it in parts."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def write_control(sequence: str) -> bool:
    """Send an escape sequence of our own making to the terminal; False when there is none."""
    for stream in (sys.stderr, sys.stdout):
        if is_terminal(stream):
            stream.write(sequence)
            stream.flush()
            return True
    return False
