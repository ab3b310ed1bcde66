"""Bytes from files into tensors: piece by piece, counted, stoppable, leaving no page cache."""

import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, TypeVar, cast

import torch

from engine.errors import CancelledError, CheckpointError
from engine.model.page_cache import PageDropper
from engine.model.plain_file import open_plain
from engine.model.safetensors_header import StoredTensor
from engine.model.staging import Staging
from engine.types import LoadProgressed

NUM_READERS = 4
"""Threads that read a piece together: from the page cache beside an H200 one reads 6.4 GB/s, two
12, four 22 and eight no more."""

SLICE_BYTES = 8 << 20
"""Bytes that a reader takes at a time; slices end at multiples of it in the file."""

REPORT_SECONDS = 0.05
"""Least time between two progress reports; the last report always comes."""

T = TypeVar("T")


class WeightStream:
    """Reads tensors of a checkpoint in file order and reports as they arrive.

    Args:
        total_bytes: of all that will be read.
        device: where the tensors go.
        on_progress: called as bytes arrive, in the thread that reads.
        cancel: looked at before every piece.

    Attributes:
        staging: what lies between the files and the device.
    """

    def __init__(
        self,
        total_bytes: int,
        device: torch.device,
        on_progress: Callable[[LoadProgressed], None] | None = None,
        cancel: threading.Event | None = None,
    ) -> None:
        self.device = device
        self.staging = Staging(device)
        self._total_bytes = total_bytes
        self._on_progress = on_progress
        self._cancel = cancel
        self._is_over = threading.Event()
        self._readers = ThreadPoolExecutor(NUM_READERS, "weights-reader")
        self._dropper = PageDropper()
        self._num_bytes = 0
        self._start_s = time.perf_counter()
        self._reported_s = 0.0
        self._path: Path | None = None
        self._file: BinaryIO | None = None

    def __enter__(self) -> "WeightStream":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._readers.shutdown(cancel_futures=True)
        if kind is None:
            self._finish()
        self._dropper.stop()
        if self._file is not None:
            self._file.close()

    def ahead(self, items: Iterator[T]) -> Generator[T]:
        """Give what an iterator reads from this stream, in a thread one item ahead.

        So the next item is read while the last one is used. Close the generator: it stops the
        thread at the next piece and waits for it.

        Args:
            items: reads from this stream; its errors are raised here.
        """
        with ThreadPoolExecutor(1, "weights-ahead") as thread:
            try:
                coming = thread.submit(_next_of, items)
                while found := coming.result():
                    coming = thread.submit(_next_of, items)
                    yield found[0]
            finally:
                self._is_over.set()

    def read(self, stored: StoredTensor, start: int, out: torch.Tensor) -> None:
        """Read bytes of a tensor straight into memory.

        Args:
            stored: the tensor.
            start: first byte within the tensor.
            out: uint8 [n] on the CPU, contiguous; filled with bytes [start, start + n).

        Raises:
            CancelledError: the person stopped the load, or nobody wants what is read `ahead`.
            CheckpointError: the file ends early or does not read.
        """
        if self._is_over.is_set() or (self._cancel is not None and self._cancel.is_set()):
            raise CancelledError("Loading was stopped before the model was complete.")
        view = memoryview(cast("Any", out.numpy()))
        offset = stored.offset + start
        try:
            self._read(self._open(stored.path), offset, view)
        except EOFError:
            raise CheckpointError(
                f"{stored.path} ended while '{stored.name[:200]}' was read.",
                "Something changed the file; load again.",
            ) from None
        except OSError as problem:
            raise CheckpointError(
                f"{stored.path} does not read: {problem.strerror}.", "Check the disk."
            ) from None
        self._dropper.drop(offset, offset + len(view))
        self._count(stored.path, len(view))

    def _read(self, fd: int, offset: int, view: memoryview) -> None:
        """Read a piece, its slices in several threads.

        Raises:
            EOFError: the file ends before.
            OSError: it does not read.
        """
        end = offset + len(view)
        cuts = range(offset - offset % SLICE_BYTES + SLICE_BYTES, end, SLICE_BYTES)
        if not cuts:
            read_slice(fd, offset, view)
            return
        slices = [
            self._readers.submit(read_slice, fd, at, view[at - offset : until - offset])
            for at, until in pairwise((offset, *cuts, end))
        ]
        for one in slices:
            one.result()

    def _open(self, path: Path) -> int:
        """The file's descriptor; it stays open until another file is read."""
        if self._file is None or path != self._path:
            self._finish()
            self._file, self._path = open_plain(path), path
            self._dropper.begin(self._file.fileno())
        return self._file.fileno()

    def _finish(self) -> None:
        """Close the file, nothing of it in the page cache."""
        if self._file is not None:
            self._dropper.finish()
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


def read_slice(fd: int, offset: int, view: memoryview) -> None:
    """Fill memory from a file.

    Raises:
        EOFError: the file ends before.
        OSError: it does not read.
    """
    done = 0
    while done < len(view):
        got = os.preadv(fd, [view[done:]], offset + done)
        if got == 0:
            raise EOFError
        done += got


def _next_of(items: Iterator[T]) -> tuple[T] | None:
    """The next item, in a tuple; None at the end."""
    for one in items:
        return (one,)
    return None
