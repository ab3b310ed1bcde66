"""Files that a command writes at its end, looked at before its work."""

import errno
import os
from pathlib import Path

from engine.errors import OutputError, RequestError


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
        raise OutputError(f"{path} cannot be written: {os.strerror(errno.EACCES)}.")
