"""The person's own tile tables, which `qwen38 tune` writes and the engine reads first.

One file a family and GPU, in the folder `tiles` (`own_table.py`); one [[tile]] an entry.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from engine.tune.own_table import DamagedTableError, as_toml, parse_entries, write_table
from kernels.common.problem import Tunable

HEADER = "Launch tiles that 'qwen38 tune' measured on this machine; delete the file to undo it."

MEASURED_FIELDS = ("problems", "us", "before_us", "note")
"""Fields of an entry beside its op, its key and its tile: what was timed, and where."""


@dataclass(frozen=True, slots=True)
class UserTable:
    """A sound user table: who measured it, and its entries."""

    measured: Mapping[str, Any]
    rows: tuple[dict[str, Any], ...]


def table_path(data_dir: Path, family: str, capability: tuple[int, int]) -> Path:
    """Where the table of a family for a GPU of this compute capability lies."""
    major, minor = capability
    return data_dir / "tiles" / f"{family}-sm_{major}{minor}.toml"


def parse_table(raw: bytes, tunables: Sequence[Tunable]) -> UserTable:
    """Read what a table's file holds.

    Args:
        raw: of its file.
        tunables: of the table's family.

    Raises:
        DamagedTableError: it does not read, or holds an entry that the family would not write.
    """
    measured, rows = parse_entries(raw, "tile")
    found = tuple(_sound_row(row, tunables) for row in rows)
    if len({entry_of(row, tunables) for row in found}) < len(found):
        raise DamagedTableError("an entry stands twice")
    return UserTable(measured, found)


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
    return write_table(path, to_toml(measured, rows))


def to_toml(measured: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Write a table as TOML."""
    return as_toml(HEADER, measured, "tile", rows)


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
    unknown = values.keys() - {"op", *key, *fields, *MEASURED_FIELDS}
    if unknown:
        raise DamagedTableError(
            f"an entry of {tunable.op} holds {min(unknown)[:40]!r}, which tune does not write"
        )
    return {**values, **fields}


def _tunable_of(row: Mapping[str, Any], tunables: Sequence[Tunable]) -> Tunable:
    for tunable in tunables:
        if row.get("op") == tunable.op:
            return tunable
    raise DamagedTableError(f"there is nothing to tune called {str(row.get('op'))[:40]!r}")
