"""What a round may propose, and what of it the prices of its verify make the best. No tensors."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from engine.draft.candidates import Candidates
from engine.draft.prices import ROW_CLASSES, Prices

MAX_TOKENS = ROW_CLASSES[-1] - 1
"""Most proposals of a round."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a round proposes.

    Attributes:
        token_ids: of rows 1, 2, ...
        parents: row that each follows, before it; 0 is the newest committed token.
        drafter: "mtp", "dflash2", "lookup", joined with "+" where several did, or "off" where
            nothing is proposed.
        num_steps: that the MTP head made, also for tokens that did not pay afterwards.
        with_block: whether DFlash2 ran.
        expected_tokens: that the round commits.
        expected_ms: of draft and verify.
    """

    token_ids: tuple[int, ...]
    parents: tuple[int, ...]
    drafter: str
    num_steps: int
    with_block: bool
    expected_tokens: float
    expected_ms: float


class Option(NamedTuple):
    """A drafter that may run, and how far.

    ``chances`` are of its tokens where those before are right, ``reached`` with those before them,
    ``expected`` the tokens of a round with the first of them: one more entry.
    """

    drafter: str
    chances: Sequence[float]
    reached: Sequence[float]
    expected: Sequence[float]
    ms: float


PLAIN = Option("", (), (), (1.0,), 0.0)
_ALL_MISSED = [1.0] * MAX_TOKENS
_CLASSES = [[one - 1 for one in ROW_CLASSES if one <= rows] for rows in range(2 * MAX_TOKENS + 2)]
"""Rows that could be filled -> tokens proposed in each class that could."""


class Market:
    """The prices of one round's verify, and what they make the best.

    Args:
        prices: of this machine.
        context_tokens: positions held.
        hopeful: take rows that nobody has timed at the lowest price that they can have.
    """

    def __init__(self, prices: Prices, context_tokens: int, *, hopeful: bool = False) -> None:
        self._prices = prices
        self._context_tokens = context_tokens
        self._hopeful = hopeful
        self._chain_ms = prices.verify_ms(context_tokens, hopeful=hopeful)
        self._round_ms: dict[float, list[float]] = {}

    def best(self, options: Sequence[Option], found: Candidates, *, branches: bool) -> Option:
        """The option that is expected to pay best, before its tokens are known.

        A token of lookup that stands beside a chain adds the chance that it alone is right; tokens
        of both are counted as two rows, at a chain's price, since nobody knows yet whether they
        agree.

        Args:
            options: at least one.
            found: by lookup.
            branches: whether a drafter and lookup may share a tree.
        """
        best, chosen = 0.0, options[0]
        for option in options:
            rate = self.rate(option, found, branches=branches)
            if rate > best:
                best, chosen = rate, option
        return chosen

    def rate(self, option: Option, found: Candidates, *, branches: bool) -> float:
        """Tokens a millisecond that an option is expected to bring; arguments as in `best`."""
        expected = option.expected
        if found.chances and (branches or not option.drafter):
            expected = _with_lookup(option.reached, found)
        pairs = zip(_CLASSES[len(expected)], self._with_draft(option.ms), strict=False)
        return max([expected[at] / ms for at, ms in pairs])

    def ms(self, num_tokens: int, draft_ms: float = 0.0) -> float:
        """Milliseconds of a round that verifies so many proposals as a chain, with their draft."""
        at = bisect_left(ROW_CLASSES, num_tokens + 1)
        return draft_ms + self._chain_ms[min(at, len(ROW_CLASSES) - 1)]

    def _with_draft(self, draft_ms: float) -> list[float]:
        """Milliseconds of a round by class, with its draft."""
        if draft_ms not in self._round_ms:
            self._round_ms[draft_ms] = [draft_ms + one for one in self._chain_ms]
        return self._round_ms[draft_ms]

    def cut(
        self, found: Candidates, num_steps: int, *, with_block: bool, spent_ms: float
    ) -> Proposal:
        """Keep as many of the likeliest tokens as pay, now that their draft is paid for.

        Args:
            found: all that is proposed.
            num_steps: that the head made for it.
            with_block: whether DFlash2 ran for it.
            spent_ms: what both took.
        """
        expected = list(accumulate(found.chances, initial=1.0))
        longest_chain = found.chain_length()
        tree_ms = self._chain_ms
        if longest_chain < len(found):
            tree_ms = self._prices.verify_ms(
                self._context_tokens, branches=True, hopeful=self._hopeful
            )
        offers = [
            (at, expected[at], spent_ms + (chain if at <= longest_chain else tree))
            for at, chain, tree in zip(
                _CLASSES[len(expected)], self._chain_ms, tree_ms, strict=False
            )
        ]
        num_tokens, tokens, ms = max(offers, key=lambda one: one[1] / one[2])
        return Proposal(
            token_ids=tuple(found.token_ids[:num_tokens]),
            parents=tuple(found.parents[:num_tokens]),
            drafter=found.drafter(num_tokens),
            num_steps=num_steps,
            with_block=with_block,
            expected_tokens=tokens,
            expected_ms=ms,
        )


def _with_lookup(reached: Sequence[float], found: Candidates) -> list[float]:
    """Tokens that a round is expected to commit with the likeliest of a chain and of lookup."""
    missed = [1.0, *[1.0 - one for one in reached], *_ALL_MISSED[len(reached) :]]
    alone = map(mul, found.chances, map(missed.__getitem__, found.depths))
    return list(accumulate(sorted([*reached, *alone], reverse=True), initial=1.0))
