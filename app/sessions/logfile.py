"""An append-only file of JSON lines that one process writes, and that survives a bad disk.

A line is on the disk when `append` returns without a problem; a line that could not be written is
kept and tried again with the next one. Knows nothing of what the lines mean.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from app.appended import AppendedFile

MAX_SESSION_BYTES = 1 << 30
"""What is read of one file: a full context of a million tokens takes some 20 MB with its record."""


class LogFile:
    """The writing end of one file; nothing is opened or created before the first line.

    Args:
        path: the file; missing folders are made, readable by this person only.
        keep: False keeps every line in memory and touches no disk.
    """

    def __init__(self, path: Path, *, keep: bool = True) -> None:
        self.path = path
        self.keep = keep
        self._file = AppendedFile(path)
        self._waiting: list[bytes] = []

    @property
    def num_waiting(self) -> int:
        """Lines that the disk refused so far."""
        return len(self._waiting)

    def lock(self) -> bool:
        """Take the file for writing; False when another process holds it.

        Raises:
            OSError: the file cannot be opened or made.
        """
        if self._file.is_open:
            return True
        if not self._file.open(lock=True):
            return False
        if self._file.is_made_here:
            _sync_folder(self.path.parent)
        return True

    def append(self, value: Mapping[str, Any]) -> OSError | None:
        """Write one line through to the disk; a problem is returned and the line kept for later."""
        return self.append_all([value])

    def append_all(self, values: Sequence[Mapping[str, Any]]) -> OSError | None:
        """Write lines through to the disk in one go; a problem is returned, the lines are kept."""
        if not self.keep:
            return None
        self._waiting += [to_line(one) for one in values]
        try:
            if not self.lock():
                return BlockingIOError(f"{self.path} is held by another process")
            self._file.append(b"".join(self._waiting), sync=True)
            self._waiting.clear()
        except OSError as problem:
            return problem
        return None

    def close(self) -> None:
        """Give the file back to other processes; one that never took a line is removed."""
        self._file.close()


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def to_line(value: Mapping[str, Any]) -> bytes:
    """One JSON object as one line of UTF-8 (a lone surrogate stays an escape)."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def read_lines(data: bytes) -> tuple[list[dict[str, Any]], int]:
    """The JSON objects in ``data``, and how many lines are damaged."""
    found: list[dict[str, Any]] = []
    num_damaged = 0
    for line in data.split(b"\n"):
        if not line.strip(b"\0 \t\r"):
            num_damaged += bool(line)
            continue
        try:
            value: object = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            found.append(cast("dict[str, Any]", value))
        else:
            num_damaged += 1
    return found, num_damaged
