"""The table of what a round costs: as it was timed, and as it is read from a file. No tensors.

One table serves one GPU and one model: milliseconds of a verify by rows, as a chain and as a tree,
behind contexts of some lengths, and of a draft by steps of the MTP head.
"""

import math
import tomllib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import accumulate
from typing import Any, cast

NOT_MEASURED = "not measured"
"""The source of a table that was computed."""

Ladders = tuple[tuple[float, ...], ...]
"""For each context, milliseconds by rows."""


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Milliseconds of a GPU for a format of weights; linear between what was timed and beyond.

    Attributes:
        format: of the weights, as in profiles.
        rows: rows of a verify that were timed, ascending.
        context_tokens: positions that were held, ascending; fewer cost what the fewest do.
        chain_ms: of a verify whose rows follow each other, never falling with rows.
        steps: of the MTP head that were timed, ascending; none where the model has no head.
        draft_ms: of so many steps, with the reading of the rows since the draft before.
        tree_ms: of a verify that branches; empty where a tree was taken to cost what a chain does.
        block_ms: of a block of DFlash2; None where none is loaded.
        source: GPU, date and command, or that nobody measured it.
        estimated: the values that were computed and not measured, and from what.
    """

    format: str
    rows: tuple[int, ...]
    context_tokens: tuple[int, ...]
    chain_ms: Ladders
    steps: tuple[int, ...]
    draft_ms: tuple[float, ...]
    tree_ms: Ladders = ()
    block_ms: float | None = None
    source: str = NOT_MEASURED
    estimated: tuple[str, ...] = ()

    @property
    def is_measured(self) -> bool:
        """Whether the rounds were timed."""
        return self.source != NOT_MEASURED

    def verify(self, num_rows: int, context_tokens: int = 0, *, branches: bool = False) -> float:
        """Milliseconds of a verify.

        Args:
            num_rows: of the round.
            context_tokens: positions held before it.
            branches: the rows are a tree.
        """
        ladders = climbing(self.tree_ms if branches and self.tree_ms else self.chain_ms)
        by_context = [between(self.rows, ladder, num_rows) for ladder in ladders]
        return between(self.context_tokens, by_context, max(context_tokens, self.context_tokens[0]))

    def draft(self, num_steps: int) -> float:
        """Milliseconds of a draft of so many steps of the MTP head; without one it never pays."""
        if not self.steps:
            return math.inf
        return between(self.steps, tuple(accumulate(self.draft_ms, max)), num_steps)


def climbing(ladders: Ladders) -> Ladders:
    """The same ladders, where more rows and more positions never cost less.

    What was timed may fall by its noise, and a line through that comes to nothing far beyond.
    """
    by_rows = (tuple(accumulate(one, max)) for one in ladders)
    return tuple(accumulate(by_rows, lambda near, far: tuple(map(max, near, far))))


def between(points: Sequence[int], values: Sequence[float], at: int) -> float:
    """The value at ``at``: on the line through the two nearest points; of one point everywhere.

    Before the first point at least its share of that one's value: a steep line crosses zero there.
    """
    first, share = place(points, at)
    if first + 1 == len(points):
        return values[first]
    found = values[first] + (values[first + 1] - values[first]) * share
    return max(found, values[0] * at / points[0]) if at < points[0] else found


def place(points: Sequence[int], at: int) -> tuple[int, float]:
    """Where ``at`` lies: the first of the two nearest points, and how far on to the second.

    Below 0 and above 1 outside of all points; 0 where there is one point only.
    """
    if len(points) == 1:
        return 0, 0.0
    first = min(max(bisect_right(points, at), 1), len(points) - 1) - 1
    return first, (at - points[first]) / (points[first + 1] - points[first])


def shipped_prices(gpu: str, weight_format: str) -> PriceTable | None:
    """The table that ships for a GPU, e.g. "sm_90", and a format of weights; None without one."""
    path = resources.files("engine") / "draft" / "tables" / f"{gpu}.toml"
    if not path.is_file():
        return None
    tables: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["prices"]
    found = [one for one in tables if one["format"] == weight_format]
    return table_of(found[0]) if found else None


def table_of(values: Mapping[str, Any]) -> PriceTable:
    """A table from what a file holds: its lists become tuples."""
    return PriceTable(**{name: _frozen(value) for name, value in values.items()})


def _frozen(value: Any) -> Any:  # noqa: ANN401  whatever TOML holds
    if isinstance(value, list | tuple):
        return tuple(_frozen(one) for one in cast("list[Any]", value))
    return value
