"""What a round costs: what a table says, corrected by the rounds that were measured. No tensors.

Kernels compute rows in blocks, so the price of a verify goes up with its rows like a staircase.
The router proposes as many rows as a class of ``ROW_CLASSES`` has, which keeps graphs few too.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import mul
from statistics import median, median_low

from engine.draft.curiosity import Curiosity
from engine.draft.price_table import Ladders, PriceTable, between, climbing, place

ROW_CLASSES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32)
"""Rows of a round that the router chooses among: every chain of the MTP head, then in steps."""

MAX_STEPS = 7
"""Most steps of the MTP head that have a price."""

RECENT = 15
"""Rounds whose median counts."""

DOUBT = 1
"""Measured rounds of a class that change nothing yet: of two the faster one is believed, and the
machine may have been busy in the other. Rounds that captured their graph are not among them."""


class Prices:
    """The prices of this machine, as far as its rounds have shown them.

    What is learned is by how much a class of rounds is dearer than its table says, so that a
    context that grows is not taken for a slower machine. A class that was never timed is as much
    dearer as those next to it that were. All this outlives conversations: the machine does.

    Attributes:
        curiosity: when a class that was never timed is tried.

    Args:
        table: to begin with.
        learns: whether measured rounds change a price.
    """

    def __init__(self, table: PriceTable, *, learns: bool = True) -> None:
        self._table = table
        self._learns = learns
        self._chains = _by_class(table.rows, table.chain_ms)
        self._trees = _by_class(table.rows, table.tree_ms) or self._chains
        self._verify_factors = _Factors(len(ROW_CLASSES))
        self._steps_ms = [table.draft(one) for one in range(1, MAX_STEPS + 1)]
        self._step_factors = _Factors(MAX_STEPS)
        self._block_factor = _Factors(1)
        self._host_ms: deque[float] = deque(maxlen=RECENT)
        self.curiosity = Curiosity()

    @property
    def table(self) -> PriceTable:
        """What they began with."""
        return self._table

    def verify_ms(
        self, context_tokens: int, *, branches: bool = False, hopeful: bool = False
    ) -> list[float]:
        """Milliseconds of a verify by ``ROW_CLASSES``, with so many positions held; never falling.

        A class that was timed dearer than one of more rows costs as much as that: rows that nobody
        needs could fill it up.

        Args:
            context_tokens: positions held.
            branches: the rows are a tree.
            hopeful: the lowest that untimed classes next to timed ones can cost.
        """
        prices = self._verify_factors.prices(self._expected(context_tokens, branches=branches))
        return self._verify_factors.hoped(prices) if hopeful else prices

    def is_timed(self, num_rows: int) -> bool:
        """Whether rounds of so many rows have shown their price, or never will."""
        return num_rows not in ROW_CLASSES or self._verify_factors.is_timed(
            ROW_CLASSES.index(num_rows)
        )

    def draft_ms(self) -> list[float]:
        """Milliseconds of a draft by steps of the MTP head, 0 to 7; never falling.

        Lookup costs nothing here: it runs in every round, whatever is chosen.
        """
        return [0.0, *self._step_factors.prices(self._steps_ms)]

    def block_ms(self) -> float:
        """Milliseconds of a block of DFlash2, for which the table must have a price."""
        assert self._table.block_ms is not None
        return self._block_factor.prices([self._table.block_ms])[0]

    def observe(
        self,
        num_rows: int,
        context_tokens: int,
        num_steps: int,
        ms: Mapping[str, float],
        *,
        branches: bool = False,
        with_block: bool = False,
        was_asked: bool = True,
    ) -> None:
        """Learn from a round.

        Args:
            num_rows: of its verify; numbers between classes teach nothing.
            context_tokens: positions held before it.
            num_steps: of the MTP head.
            ms: by ``engine.records.PHASES``, as `engine.turn.clock` counts them: the time in which
                work was only asked for is no price.
            branches: the rows were a tree.
            with_block: DFlash2 ran; what it took beside the head's steps cannot be told apart.
            was_asked: the router was asked between two rounds; its own time is told apart from that
                of a drafter.
        """
        if not self._learns:
            return
        self.curiosity.save(ms["verify"] + ms["draft"])
        if num_rows in ROW_CLASSES and ms["verify"] > 0:
            at = ROW_CLASSES.index(num_rows)
            expected = self._expected(context_tokens, branches=branches)[at]
            self._verify_factors.note(at, ms["verify"] / expected)
        if num_steps and with_block:
            return
        if not num_steps and not with_block:
            if was_asked:
                self._host_ms.append(ms["draft"])
            return
        host_ms = median(self._host_ms) if self._host_ms else 0.0
        drafted_ms = max(ms["draft"] - host_ms, 0.0)
        if with_block and self._table.block_ms:
            self._block_factor.note(0, drafted_ms / self._table.block_ms)
        elif 0 < num_steps <= MAX_STEPS:
            self._step_factors.note(num_steps - 1, drafted_ms / self._steps_ms[num_steps - 1])

    def _expected(self, context_tokens: int, *, branches: bool) -> list[float]:
        """What the table says by ``ROW_CLASSES``."""
        ladders, points = self._trees if branches else self._chains, self._table.context_tokens
        first, share = place(points, max(context_tokens, points[0]))
        if first + 1 == len(points):
            return ladders[first]
        pairs = zip(ladders[first], ladders[first + 1], strict=True)
        return [near + (far - near) * share for near, far in pairs]


def _by_class(rows: Sequence[int], ladders: Ladders) -> list[list[float]]:
    return [[between(rows, one, number) for number in ROW_CLASSES] for one in climbing(ladders)]


class _Factors:
    """Measured over expected, for each class: the median of its recent rounds.

    A class with no more rounds than ``DOUBT`` lies between the nearest that have more.
    """

    def __init__(self, num_classes: int) -> None:
        self._factors = [1.0] * num_classes
        self._recent: list[deque[float]] = [deque(maxlen=RECENT) for _ in range(num_classes)]

    def note(self, at: int, factor: float) -> None:
        """Take in a round of class ``at``."""
        self._recent[at].append(factor)
        if not self.is_timed(at):
            return
        self._factors[at] = median_low(self._recent[at])
        timed = [one for one in range(len(self._recent)) if self.is_timed(one)]
        factors = [self._factors[one] for one in timed]
        for one in range(timed[0], timed[-1] + 1):
            self._factors[one] = between(timed, factors, one)
        for one in range(timed[0]):
            self._factors[one] = factors[0]
        for one in range(timed[-1] + 1, len(self._recent)):
            self._factors[one] = factors[-1]

    def prices(self, expected: Sequence[float]) -> list[float]:
        """Prices by class, never falling; where two disagree, one that was timed is right."""
        prices = list(map(mul, expected, self._factors))
        is_timed = [len(rounds) > DOUBT for rounds in self._recent]
        highest = math.inf
        for at in range(len(prices) - 1, -1, -1):
            if prices[at] > highest:
                prices[at] = highest
            elif is_timed[at]:
                highest = prices[at]
        return list(accumulate(prices, max))

    def hoped(self, prices: Sequence[float]) -> list[float]:
        """The same prices, classes next to a timed one at that of the next timed one below them.

        Below all timed ones they are hoped to cost half.
        """
        hoped, last = list(prices), len(prices) - 1
        lowest = next((ms / 2 for at, ms in enumerate(prices) if self.is_timed(at)), 0.0)
        for at, ms in enumerate(prices):
            if self.is_timed(at):
                lowest = ms
            elif self.is_timed(max(at - 1, 0)) or self.is_timed(min(at + 1, last)):
                hoped[at] = min(ms, lowest)
        return hoped

    def is_timed(self, at: int) -> bool:
        """Whether a class has been measured often enough to count."""
        return len(self._recent[at]) > DOUBT
