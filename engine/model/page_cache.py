"""Give pages of the page cache back once they were read.

Weights stay in our memory: a second copy of them would push other programs' pages out.
"""

import os
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress

BYTES_AT_ONCE = 1 << 20
"""What is dropped while reading goes on; less waits for what follows it in the file."""


class PageDropper:
    """Drops what was read of a file, in a thread of its own.

    It takes longer than reading where a file was just written: that is written out first.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "weights-dropper")
        self._drops: list[Future[None]] = []
        self._starts: dict[int, int] = {}
        self._waiting: set[int] = set()

    def drop(self, fd: int, offset: int, end: int) -> None:
        """Drop bytes that were read, soon.

        What was read right before them is dropped with them, once more too, so that the page
        between goes.

        Args:
            fd: of the file; stays open until `finish` or `stop`.
            offset: of the first byte.
            end: behind the last one.
        """
        start = self._starts[end] = self._starts.pop(offset, offset)
        self._waiting.discard(offset)
        if end - offset < BYTES_AT_ONCE:
            self._waiting.add(end)
        else:
            self._drops.append(self._thread.submit(_drop, fd, start, end))

    def finish(self, fd: int) -> None:
        """Drop the rest of a file, and wait for that."""
        wait(self._drops)
        for end in self._waiting:
            _drop(fd, self._starts[end], end)
        self._drops.clear()
        self._starts.clear()
        self._waiting.clear()

    def stop(self) -> None:
        """Leave the rest, once the drop that is going on is over."""
        self._thread.shutdown(cancel_futures=True)


def _drop(fd: int, start: int, end: int) -> None:
    with suppress(OSError):  # a file system without advice loads all the same
        os.posix_fadvise(fd, start, end - start, os.POSIX_FADV_DONTNEED)
