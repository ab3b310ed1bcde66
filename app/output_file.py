"""Files that a command writes at its end: looked at before its work, and written whole or not."""

import contextlib
import errno
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import BinaryIO

from engine.errors import OutputError, RequestError, how_to_write


def new_name(begins: str, ending: str) -> str:
    """A free name for a file in the working folder that was not named, with the time in it."""
    timed = f"{begins}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    names = (f"{timed}{number}{ending}" for number in chain([""], (f"-{n}" for n in count(2))))
    return next(name for name in names if not os.path.lexists(name))


def check_output(option: str, path: Path, ending: str = "") -> None:
    """Refuse a file that could not be written, before anything is computed for it.

    Args:
        option: that named the file.
        path: may exist, as a file.
        ending: that its name must have.

    Raises:
        RequestError: the name has another ending, or is no name for a file in an existing folder.
        OutputError: the folder or the file may not be written.
    """
    if not path.name.endswith(ending):
        raise RequestError(f"{option} is '{path}', expected a name that ends in {ending}.")
    if not path.parent.is_dir():
        raise RequestError(
            f"{option} is '{path}', but the folder {path.parent} does not exist.", "Make it first."
        )
    if path.exists() and not path.is_file():
        raise RequestError(f"{option} is '{path}', which is no file.", "Give another name.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        problem = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        raise OutputError(f"{path} cannot be written: {problem.strerror}.", how_to_write(problem))


@contextmanager
def whole_file(path: Path, *, replace: bool = False) -> Generator[BinaryIO]:
    """A file to write that is on disk whole when the block ends, or not at all.

    Args:
        path: where it goes; readable by this person only when it is new.
        replace: put it in the place of a file that is there, which stays as it was until then.

    Raises:
        FileExistsError: there is a file already, and ``replace`` is False.
        OSError: the disk refuses.
    """
    target = path.resolve() if replace else path
    written = target
    if replace:
        written = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
    fd = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fsync(fd)
        if replace:
            written.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            written.unlink()
        raise
