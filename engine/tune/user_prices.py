"""What rounds cost here: the table that `qwen38 tune --family rounds` wrote, else the shipped one.

One file a GPU, in the folder `prices` (`own_table.py`); one [[prices]] a model: its number of
parameters and the formats of its parts. A table of another GPU is not read, and a damaged one not
in part: a wrong price costs speed only, so that either is a notice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

import torch

from engine.draft.price_table import PriceTable, shipped_prices, table_of
from engine.draft.prices import MAX_STEPS
from engine.model.config import ModelConfig
from engine.model.footprint import count_parameters
from engine.profile import Formats
from engine.tune.own_table import (
    DamagedTableError,
    as_toml,
    parse_entries,
    read_bytes,
    write_table,
)
from engine.tune.tiles import TABLES
from engine.types import KV_FORMATS, KvFormat
from kernels.common import gpu
from kernels.common.round import MAX_ROWS

HEADER = "What 'qwen38 tune --family rounds' measured on this machine; delete the file to undo it."
LONGEST_CONTEXT = 1 << 24
"""Positions that no model holds: what a table may name at most."""

MOST_MS = 1e6
"""No round takes a quarter of an hour."""

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Served:
    """Whose rounds cost something.

    Attributes:
        parameters: of the model.
        formats: of its parts, as its profile has them.
        capability: of the GPU whose kernels serve it; None is the CPU.
        kv: format of its keys and values.
    """

    parameters: int
    formats: Formats
    capability: tuple[int, int] | None
    kv: KvFormat

    @staticmethod
    def of(
        config: ModelConfig, formats: Formats, capability: tuple[int, int] | None, kv: KvFormat
    ) -> "Served":
        """The model of a shape."""
        return Served(count_parameters(config), formats, capability, kv)

    @property
    def key(self) -> Entry:
        """What its entry in a file begins with."""
        formats = formats_of(self.formats)
        return {"parameters": self.parameters, "formats": formats, "kv": self.kv}


@dataclass(frozen=True, slots=True)
class FoundPrices:
    """A table, and what a person should know of it.

    Attributes:
        table: None where there is none.
        is_own: whether this machine measured it.
        notice: which own table serves, or why one does not; empty without one.
    """

    table: PriceTable | None
    is_own: bool = False
    notice: str = ""


def formats_of(formats: Formats) -> list[str]:
    """The formats of a model's parts in the order of their fields."""
    return [getattr(formats, one.name) for one in fields(formats)]


def prices_path(data_dir: Path, capability: tuple[int, int] | None) -> Path:
    """Where the table for a GPU of this compute capability lies; None is the CPU."""
    name = "cpu" if capability is None else f"sm_{capability[0]}{capability[1]}"
    return data_dir / "prices" / f"{name}.toml"


def find_prices(served: Served, data_dir: Path | None) -> FoundPrices:
    """The prices of a model here: this machine's own, else those that ship for its GPU.

    Args:
        served: whose.
        data_dir: folder of the sessions; None looks for no own table, nor does a rehearsal.
    """
    notice = ""
    if data_dir is not None and not gpu.rehearsed():
        path = prices_path(data_dir, served.capability)
        try:
            own = [_as_table(one) for one in _entries(path, served) if _is_of(one, served)]
        except DamagedTableError as problem:
            again = "'qwen38 tune --family rounds' writes a new one."
            own, notice = [], f"{path} is not used: {problem}. {again}"
        if own:
            return FoundPrices(own[0], True, f"Rounds are priced by {path}: {own[0].source}.")
    if served.capability is None:
        return FoundPrices(None, notice=notice)
    table = TABLES.get(served.capability, "")
    return FoundPrices(shipped_prices(table, served.formats.mlp), notice=notice)


def write_prices(
    path: Path, measured: Mapping[str, Any], served: Served, table: PriceTable
) -> Path | None:
    """Put a model's table into the file of its GPU; those of other models stay.

    Args:
        path: from `prices_path`.
        measured: facts of the run.
        served: whose.
        table: what was measured.

    Returns:
        Where the file before was kept; None when there was none.

    Raises:
        OutputError: the disk refuses; the file before stays.
    """
    try:
        kept = [one for one in _entries(path, served) if not _is_of(one, served)]
    except DamagedTableError:  # kept beside the new one, as any file before
        kept = []
    return write_table(path, prices_toml(measured, [*kept, served.key | _values(table)]))


