"""Files in a person's own folders: only plain ones are opened, and none is read without an end.

A pipe in the place of one would never answer, and a file of gigabytes would fill the memory.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from engine.sizes import size_text


class NotPlainError(OSError):
    """A folder, a pipe, a device or a socket stands where a plain file was expected."""


def open_own(path: Path) -> BinaryIO:
    """Open a plain file, or a link to one, for reading; waits for nothing.

    Raises:
        NotPlainError: it is none.
        OSError: it is missing or does not open.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        expect_plain(fd)
    except OSError:
        os.close(fd)
        raise
    return os.fdopen(fd, "rb")


def expect_plain(fd: int) -> None:
    """Look whether an open file is a plain one.

    Raises:
        NotPlainError: it is none.
    """
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise NotPlainError(errno.EINVAL, "it is no plain file")


def read_own(path: Path, max_bytes: int) -> bytes:
    """All of a plain file.

    Raises:
        NotPlainError: it is none.
        OSError: it is missing, does not read, or is longer than ``max_bytes``.
    """
    with open_own(path) as file:
        if os.fstat(file.fileno()).st_size > max_bytes:
            raise OSError(errno.EFBIG, f"it is longer than {size_text(max_bytes)}")
        return file.read(max_bytes)


def read_tail(path: Path, max_bytes: int) -> bytes:
    """The last ``max_bytes`` of a plain file, or all of a shorter one; errors as `read_own`."""
    with open_own(path) as file:
        file.seek(-min(os.fstat(file.fileno()).st_size, max_bytes), os.SEEK_END)
        return file.read(max_bytes)
