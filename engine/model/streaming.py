"""Bytes from files into tensors: piece by piece, counted, stoppable, leaving no page cache."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, cast

import torch

from engine.errors import CancelledError, CheckpointError
from engine.model.plain_file import open_plain
from engine.model.safetensors_header import StoredTensor
from engine.types import LoadProgressed

STAGING_BYTES = 64 << 20
"""Bytes read at a time: long enough for full disk speed, short enough to stop at once."""

REPORT_SECONDS = 0.05
"""Least time between two progress reports; the last report always comes."""


class WeightStream:
    """Reads tensors of a checkpoint in file order and reports as they arrive."""

    def __init__(
        self,
        total_bytes: int,
        on_progress: Callable[[LoadProgressed], None] | None,
        cancel: threading.Event | None,
    ) -> None:
        self._total_bytes = total_bytes
        self._on_progress = on_progress
        self._cancel = cancel
        self._num_bytes = 0
        self._start_s = time.perf_counter()
        self._reported_s = 0.0
        self._path: Path | None = None
        self._file: BinaryIO | None = None
        self._staging: torch.Tensor | None = None

    def __enter__(self) -> "WeightStream":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def read(self, stored: StoredTensor, start: int, out: torch.Tensor) -> None:
        """Read bytes of a tensor straight into memory.

        Args:
            stored: the tensor.
            start: first byte within the tensor.
            out: uint8 [n] on the CPU, contiguous; filled with bytes [start, start + n).

        Raises:
            CancelledError: the person stopped the load.
            CheckpointError: the file ends early or does not read.
        """
        if self._cancel is not None and self._cancel.is_set():
            raise CancelledError("Loading was stopped before the model was complete.")
        try:
            fd = self._open(stored.path)
            view = memoryview(cast("Any", out.numpy()))
            done = 0
            while done < len(view):
                got = os.preadv(fd, [view[done:]], stored.offset + start + done)
                if got == 0:
                    raise CheckpointError(
                        f"{stored.path} ended while '{stored.name[:200]}' was read.",
                        "Something changed the file; load again.",
                    )
                done += got
            # the weights stay in our memory: a second copy in the page cache would push others out
            os.posix_fadvise(fd, stored.offset + start, len(view), os.POSIX_FADV_DONTNEED)
        except OSError as problem:
            raise CheckpointError(
                f"{stored.path} does not read: {problem.strerror}.", "Check the disk."
            ) from None
        self._count(stored.path, len(view))

    def staging(self, num_bytes: int, *, pinned: bool) -> torch.Tensor:
        """A buffer uint8 [num_bytes] that is used again for every piece."""
        if self._staging is None or self._staging.numel() < num_bytes:
            size = max(num_bytes, STAGING_BYTES) if pinned else num_bytes
            self._staging = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
        return self._staging[:num_bytes]

    def _open(self, path: Path) -> int:
        """The file's descriptor; it stays open until another file is read."""
        if self._file is None or path != self._path:
            self._close()
            self._file, self._path = open_plain(path), path
        return self._file.fileno()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = self._path = None

    def _count(self, path: Path, num_bytes: int) -> None:
        self._num_bytes += num_bytes
        now = time.perf_counter()
        is_last = self._num_bytes >= self._total_bytes
        if self._on_progress is None or (now - self._reported_s < REPORT_SECONDS and not is_last):
            return
        self._reported_s = now
        rate = self._num_bytes / max(now - self._start_s, 1e-9) / 1e9
        self._on_progress(LoadProgressed(path.name, self._num_bytes, self._total_bytes, rate))
