"""Open a trace, whoever wrote it: a session's own recording, or what was exported for Perfetto."""

import gzip
import heapq
import json
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from app.trace.chrome import is_ours, lines_of
from app.trace.growing import LineReader
from app.trace.lines import Line
from app.trace.traced import TracedTurn, TraceError
from engine.errors import how_to_read
from engine.sizes import counted

MAX_EXPORT_BYTES = 1 << 30
"""Most that is read of an exported trace: it is parsed as a whole. 100,000 rounds have 100 MB."""

MAX_LINE_BYTES = 64 << 20
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Source:
    """A recording, or the part of it behind ``offset`` bytes."""

    path: Path
    offset: int = 0


class TraceReader:
    """The turns of one file, in the order in which they were recorded.

    ``num_damaged`` counts lines that did not read, once the turns were taken.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._reader = LineReader()

    @property
    def num_damaged(self) -> int:
        """Lines that were passed over."""
        return self._reader.num_damaged

    def turns(self) -> Iterator[TracedTurn]:
        """One turn after the other; only one is held at a time where the file is a recording.

        Raises:
            TraceError: the file is missing, does not read, or is no trace of this program.
        """
        path = self._source.path
        try:
            with _opened(path) as file:
                yield from self._reader.turns(self._lines(file))
        except FileNotFoundError:
            raise TraceError(f"The file {path} is missing.", "Give a trace or a session.") from None
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise TraceError(f"{path} is a damaged gzip file.", "Export it again.") from None
        except OSError as problem:
            raise TraceError(
                f"{path} does not read: {problem.strerror}.", how_to_read(problem)
            ) from None

    def _lines(self, file: BinaryIO) -> Iterator[Line | None]:
        path = self._source.path
        first = file.readline(MAX_LINE_BYTES)
        head = _parsed(first)
        if head is not None and head.get("type") == "trace":
            file.seek(self._source.offset)
            while line := file.readline(MAX_LINE_BYTES):
                if line.strip():
                    yield _parsed(line)
            return
        if not first.lstrip().startswith((b"{", b"[")):
            raise _foreign(path)
        data = first + file.read(MAX_EXPORT_BYTES)
        if len(data) > MAX_EXPORT_BYTES:
            raise TraceError(f"{path} is larger than 1 GiB.", "Give the session's own recording.")
        document = _parsed(data)
        if document is None or not is_ours(document):
            raise _foreign(path)
        yield from lines_of(document)


def all_turns(path: Path, tell: Callable[[str], None]) -> Iterator[TracedTurn]:
    """The turns of a file that is to hold some; ``tell`` hears about damaged lines.

    Raises:
        TraceError: the file does not read, or holds no turn.
    """
    reader = TraceReader(Source(path))
    num_turns = 0
    for turn in reader.turns():
        num_turns += 1
        yield turn
    if num := reader.num_damaged:
        tell(f"{counted(num, 'damaged line')} of {path} could not be read; the rest is here.")
    if not num_turns:
        raise TraceError(f"{path} holds no turn.", "Record an answer first.")


def read_turns(sources: Sequence[Source]) -> Iterator[TracedTurn]:
    """The turns of one run that are spread over several recordings, in order of time."""
    turns: Iterable[Iterator[TracedTurn]] = (TraceReader(one).turns() for one in sources)
    return heapq.merge(*turns, key=lambda one: one.start_s)


@contextmanager
def _opened(path: Path) -> Generator[BinaryIO]:
    if path.exists() and not path.is_file():
        raise TraceError(f"{path} is no file.", "Give a trace or a session.")
    with path.open("rb") as file:
        is_packed = file.read(2) == GZIP_MAGIC
        file.seek(0)
        if not is_packed:
            yield file
            return
        with gzip.open(file, "rb") as unpacked:
            yield cast("BinaryIO", unpacked)


def _parsed(data: bytes) -> dict[str, Any] | None:
    """The JSON object in ``data``, or None."""
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _foreign(path: Path) -> TraceError:
    return TraceError(
        f"{path} is no trace of qwen38.",
        "Give what --trace or /trace wrote, or a session's own recording.",
    )
