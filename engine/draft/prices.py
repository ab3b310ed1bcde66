"""What a round costs: a table that ships, corrected by the rounds that were measured. No tensors.

Kernels compute rows in blocks, so the price of a verify goes up with its rows like a staircase.
The router proposes as many rows as a class of ``ROW_CLASSES`` has, which keeps graphs few too.
"""

import math
import tomllib
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import accumulate
from statistics import median, median_low
from typing import Any

ROW_CLASSES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32)
"""Rows of a round that the router chooses among: every chain of the MTP head, then in steps."""

MAX_STEPS = 7
"""Most steps of the MTP head that have a price."""

RECENT = 15
"""Rounds whose median counts."""

NOT_MEASURED = "not measured"
"""The source of a table that was computed."""

DOUBT = 2
"""Measured rounds of a class that change nothing yet: the first one may have captured its graph."""


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Milliseconds of a GPU for a format of weights.

    Attributes:
        format: of the weights, as in profiles.
        rows: rows of a verify that were timed, ascending; linear between and beyond.
        verify_ms: of each, with ``context_tokens`` positions held; never falling.
        context_tokens: positions that were held.
        context_ms: what 1,024 more positions add.
        mtp_ms: of one step of the MTP head.
        source: GPU, date and command, or that nobody measured it.
        estimated: the values that were computed and not measured, and from what.
    """

    format: str
    rows: tuple[int, ...]
    verify_ms: tuple[float, ...]
    context_tokens: int
    context_ms: float
    mtp_ms: float
    source: str = NOT_MEASURED
    estimated: tuple[str, ...] = ()

    @property
    def is_measured(self) -> bool:
        """Whether the rounds were timed."""
        return self.source != NOT_MEASURED

    def verify(self, num_rows: int) -> float:
        """Milliseconds of a verify of ``num_rows`` at ``context_tokens``."""
        if len(self.rows) == 1:
            return self.verify_ms[0]
        at = min(max(bisect_right(self.rows, num_rows), 1), len(self.rows) - 1)
        (low, high), (cheap, dear) = self.rows[at - 1 : at + 1], self.verify_ms[at - 1 : at + 1]
        return cheap + (dear - cheap) * (num_rows - low) / (high - low)


def shipped_prices(gpu: str, weight_format: str) -> PriceTable | None:
    """The table that ships for a GPU, e.g. "sm_90", and a format of weights; None without one."""
    path = resources.files("engine") / "draft" / "tables" / f"{gpu}.toml"
    if not path.is_file():
        return None
    tables: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["prices"]
    found = [one for one in tables if one["format"] == weight_format]
    return _as_table(found[0]) if found else None


def _as_table(values: dict[str, Any]) -> PriceTable:
    lists: dict[str, Any] = {
        name: tuple(values[name]) for name in ("rows", "verify_ms", "estimated")
    }
    return PriceTable(**(values | lists))


class Prices:
    """The prices of this machine, as far as its rounds have shown them.

    What is learned is by how much a class of rounds is dearer than its table says, so that a
    context that grows is not taken for a slower machine. A class that was never timed is as much
    dearer as the nearest one that was. All this outlives conversations: the machine does.

    Args:
        table: to begin with.
        learns: whether measured rounds change a price.
    """

    def __init__(self, table: PriceTable, *, learns: bool = True) -> None:
        self._table = table
        self._learns = learns
        self._verify_ms = [table.verify(rows) for rows in ROW_CLASSES]
        self._verify_factors = _Factors(len(ROW_CLASSES))
        self._steps_ms = [steps * table.mtp_ms for steps in range(1, MAX_STEPS + 1)]
        self._step_factors = _Factors(MAX_STEPS)
        self._host_ms: deque[float] = deque(maxlen=RECENT)

    def verify_ms(self, context_tokens: int) -> list[float]:
        """Milliseconds of a verify by ``ROW_CLASSES``, with so many positions held; never falling.

        A class that was timed dearer than one of more rows costs as much as that: rows that nobody
        needs could fill it up.
        """
        context_ms = self._context_ms(context_tokens)
        return self._verify_factors.prices([ms + context_ms for ms in self._verify_ms])

    def draft_ms(self) -> list[float]:
        """Milliseconds of a draft by steps of the MTP head, 0 to 7; never falling.

        Lookup costs nothing here: it runs in every round, whatever is chosen.
        """
        return [0.0, *self._step_factors.prices(self._steps_ms)]

    def observe(
        self, num_rows: int, context_tokens: int, num_steps: int, ms: Mapping[str, float]
    ) -> None:
        """Learn from a round.

        Args:
            num_rows: of its verify; numbers between classes teach nothing.
            context_tokens: positions held before it.
            num_steps: of the MTP head.
            ms: by ``engine.records.PHASES``, as `engine.turn.clock` counts them: the time in which
                work was only asked for is no price.
        """
        if not self._learns:
            return
        if num_rows in ROW_CLASSES and ms["verify"] > 0:
            at = ROW_CLASSES.index(num_rows)
            expected = self._verify_ms[at] + self._context_ms(context_tokens)
            self._verify_factors.note(at, ms["verify"] / expected)
        if num_steps == 0:
            self._host_ms.append(ms["draft"])
        elif num_steps <= MAX_STEPS:
            host_ms = median(self._host_ms) if self._host_ms else 0.0
            steps_ms = max(ms["draft"] - host_ms, 0.0)
            self._step_factors.note(num_steps - 1, steps_ms / self._steps_ms[num_steps - 1])

    def _context_ms(self, context_tokens: int) -> float:
        further = max(context_tokens - self._table.context_tokens, 0)
        return self._table.context_ms * further / 1024


class _Factors:
    """Measured over expected, for each class: the median of its recent rounds."""

    def __init__(self, num_classes: int) -> None:
        self._factors = [1.0] * num_classes
        self._recent: list[deque[float]] = [deque(maxlen=RECENT) for _ in range(num_classes)]

    def note(self, at: int, factor: float) -> None:
        """Take in a round of class ``at``."""
        recent = self._recent[at]
        if not recent:
            recent.extend([self._factors[at]] * DOUBT)
        recent.append(factor)
        self._factors[at] = median_low(recent)
        timed = [one for one, factors in enumerate(self._recent) if factors]
        for one, factors in enumerate(self._recent):
            if not factors:
                nearest = min(timed, key=lambda other: abs(other - one))
                self._factors[one] = self._factors[nearest]

    def prices(self, expected: Sequence[float]) -> list[float]:
        """Prices by class, never falling; where two disagree, one that was timed is right."""
        prices = [ms * factor for ms, factor in zip(expected, self._factors, strict=True)]
        highest = math.inf
        for at in range(len(prices) - 1, -1, -1):
            prices[at] = min(prices[at], highest)
            if self._recent[at]:
                highest = prices[at]
        return list(accumulate(prices, max))
