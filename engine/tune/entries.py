"""Entries of tile tables as `tune` sees them: what each is for, what serves it, what was chosen."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kernels.common.case import Case
from kernels.common.family import Family
from kernels.common.problem import ModelSizes, Problem, Row, Tile, Tunable


@dataclass(frozen=True, eq=False)
class Entry:
    """One entry of a tile table: its problems at a few row counts, and the tile that serves."""

    family: Family
    tunable: Tunable
    key: Mapping[str, Any]
    problems: tuple[Problem, ...]
    present: Tile

    @property
    def label(self) -> str:
        """What it is, for a person."""
        key = " ".join(f"{name}={value}" for name, value in self.key.items())
        return f"{self.tunable.op} {key}"

    @cached_property
    def case(self) -> Case:
        """What its tiles are proven on."""
        return self.tunable.case(self.problems[0])

    @cached_property
    def candidates(self) -> tuple[Tile, ...]:
        """The tiles to try, the present one first."""
        others = [one for one in self.tunable.candidates(self.key) if one != self.present]
        return (self.present, *others)


@dataclass(slots=True)
class Outcome:
    """What a sweep chose for an entry.

    ``us`` and ``before_us`` are medians by problem, of the chosen tile and of the one before.
    ``dropped`` are tiles that were refused, with the reason.
    """

    entry: Entry
    tile: Tile
    before_us: tuple[float, ...] = ()
    us: tuple[float, ...] = ()
    num_timed: int = 0
    dropped: list[tuple[Tile, str]] = field(default_factory=list[tuple[Tile, str]])

    @property
    def is_changed(self) -> bool:
        """Whether another tile serves from now on."""
        return self.tile != self.entry.present

    @property
    def gain(self) -> float:
        """Share of the time that is saved, in the geometric mean over the problems."""
        return 1 - ratio(self.us, self.before_us) if self.us else 0.0


def ratio(us: Sequence[float], before_us: Sequence[float]) -> float:
    """Geometric mean of times over other times: no problem counts more for being longer."""
    logs = [math.log(now / before) for now, before in zip(us, before_us, strict=True)]
    return math.exp(sum(logs) / len(logs))


def entries_of(family: Family, models: Iterable[ModelSizes], table: Sequence[Row]) -> list[Entry]:
    """The entries that the problems of models need.

    Args:
        family: with problems and tunables; others have no entries.
        models: sizes of the models, the one that matters most first.
        table: rows that serve now, the first of a key before the others.

    Returns:
        The entries by model, the one that moves most bytes of a round first: it has most to gain.
    """
    if family.timed is None:
        return []
    found: dict[object, _Needed] = {}
    for place, sizes in enumerate(models):
        for tunable in family.tunables:
            for problem in _problems(family.timed, sizes, tunable):
                key = tunable.key(problem)
                name = (tunable.op, *key.items())
                found.setdefault(name, _Needed(tunable, key, place)).add(problem, place)
    order = sorted(found.values(), key=lambda one: (one.place, -one.round_bytes))
    return [
        Entry(family, one.tunable, one.key, tuple(one.problems.values()),
              one.tunable.find(table, one.key))
        for one in order
    ]  # fmt: skip


def _problems(
    timed: Callable[[ModelSizes, int], Iterable[Problem]], sizes: ModelSizes, tunable: Tunable
) -> list[Problem]:
    """Those of a model that a tunable is for, at its row counts."""
    found = (one for rows in tunable.rows for one in timed(sizes, rows))
    return [one for one in found if one.op == tunable.op]


@dataclass
class _Needed:
    """An entry that problems need: of which model first, and what a round of that one moves."""

    tunable: Tunable
    key: Row
    place: int
    problems: dict[object, Problem] = field(default_factory=dict[object, Problem])
    round_bytes: int = 0

    def add(self, problem: Problem, place: int) -> None:
        self.problems.setdefault(tuple(problem.sizes.items()), problem)
        if place == self.place:
            self.round_bytes = max(self.round_bytes, problem.calls * problem.num_bytes)
