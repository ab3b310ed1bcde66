"""Give pages of the page cache back once they were read.

Weights stay in our memory: a second copy of them would push other programs' pages out.
"""

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress

BYTES_AT_ONCE = 1 << 20
"""What is dropped while reading goes on; less waits for what follows it in the file."""

WRITTEN_OUT_S = 60.0
"""Age of a file that is on the disk: Linux looks every 5 s for what changed 30 s ago."""


class PageDropper:
    """Drops what was read of a file, in a thread of its own.

    A file that was just written is left alone: its pages cannot go before they are on the disk, and
    to ask for it is slower than to read them.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "weights-dropper")
        self._fd = -1
        self._is_written_out = False
        self._drops: list[Future[None]] = []
        self._starts: dict[int, int] = {}
        self._waiting: set[int] = set()

    def begin(self, fd: int) -> None:
        """Take the next file, which stays open until `finish` or `stop`."""
        self._fd = fd
        self._is_written_out = time.time() - os.fstat(fd).st_mtime > WRITTEN_OUT_S

    def drop(self, offset: int, end: int) -> None:
        """Drop bytes that were read, soon.

        What was read right before them is dropped with them, once more too, so that the page
        between goes.

        Args:
            offset: of the first byte in the file.
            end: behind the last one.
        """
        if not self._is_written_out:
            return
        start = self._starts[end] = self._starts.pop(offset, offset)
        self._waiting.discard(offset)
        if end - offset < BYTES_AT_ONCE:
            self._waiting.add(end)
        else:
            self._drops.append(self._thread.submit(_drop, self._fd, start, end))

    def finish(self) -> None:
        """Drop the rest of the file, and wait for that."""
        wait(self._drops)
        for end in self._waiting:
            _drop(self._fd, self._starts[end], end)
        self._drops.clear()
        self._starts.clear()
        self._waiting.clear()

    def stop(self) -> None:
        """Leave the rest, once the drop that is going on is over."""
        self._thread.shutdown(cancel_futures=True)


def _drop(fd: int, start: int, end: int) -> None:
    with suppress(OSError):  # a file system without advice loads all the same
        os.posix_fadvise(fd, start, end - start, os.POSIX_FADV_DONTNEED)