def prices_toml(measured: Mapping[str, Any], entries: Sequence[Entry]) -> str:
    """Write a file of prices."""
    return as_toml(HEADER, measured, "prices", entries)


def _entries(path: Path, served: Served) -> list[Entry]:
    """The sound entries of this GPU's file; none without a file.

    Raises:
        DamagedTableError: it does not read, holds what tune would not write, or is of another GPU.
    """
    raw = read_bytes(path)
    if raw is None:
        return []
    measured, found = parse_entries(raw, "prices")
    on_gpu = served.capability is not None and torch.cuda.is_available()
    here = torch.cuda.get_device_name() if on_gpu else None
    if measured.get("gpu") != here:
        there = str(measured.get("gpu", "a CPU"))[:60]
        raise DamagedTableError(f"it was measured on {there}, and this is {here or 'a CPU'}")
    for one in found:
        _expect_sound(one)
    return cast("list[Entry]", found)


def _is_of(entry: Entry, served: Served) -> bool:
    return all(entry[name] == value for name, value in served.key.items())


def _values(table: PriceTable) -> Entry:
    return {one.name: getattr(table, one.name) for one in fields(table)}


def _as_table(entry: Entry) -> PriceTable:
    known = {one.name for one in fields(PriceTable)}
    return table_of({name: value for name, value in entry.items() if name in known})


def _expect_sound(entry: object) -> None:
    """Refuse an entry that tune would not write."""
    if not isinstance(entry, dict):
        raise DamagedTableError("an entry is no table")
    values = cast("Entry", entry)
    for name, value in values.items():
        is_sound = (_REQUIRED | _OPTIONAL).get(name)
        if is_sound is None:
            raise DamagedTableError(f"an entry has a key {name[:40]!r}, which there is not")
        if not is_sound(value):
            raise DamagedTableError(f"{name} is {str(value)[:60]}")
    if lacking := _REQUIRED.keys() - values.keys():
        raise DamagedTableError(f"an entry has no {min(lacking)}")
    num_contexts, num_rows = len(values["context_tokens"]), len(values["rows"])
    for name in ("chain_ms", "tree_ms"):
        ladders: list[list[float]] = values.get(name, [])
        if ladders and [len(one) for one in ladders] != [num_rows] * num_contexts:
            raise DamagedTableError(f"{name} is not of {num_contexts} contexts by {num_rows} rows")
    if len(values["draft_ms"]) != len(values["steps"]):
        raise DamagedTableError("draft_ms has not as many values as steps")


def _is_list(value: object, is_sound: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(is_sound(one) for one in cast("list[object]", value))


def _is_ms(value: object) -> bool:
    return type(value) in (float, int) and 0 < cast("float", value) < MOST_MS


def _are_ladders(value: object) -> bool:
    return _is_list(value, lambda one: _is_list(one, _is_ms))


def _climbs(least: int, most: int) -> Callable[[object], bool]:
    """Whether a value is a list of whole numbers within bounds, each above the one before."""

    def is_sound(value: object) -> bool:
        if not _is_list(value, lambda one: type(one) is int and least <= one <= most):
            return False
        numbers = cast("list[int]", value)
        return numbers == sorted(set(numbers))

    return is_sound


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 400


_REQUIRED: dict[str, Callable[[Any], bool]] = {
    "parameters": lambda value: type(value) is int,
    "formats": lambda value: _is_list(value, _is_text) and len(value) == len(fields(Formats)),
    "kv": lambda value: value in KV_FORMATS,
    "format": _is_text,
    "rows": lambda value: bool(value) and _climbs(1, MAX_ROWS)(value),
    "context_tokens": lambda value: bool(value) and _climbs(0, LONGEST_CONTEXT)(value),
    "chain_ms": lambda value: bool(value) and _are_ladders(value),
    "steps": _climbs(1, MAX_STEPS),
    "draft_ms": lambda value: _is_list(value, _is_ms),
    "source": _is_text,
}
_OPTIONAL: dict[str, Callable[[Any], bool]] = {
    "tree_ms": _are_ladders,
    "estimated": lambda value: _is_list(value, _is_text),
}
"""What an entry holds: key -> whether a value is one that tune would write."""
