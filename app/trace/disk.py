"""The file under a recording: appended to in blocks, never waited for, never larger than allowed.

What it holds back in memory is at most `BLOCK_BYTES` and a moment old. It is not synced: a power
cut may cost the end of a trace, as nothing else waits for it.
"""

import contextlib
import errno
import time
from pathlib import Path

from app.appended import AppendedFile

BLOCK_BYTES = 32 << 10
"""About 200 rounds."""

BLOCK_SECONDS = 1.0


class TraceFile:
    """One recording that is written; made with its first block, readable by this person only.

    Args:
        path: the file.
        max_bytes: what it may grow to.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._file = AppendedFile(path)
        self._waiting = bytearray()
        self._written_at = 0.0

    def add(self, data: bytes) -> None:
        """Take a line, and write the block that it fills; raises OSError as `flush` does."""
        if not self._waiting:
            self._written_at = time.monotonic()
        self._waiting += data
        is_due = time.monotonic() - self._written_at >= BLOCK_SECONDS
        if is_due or len(self._waiting) >= BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits; when that fails it is dropped, and no half of it stays.

        Raises:
            OSError: the disk refuses, or the file would grow over its limit.
        """
        if not self._waiting:
            return
        data, self._waiting = bytes(self._waiting), bytearray()
        if not self._file.is_open:
            self._file.open()
        if self._file.num_bytes + len(data) > self._max_bytes:
            raise OSError(errno.EFBIG, f"it has reached {self._max_bytes >> 20} MB (trace.max_mb)")
        self._file.append(data)

    def close(self) -> None:
        """Write what waits if the disk lets us, and let go of the file; an empty one is removed."""
        with contextlib.suppress(OSError):
            self.flush()
        self._file.close()
