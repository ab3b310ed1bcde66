"""Files that somebody else named: only plain ones are opened, and no more is read than may be.

A checkpoint may hold a pipe that never answers or a link to a device that never ends.
"""

import os
from pathlib import Path
from typing import BinaryIO

from engine.errors import CheckpointError
from engine.own_file import NotPlainError, open_own

AGAIN = "Download this file again."
READABLE = "Give yourself the right to read it."


def mend_of(problem: OSError) -> str:
    """What helps when a file of a checkpoint does not read: a download gives no rights."""
    return READABLE if isinstance(problem, PermissionError) else AGAIN


def open_plain(path: Path) -> BinaryIO:
    """Open a plain file, or a link to one, for reading; waits for nothing.

    Raises:
        CheckpointError: it is a folder, a pipe, a device or a socket.
        OSError: it is missing or does not open.
    """
    try:
        return open_own(path)
    except NotPlainError:
        raise CheckpointError(
            f"{path} is no plain file.",
            "Do not use this checkpoint: a download holds plain files alone.",
        ) from None


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """All of a plain file.

    Raises:
        CheckpointError: it is none, or longer than ``max_bytes``.
        OSError: it is missing or does not read.
    """
    with open_plain(path) as file:
        num_bytes = os.fstat(file.fileno()).st_size
        if num_bytes > max_bytes:
            raise CheckpointError(
                f"{path} has {num_bytes:,} bytes; no such file needs more than {max_bytes:,}.",
                AGAIN,
            )
        return file.read(num_bytes)
