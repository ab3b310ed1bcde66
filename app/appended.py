"""A file that only grows: each piece is on it whole or not at all, and an empty one goes away."""

import contextlib
import fcntl
import os
from pathlib import Path

from app.streams import write_all
from engine.own_file import expect_plain


class AppendedFile:
    """The writing end of one file; nothing is opened or made before `open`.

    Args:
        path: the file; missing folders are made, both readable by this person only.

    Attributes:
        is_made_here: whether it was missing when it was opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_made_here = False
        self._fd = -1

    @property
    def is_open(self) -> bool:
        """Whether pieces can be appended."""
        return self._fd >= 0

    @property
    def num_bytes(self) -> int:
        """What it holds now."""
        return os.fstat(self._fd).st_size

    def open(self, *, lock: bool = False, wait: bool = False) -> bool:
        """Open for appending, held against other processes if asked; False when one holds it.

        Args:
            lock: hold it.
            wait: for whoever holds it, who is soon done.

        Raises:
            NotPlainError: something else stands there: a pipe would take lines until it is full.
            OSError: the file cannot be opened or made.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        is_new = not self.path.exists()
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            expect_plain(fd)
            if lock:
                fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(fd)
            return False
        except OSError:
            os.close(fd)
            raise
        self._fd, self.is_made_here = fd, is_new
        return True

    def append(self, data: bytes, *, sync: bool = False) -> None:
        """Write whole lines behind a line end; what does not fit leaves no half of it.

        Args:
            data: one line or more.
            sync: wait until the disk has them.

        Raises:
            OSError: the disk refuses.
        """
        size = self.num_bytes
        is_torn = size and os.pread(self._fd, 1, size - 1) != b"\n"
        try:
            write_all(self._fd, b"\n" * bool(is_torn) + data)
            if sync:
                os.fsync(self._fd)
        except OSError:
            with contextlib.suppress(OSError):  # half a line must not stay in front of the next
                os.ftruncate(self._fd, size)
            raise

    def close(self) -> None:
        """Let go of the file; one that was made here and holds nothing is removed."""
        if self._fd < 0:
            return
        if self.is_made_here and not self.num_bytes:
            with contextlib.suppress(OSError):
                self.path.unlink()
        os.close(self._fd)
        self._fd = -1
