"""The person's own tile tables, which `qwen38 tune` writes and the engine reads first.

One TOML file a family and GPU, in the folder `tiles` beside the sessions: a table [measured] with
the machine's facts, and one [[tile]] an entry. A file that does not hold what its family would
write is damaged, and is not served in part.
"""

import contextlib
import json
import os
import secrets
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from engine.errors import OutputError
from kernels.common.problem import Tunable

MAX_BYTES = 1 << 20
"""A table of every shape there is has some 20 kB."""

HEADER = "# Launch tiles that 'qwen38 tune' measured on this machine; delete the file to undo it.\n"


class DamagedTableError(ValueError):
    """A user table does not hold what its family would write; the message says why."""


@dataclass(frozen=True, slots=True)
class UserTable:
    """A sound user table: who measured it, and its entries."""

    measured: Mapping[str, Any]
    rows: tuple[dict[str, Any], ...]


def table_path(data_dir: Path, family: str, capability: tuple[int, int]) -> Path:
    """Where the table of a family for a GPU of this compute capability lies."""
    major, minor = capability
    return data_dir / "tiles" / f"{family}-sm_{major}{minor}.toml"


def read_bytes(path: Path) -> bytes | None:
    """Read a table's file; None where there is none.

    Raises:
        DamagedTableError: it does not open, or is longer than any table.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise DamagedTableError(problem.strerror or "it does not open") from None
    if len(raw) > MAX_BYTES:
        raise DamagedTableError("it is longer than any table")
    return raw


def parse_table(raw: bytes, tunables: Sequence[Tunable]) -> UserTable:
    """Read what a table's file holds.

    Args:
        raw: from `read_bytes`.
        tunables: of the table's family.

    Raises:
        DamagedTableError: it does not read, or holds an entry that the family would not write.
    """
    try:
        data = tomllib.loads(raw.decode("utf-8"))
    except RecursionError:
        raise DamagedTableError("it is nested too deep") from None
    except ValueError as problem:  # no TOML, no UTF-8, or a number of thousands of digits
        raise DamagedTableError(f"{problem}"[:200]) from None
    measured, rows = data.get("measured"), data.get("tile")
    if not isinstance(measured, dict) or not isinstance(rows, list):
        raise DamagedTableError("it holds no [measured] and no [[tile]]")
    found = tuple(_sound_row(row, tunables) for row in cast("list[object]", rows))
    _expect_consistent(found, tunables)
    return UserTable(cast("dict[str, Any]", measured), found)


def entry_of(row: Mapping[str, Any], tunables: Sequence[Tunable]) -> tuple[object, ...]:
    """What an entry is for: its op and key, to compare entries by."""
    tunable = _tunable_of(row, tunables)
    return (tunable.op, *(row[name] for name in tunable.key_fields))


def write_user_table(
    path: Path, measured: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> Path | None:
    """Replace a table in one step; the one before is kept beside it.

    Args:
        path: from `table_path`; missing folders are made.
        measured: facts of the run; None values are left out.
        rows: entries, of text, numbers, truth values and lists of them.

    Returns:
        Where the table before was kept; None when there was none.

    Raises:
        OutputError: the disk refuses; the table before stays.
    """
    data = to_toml(measured, rows).encode("utf-8")
    backup = path.with_name(path.name + ".bak")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        before = path.read_bytes() if path.is_file() else None
        if before is not None:
            _replace(backup, before)
        _replace(path, data)
    except OSError as problem:
        raise OutputError(
            f"{path} cannot be written: {problem.strerror}.",
            "Free some space, or give another folder with the setting paths.data.",
        ) from None
    return None if before is None else backup


def to_toml(measured: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Write a table as TOML."""
    lines = [HEADER, "[measured]", *_fields(measured)]
    for row in rows:
        lines += ["", "[[tile]]", *_fields(row)]
    return "\n".join(lines) + "\n"


def _fields(values: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {_value(value)}" for name, value in values.items() if value is not None]


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(one) for one in cast("list[object]", value)) + "]"
    if isinstance(value, str):  # a JSON string is a TOML string, but for one character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _sound_row(row: object, tunables: Sequence[Tunable]) -> dict[str, Any]:
    """Return an entry with its tile's own numbers; refuse a tile that is no candidate of its key.

    The tile that is served is the candidate that equals it, so that a 4.0 does not reach a launch.
    """
    if not isinstance(row, dict):
        raise DamagedTableError("an entry is no table")
    values = cast("dict[str, Any]", row)
    tunable = _tunable_of(values, tunables)
    try:
        key = {name: values[name] for name in tunable.key_fields}
        wanted = tunable.from_row(values)
        found = next((one for one in tunable.candidates(key) if one == wanted), None)
        fields = None if found is None else tunable.to_row(found)
    except Exception as problem:  # noqa: BLE001  whatever a family trips over, its entry is damaged
        kind = type(problem).__name__
        raise DamagedTableError(f"an entry of {tunable.op} does not read ({kind})") from None
    if fields is None:
        raise DamagedTableError(f"the tile of {tunable.op} {key} is none of its candidates"[:200])
    return {**values, **fields}


def _expect_consistent(rows: Sequence[Mapping[str, Any]], tunables: Sequence[Tunable]) -> None:
    """Refuse two entries of one key, and entries of one order key that are of two orders."""
    if len({entry_of(row, tunables) for row in rows}) < len(rows):
        raise DamagedTableError("an entry stands twice")
    orders: dict[object, str] = {}
    for row in rows:
        tunable = _tunable_of(row, tunables)
        order = tunable.arithmetic(tunable.from_row(row))
        if orders.setdefault((tunable.op, tunable.order_key(row)), order) != order:
            raise DamagedTableError(f"entries of {tunable.op} mix two reduction orders")


def _tunable_of(row: Mapping[str, Any], tunables: Sequence[Tunable]) -> Tunable:
    for tunable in tunables:
        if row.get("op") == tunable.op:
            return tunable
    raise DamagedTableError(f"there is nothing to tune called {str(row.get('op'))[:40]!r}")


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
