"""A table that `qwen38 tune` wrote for this machine: a TOML file in a folder beside the sessions.

It begins with [measured], the facts of the machine. A file that does not hold what tune would write
is damaged, and is not served in part.
"""

import contextlib
import json
import os
import secrets
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from engine.errors import OutputError
from engine.own_file import read_own

MAX_BYTES = 1 << 20
"""A table of every shape there is has some 20 kB."""


class DamagedTableError(ValueError):
    """A table does not hold what tune would write; the message says why."""


def read_bytes(path: Path) -> bytes | None:
    """Read a table's file; None where there is none.

    Raises:
        DamagedTableError: it does not open, or is longer than any table.
    """
    try:
        return read_own(path, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise DamagedTableError(problem.strerror or "it does not open") from None


def parse_entries(raw: bytes, kind: str) -> tuple[dict[str, Any], list[object]]:
    """Read [measured] and the entries [[kind]], whatever these hold.

    Raises:
        DamagedTableError: it does not read, or one of the two is missing.
    """
    try:
        data = tomllib.loads(raw.decode("utf-8"))
    except RecursionError:
        raise DamagedTableError("it is nested too deep") from None
    except ValueError as problem:  # no TOML, no UTF-8, or a number of thousands of digits
        raise DamagedTableError(f"{problem}"[:200]) from None
    measured, entries = data.get("measured"), data.get(kind)
    if not isinstance(measured, dict) or not isinstance(entries, list):
        raise DamagedTableError(f"it holds no [measured] and no [[{kind}]]")
    return cast("dict[str, Any]", measured), cast("list[object]", entries)


def as_toml(
    header: str, measured: Mapping[str, Any], kind: str, entries: Iterable[Mapping[str, Any]]
) -> str:
    """Write a table as TOML; None values are left out.

    Args:
        header: a sentence for who opens the file.
        measured: facts of the machine.
        kind: name of the entries.
        entries: of text, numbers, truth values and lists of them.
    """
    lines = [f"# {header}", "", "[measured]", *_fields(measured)]
    for one in entries:
        lines += ["", f"[[{kind}]]", *_fields(one)]
    return "\n".join(lines) + "\n"


def write_table(path: Path, text: str) -> Path | None:
    """Replace a table in one step; the one before is kept beside it.

    Args:
        path: missing folders are made.
        text: from `as_toml`.

    Returns:
        Where the table before was kept; None when there was none.

    Raises:
        OutputError: the disk refuses; the table before stays.
    """
    backup = path.with_name(path.name + ".bak")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        before = path.read_bytes() if path.is_file() else None
        if before is not None:
            _replace(backup, before)
        _replace(path, text.encode("utf-8"))
    except OSError as problem:
        raise OutputError(
            f"{path} cannot be written: {problem.strerror}.",
            "Free some space, or give another folder with the setting paths.data.",
        ) from None
    return None if before is None else backup


def _fields(values: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {_value(value)}" for name, value in values.items() if value is not None]


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(one) for one in cast("list[object]", value)) + "]"
    if isinstance(value, str):  # a JSON string is a TOML string, but for one character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _replace(path: Path, data: bytes) -> None:
    """Write a file through to the disk, whole or not at all."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        fresh.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
