"""Choose what a round proposes: the most committed tokens that a millisecond can buy. No tensors.

A proposal is worth the one token that every round commits and the chance of each of its own, over
the price of its verify and of its draft. What comes out depends on the rounds that were observed
and on nothing else: no clock is read and nothing is drawn. It changes speed, never text.

The MTP head and DFlash2 read the same rows of the target and expect much the same of it, so that a
round pays for one of them at most; the other one is tried now and then. Turning from one drafter to
another is free: their keys are filled for every committed token whoever proposed it. So there is no
bias to what ran before.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from engine.draft.calibration import Calibration
from engine.draft.candidates import Candidates, Chain, grow
from engine.draft.ngrams import Ending
from engine.draft.prices import MAX_STEPS, ROW_CLASSES, Prices

MAX_TOKENS = ROW_CLASSES[-1] - 1
"""Most proposals of a round."""

RunDrafter = Callable[[str, int], Sequence[int]]
"""("mtp" or "dflash2", tokens) -> up to as many tokens, each behind the one before."""


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


class _Option(NamedTuple):
    """A drafter that may run, and how far.

    ``chances`` are of its tokens where those before are right, ``reached`` with those before them,
    ``expected`` the tokens of a round with the first of them: one more entry.
    """

    drafter: str
    chances: Sequence[float]
    reached: Sequence[float]
    expected: Sequence[float]
    ms: float


_PLAIN = _Option("", (), (), (1.0,), 0.0)
_NOTHING = Candidates()
_ALL_MISSED = [1.0] * MAX_TOKENS
_NUM_CLASSES = [bisect_right(ROW_CLASSES, rows) for rows in range(2 * MAX_TOKENS + 2)]
"""Rows that could be filled -> classes that could."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What the drafters said in a round, to be scored when its tokens are committed."""

    chains: Sequence[Chain]
    endings: Sequence[Ending]
    tried: frozenset[str]


