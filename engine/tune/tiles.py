"""Tile tables: measured launch choices, data beside their kernel family, read here and passed in.

A kernel reads no file. The person's own table, which `qwen38 tune` wrote, comes first, then the
one that ships, then the family's defaults. A tile changes no bit of a result, so a missing or
damaged table costs time only, and is a notice.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from engine.errors import SettingsError
from engine.settings.load import load_settings
from engine.tune.own_table import DamagedTableError, read_bytes
from engine.tune.user_tiles import UserTable, parse_table, table_path
from kernels import FAMILY_MODULES
from kernels.common import gpu
from kernels.common.family import load_families

TABLES = {(9, 0): "sm_90", (12, 0): "sm_121", (12, 1): "sm_121"}
"""Compute capability -> table; the RTX 50 family shares the GB10's."""


@dataclass(frozen=True, slots=True)
class _UserTiles:
    """What a family's user table gives: its entries, and the sentence about it."""

    table: UserTable | None
    notice: str


def read_table(family: str, capability: tuple[int, int]) -> tuple[dict[str, Any], ...]:
    """The rows of a family's tables for a GPU, the user's first: the first row of a key serves.

    Args:
        family: folder of ``kernels``, e.g. "norm".
        capability: the GPU's compute capability, (major, minor).
    """
    own = _own_tiles(family, capability).table
    return (own.rows if own else ()) + shipped_table(family, capability)


def tile_notice(capability: tuple[int, int]) -> str:
    """What a person should know about the tiles of this GPU.

    Empty when measured tables that ship serve alone.
    """
    own = [_own_tiles(family, capability) for family in FAMILY_MODULES]
    said = [one.notice for one in own if one.notice]
    if capability not in TABLES and any(one.table is None for one in own):
        major, minor = capability
        besides = "other kernels run" if any(one.table for one in own) else "kernels run"
        said.append(f"No tile table was measured for sm_{major}{minor}: {besides} with default "
                    "tiles; 'qwen38 tune' measures one.")  # fmt: skip
    guessed = [name for name in FAMILY_MODULES if _is_guess(name, capability)]
    if guessed:
        names = " and ".join(guessed)
        said.append(f"The tiles of {names} for this GPU are defaults that nobody measured; "
                    "'qwen38 tune' measures them.")  # fmt: skip
    return " ".join(said)


def _is_guess(family: str, capability: tuple[int, int]) -> bool:
    """Say whether a family runs with a shipped table of which no row was measured."""
    rows = shipped_table(family, capability)
    told = [str(row.get("note", "")) for row in rows]
    return (
        bool(rows)
        and not _own_tiles(family, capability).table
        and all("not measured" in one for one in told)
    )


def forget_tables() -> None:
    """Read user tables anew at the next question: `tune` has written one."""
    _user_tiles.cache_clear()


@cache
def shipped_table(family: str, capability: tuple[int, int]) -> tuple[dict[str, Any], ...]:
    """The rows that ship with the program; empty where none were measured."""
    name = TABLES.get(capability)
    if name is None:
        return ()
    path = resources.files("kernels") / family / "tiles" / f"{name}.toml"
    if not path.is_file():
        return ()
    return tuple(tomllib.loads(path.read_text(encoding="utf-8"))["tile"])


def _own_tiles(family: str, capability: tuple[int, int]) -> _UserTiles:
    """What the person's own table gives; none does while another GPU is rehearsed."""
    return _UserTiles(None, "") if gpu.rehearsed() else _user_tiles(family, capability)


@cache
def _user_tiles(family: str, capability: tuple[int, int]) -> _UserTiles:
    try:
        settings, _ = load_settings()
    except SettingsError as problem:
        return _UserTiles(None, f"No user tiles are looked for: {problem.message}")
    path = table_path(settings.data_dir, family, capability)
    try:
        raw = read_bytes(path)
        if raw is None:
            return _UserTiles(None, "")
        (loaded,) = load_families([family])
        table = parse_table(raw, loaded.tunables)
    except DamagedTableError as problem:
        again = f"'qwen38 tune --family {family}' writes a new one."
        return _UserTiles(None, f"{path} is damaged ({problem}) and is not used. {again}")
    gpu, date = (str(table.measured.get(name, "?"))[:60] for name in ("gpu", "date"))
    said = f"{family} runs with tiles of {path}, which 'qwen38 tune' measured on {gpu}, {date}."
    return _UserTiles(table, said)
