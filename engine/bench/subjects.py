"""Find what there is to time in kernel families: problems, with the tiles that would serve them."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.check.families import sizes_of
from engine.errors import RequestError
from engine.model.config import config_of_shape
from engine.sizes import counted
from engine.tune.tiles import read_table
from kernels.common import gpu
from kernels.common.family import Family
from kernels.common.problem import Problem, Tile, Tunable

MAX_TOKENS = 65536
"""Rows of a call at most: 64 times the longest chunk of a prompt."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One problem with its family and the tile that serves it; ``tunable`` None has no tile."""

    family: Family
    problem: Problem
    tunable: Tunable | None
    tile: Tile

    @property
    def label(self) -> str:
        """What it is, for a person."""
        one = self.problem
        rows = counted(one.rows, "row")
        return " ".join(part for part in (one.name, one.format_name, rows) if part)

    @property
    def identity(self) -> tuple[str, ...]:
        """What it is at any row count."""
        return self.family.name, self.problem.op, self.problem.name, self.problem.format_name


def subjects_of(
    families: Sequence[Family], shape: str, rows: Sequence[int], device: str
) -> list[Subject]:
    """The problems of families at a shape, by family, name and rows, with the tiles that serve.

    Raises:
        RequestError: the shape or a number of rows is not to be had, or nothing is to be timed.
    """
    config = config_of_shape(shape)
    for number in rows:
        if not 1 <= number <= MAX_TOKENS:
            raise RequestError(f"A call has 1 to {MAX_TOKENS:,} rows, not {number}.")
    sizes = sizes_of(shape, config)
    found: list[Subject] = []
    for family in families:
        if family.timed is None:
            continue
        problems = [one for number in dict.fromkeys(rows) for one in family.timed(sizes, number)]
        order = list(dict.fromkeys((one.name, one.format_name) for one in problems))
        problems.sort(key=lambda one: order.index((one.name, one.format_name)))
        found += [_subject(family, one, device) for one in problems]
    if not found:
        names = ", ".join(family.name for family in families)
        raise RequestError(
            f"There is nothing to time in {names} at {', '.join(map(str, rows))} rows.",
            "Leave out --family to time every family.",
        )
    return found


def _subject(family: Family, problem: Problem, device: str) -> Subject:
    tunable = next((one for one in family.tunables if one.op == problem.op), None)
    if tunable is None or device != "cuda":
        return Subject(family, problem, tunable, None)
    rows = read_table(family.name, gpu.choices())
    return Subject(family, problem, tunable, tunable.find(rows, tunable.key(problem)))
