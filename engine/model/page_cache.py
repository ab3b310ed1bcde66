"""Give pages of the page cache back once they were read.

Weights stay in our memory: a second copy of them would push other programs' pages out.
"""

import os
from concurrent.futures import Future, ThreadPoolExecutor, wait


class PageDropper:
    """Drops what was read of a file, in a thread of its own.

    It takes longer than reading where a file was just written: that is written out first.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "weights-dropper")
        self._drops: list[Future[None]] = []
        self._starts: dict[int, int] = {}

    def drop(self, fd: int, offset: int, end: int) -> None:
        """Drop bytes that were read, soon.

        What was read right before them is dropped again with them, so that the page between goes
        too.

        Args:
            fd: of the file; stays open until `finish` or `stop`.
            offset: of the first byte.
            end: behind the last one.
        """
        start = self._starts[end] = self._starts.pop(offset, offset)
        advise = self._thread.submit(
            os.posix_fadvise, fd, start, end - start, os.POSIX_FADV_DONTNEED
        )
        self._drops.append(advise)

    def finish(self) -> None:
        """Wait until all of a file is dropped, as far as its file system does that."""
        wait(self._drops)
        self._drops.clear()
        self._starts.clear()

    def stop(self) -> None:
        """Leave the rest, once the drop that is going on is over."""
        self._thread.shutdown(cancel_futures=True)