class Router:
    """Routes the rounds of a turn.

    Args:
        prices: of this machine.
        calibration: of this conversation.
        max_steps: of the MTP head; 0 without one.
        max_places: that a block of DFlash2 proposes; 0 without one.
        branches: whether trees are allowed; a chain is of one drafter.
    """

    def __init__(
        self,
        prices: Prices,
        calibration: Calibration,
        *,
        max_steps: int,
        max_places: int = 0,
        branches: bool,
    ) -> None:
        self._prices = prices
        self._calibration = calibration
        self._max_steps = min(max_steps, MAX_STEPS)
        self._max_places = max_places
        self._branches = branches
        self._said: _Said | None = None

    def propose(
        self,
        endings: Sequence[Ending],
        context_tokens: int,
        num_tokens: int,
        run: RunDrafter,
    ) -> Proposal:
        """Propose for one round; a drafter runs only if its tokens are expected to pay.

        Args:
            endings: that lookup found, the best first.
            context_tokens: positions held.
            num_tokens: the most proposals that the round has room for.
            run: runs a drafter.
        """
        if not self._branches:
            endings = endings[:1]
        most = min(num_tokens, MAX_TOKENS)
        lookup_chances = self._calibration.lookup_chances()
        found = grow((), endings, lookup_chances, most)
        market = _Market(self._prices, context_tokens)
        draft_ms = self._prices.draft_ms()
        options = self._options(most, draft_ms)
        chosen = market.best(options, found, branches=self._branches)
        if chosen.drafter:
            self._calibration.probes[chosen.drafter].pays()
        tried = self._due(market, options, chosen)
        chains = [
            Chain(one.drafter, run(one.drafter, len(one.chances)), one.chances)
            for one in (chosen, *tried)
            if one.drafter
        ]
        self._said = _Said(chains, endings, frozenset(one.drafter for one in tried))
        if self._branches and chains:
            found = grow(chains, endings, lookup_chances, most)
        elif chosen.drafter:  # a try that may not branch is scored, and verified by nobody
            found = grow(chains[:1], (), lookup_chances, most)
        num_steps = sum(len(one.token_ids) for one in chains if one.drafter == "mtp")
        with_block = any(one.drafter == "dflash2" for one in chains)
        spent_ms = draft_ms[num_steps] + (self._prices.block_ms() if with_block else 0.0)
        return market.cut(found, num_steps, with_block=with_block, spent_ms=spent_ms)

    def learn(self, committed: Sequence[int]) -> None:
        """Score what was said in the round that committed these tokens, once."""
        said, self._said = self._said, None
        if said is None:
            return
        self._calibration.learn_lookup(said.endings, committed)
        right = {
            one.drafter: self._calibration.learn_chain(one.drafter, one.token_ids, committed)
            for one in said.chains
        }
        most = max((number for name, number in right.items() if name not in said.tried), default=0)
        for name in said.tried:
            if right[name] > most:
                self._calibration.probes[name].was_right()

    def _options(self, most: int, draft_ms: Sequence[float]) -> list[_Option]:
        """What may run for at most so many tokens: nothing, the head's steps, a block."""
        options = [_PLAIN]
        if num_steps := min(self._max_steps, most):
            costs = enumerate(draft_ms[1 : num_steps + 1], start=1)
            options += self._cuts("mtp", costs)
        if num_places := min(self._max_places, most):
            options += self._cuts("dflash2", [(num_places, self._prices.block_ms())])
        return options

    def _cuts(self, drafter: str, costs: Iterable[tuple[int, float]]) -> list[_Option]:
        """A drafter's chain by its possible lengths, each with what it costs."""
        chances = self._calibration.chain_chances(drafter)
        reached: list[float] = list(accumulate(chances, mul))
        expected = list(accumulate(reached, initial=1.0))
        return [
            _Option(drafter, chances[:number], reached[:number], expected[: number + 1], ms)
            for number, ms in costs
        ]

    def _due(self, market: "_Market", options: Sequence[_Option], chosen: _Option) -> list[_Option]:
        """Drafters that are tried although they do not pay, not even where lookup has nothing."""
        resting = [one for one in self._calibration.probes if one != chosen.drafter]
        if not resting:
            return []
        best = market.best(options, _NOTHING, branches=False).drafter
        due: list[_Option] = []
        for name in resting:
            own = [one for one in options if one.drafter == name]
            if own and name != best and self._calibration.probes[name].is_due():
                alone = market.best([_PLAIN, *own], _NOTHING, branches=False)
                due.append(alone if alone.drafter else own[0])
        return due


class _Market:
    """The prices of one round's verify, and what they make the best."""

    def __init__(self, prices: Prices, context_tokens: int) -> None:
        self._prices = prices
        self._context_tokens = context_tokens
        self._chain_ms = prices.verify_ms(context_tokens)
        # (tokens proposed, milliseconds of their verify) of each class
        self._classes = [
            (rows - 1, ms) for rows, ms in zip(ROW_CLASSES, self._chain_ms, strict=True)
        ]

    def best(self, options: Sequence[_Option], found: Candidates, *, branches: bool) -> _Option:
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
            expected = option.expected
            if found.chances and (branches or not option.drafter):
                expected = _with_lookup(option.reached, found)
            rates = [
                expected[at] / (option.ms + verify_ms)
                for at, verify_ms in self._classes[: _NUM_CLASSES[len(expected)]]
            ]
            rate = max(rates)
            if rate > best:
                best, chosen = rate, option
        return chosen

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
        longest_chain = found.chain_length() + 1
        tree_ms = self._chain_ms
        if longest_chain < len(expected):
            tree_ms = self._prices.verify_ms(self._context_tokens, branches=True)
        offers = [
            (rows - 1, expected[rows - 1], spent_ms + (chain if rows <= longest_chain else tree))
            for rows, chain, tree in zip(ROW_CLASSES, self._chain_ms, tree_ms, strict=True)
            if rows <= len(expected)
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
    pairs = zip(found.chances, found.depths, strict=True)
    alone = [chance * missed[depth] for chance, depth in pairs]
    return list(accumulate(sorted([*reached, *alone], reverse=True), initial=1.0))
