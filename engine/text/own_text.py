"""A text that a person gave as a file: to calibrate on, to judge by."""

from pathlib import Path

from engine.errors import RequestError


def read_own_text(path: Path, max_bytes: int, mend: str) -> str:
    """Read a text in UTF-8; of a device without an end no more than ``max_bytes``.

    Args:
        path: file, or pipe.
        max_bytes: that it may have.
        mend: what to do about one that does not read.

    Raises:
        RequestError: it does not read, is too long, is no UTF-8 or holds no word.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(max_bytes + 1)
    except OSError as problem:
        raise RequestError(f"{path} does not read: {problem.strerror}.", mend) from None
    if len(raw) > max_bytes:
        raise RequestError(f"{path} holds more than {max_bytes:,} bytes.", "Give a part of it.")
    if b"\0" in raw:
        raise RequestError(f"{path} is no text: it holds zero bytes.", mend)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise RequestError(
            f"{path} is no UTF-8: byte {problem.start} is {raw[problem.start]:#04x}.", mend
        ) from None
    if not text.strip():
        raise RequestError(f"{path} holds no text.", mend)
    return text
