"""Sweep the launch tiles of this GPU and write what is faster into the person's own tables.

Only what holds is written (`sweep.py`), and nothing when no tile is faster. Entries that keep their
tile are written beside the others: a weight may need its entries for all numbers of rows.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.errors import RequestError
from engine.machine.facts import machine_facts, now, read_clocks
from engine.machine.measure import launch_time, read_bandwidth
from engine.rehearsal import expect_own_launches
from engine.tune.entries import Entry, Outcome, entries_of
from engine.tune.own_table import DamagedTableError, read_bytes
from engine.tune.sweep import EntrySweep, Timer
from engine.tune.tiles import forget_tables, read_table
from engine.tune.user_tiles import entry_of, parse_table, table_path, write_user_table
from engine.types import Progress
from kernels.common import gpu
from kernels.common.family import Family
from kernels.common.problem import ModelSizes, Row
from kernels.common.timing import time_calls


@dataclass(frozen=True, slots=True)
class Place:
    """Where tiles are tuned and for what: a device, its compute capability, the tables' folder."""

    device: str
    capability: tuple[int, int]
    data_dir: Path


def this_gpu(data_dir: Path) -> Place:
    """The GPU that torch runs on; there must be one."""
    return Place("cuda", gpu.choices(), data_dir)


@dataclass(slots=True)
class Tuning:
    """What a run found: an outcome an entry, and the entries that the time did not reach."""

    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    unreached: list[str] = field(default_factory=list[str])
    written: list[Path] = field(default_factory=list[Path])
    backups: list[Path] = field(default_factory=list[Path])


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a run goes about it; ``deadline`` is of `time.monotonic`."""

    place: Place
    deadline: float
    dry_run: bool
    progress: Progress
    timer: Timer


def tune(
    families: Sequence[Family],
    models: Sequence[ModelSizes],
    place: Place,
    *,
    seconds: float,
    dry_run: bool,
    progress: Progress,
    timer: Timer = time_calls,
) -> Tuning:
    """Sweep the entries that models need, and write the tables of the families that gained.

    Args:
        families: those without tunables are passed over.
        models: sizes whose problems are timed, the one that matters most first.
        place: the device and where tables lie.
        seconds: no further tile is tried after this long.
        dry_run: write nothing.
        progress: called with a sentence for each step.
        timer: times a rotation of calls.

    Returns:
        The outcomes. What was found is written also when the run is interrupted.

    Raises:
        RequestError: no family has anything to tune, or another GPU is rehearsed.
        RedKernelError: a tile that serves now is red.
        OutputError: a table cannot be written.
    """
    if not any(family.tunables for family in families):
        names = ", ".join(family.name for family in families)
        raise RequestError(f"There are no tiles to tune in {names}.", "Leave out --family.")
    if not dry_run:
        expect_own_launches()
    plan = _Plan(place, time.monotonic() + seconds, dry_run, progress, timer)
    tuning = Tuning()
    entries = [
        (family, entries_of(family, models, read_table(family.name, place.capability)))
        for family in families
        if family.tunables
    ]
    # the family with most entries takes the time that the others leave
    for family, own in sorted(entries, key=lambda one: len(one[1])):
        _tune_family(family, own, plan, tuning)
    return tuning


def _tune_family(family: Family, entries: Sequence[Entry], plan: _Plan, tuning: Tuning) -> None:
    found: list[Outcome] = []
    try:
        for index, entry in enumerate(entries):
            if time.monotonic() > plan.deadline:
                tuning.unreached += [f"{family.name} {one.label}" for one in entries[index:]]
                return
            tried = f"{len(entry.candidates)} tiles ({index + 1}/{len(entries)})"
            plan.progress(f"{family.name} {entry.label}: {tried}")
            sweep = EntrySweep(entry, plan.place.device, plan.timer, plan.deadline)
            found.append(sweep.run())
    finally:  # an interrupt or a red entry must not cost what was found before
        tuning.outcomes += found
        if any(one.is_changed for one in found) and not plan.dry_run:
            plan.progress(f"writing the table of {family.name}")
            _write(family, found, plan.place, tuning)


def _write(family: Family, outcomes: Sequence[Outcome], place: Place, tuning: Tuning) -> None:
    path = table_path(place.data_dir, family.name, place.capability)
    measured = _measured(place)
    fresh = [_row(one, measured) for one in outcomes]
    replaced = {entry_of(row, family.tunables) for row in fresh}
    kept = [
        row for row in _rows_before(path, family) if entry_of(row, family.tunables) not in replaced
    ]
    backup = write_user_table(path, measured, [*kept, *fresh])
    forget_tables()
    tuning.written.append(path)
    if backup is not None:
        tuning.backups.append(backup)


def _rows_before(path: Path, family: Family) -> Sequence[Row]:
    """The entries of the table that is replaced; a damaged one has none, and is kept beside it."""
    try:
        raw = read_bytes(path)
        return () if raw is None else parse_table(raw, family.tunables).rows
    except DamagedTableError:
        return ()


def _measured(place: Place) -> dict[str, Any]:
    on_gpu = place.device == "cuda"
    return {
        "date": now(),
        **machine_facts(place.device),
        **(read_clocks() if on_gpu else {}),
        "read_gb_s": round(read_bandwidth(place.device).gb_s, 1),
        "launch_us": round(launch_time().median_us, 3) if on_gpu else None,
    }


def _row(outcome: Outcome, measured: Mapping[str, Any]) -> dict[str, Any]:
    entry = outcome.entry
    clock = f", {measured['sm_mhz']} MHz" if measured.get("sm_mhz") else ""
    driver = f", driver {measured['driver']}" if measured.get("driver") else ""
    where = measured["gpu"] or measured["device"]
    return {
        "op": entry.tunable.op,
        **entry.key,
        **entry.tunable.to_row(outcome.tile),
        "problems": [_sizes(one.sizes) for one in entry.problems],
        "us": [round(one, 3) for one in outcome.us],
        "before_us": [round(one, 3) for one in outcome.before_us],
        "note": f"tuned on {where}{driver}{clock}, {measured['date']}",
    }


def _sizes(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{axis}={size}" for axis, size in sizes.items())
