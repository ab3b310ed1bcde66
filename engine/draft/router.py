"""Choose what a round proposes: the most committed tokens that a millisecond can buy. No tensors.

A proposal is worth the one token that every round commits and the chance of each of its own, over
the price of its verify and of the head's steps. What comes out depends on the rounds that were
observed and on nothing else: no clock is read and nothing is drawn. It changes speed, never text.

Turning from one drafter to the other is free: the head's keys are filled for every committed token
whoever proposed it, and both are scored in every round. So there is no bias to what ran before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from engine.draft.calibration import Calibration
from engine.draft.candidates import Candidates, grow
from engine.draft.ngrams import Ending
from engine.draft.prices import MAX_STEPS, ROW_CLASSES, Prices

MAX_TOKENS = ROW_CLASSES[-1] - 1
"""Most proposals of a round."""

DraftChain = Callable[[int], Sequence[int]]
"""(steps of the MTP head) -> up to as many tokens."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a round proposes.

    Attributes:
        token_ids: of rows 1, 2, ...
        parents: row that each follows, before it; 0 is the newest committed token.
        drafter: "mtp", "lookup", "mtp+lookup", or "off" where nothing is proposed.
        num_steps: that the head made, also for tokens that did not pay afterwards.
        expected_tokens: that the round commits.
        expected_ms: of draft and verify.
    """

    token_ids: tuple[int, ...]
    parents: tuple[int, ...]
    drafter: str
    num_steps: int
    expected_tokens: float
    expected_ms: float


@dataclass(frozen=True, slots=True)
class _Said:
    """What the drafters said in a round, to be scored when its tokens are committed."""

    chain: Sequence[int]
    endings: Sequence[Ending]
    was_probe: bool


class Router:
    """Routes the rounds of a turn.

    Args:
        prices: of this machine.
        calibration: of this conversation.
        max_steps: of the MTP head; 0 without one.
        branches: whether trees are allowed; a chain is of one drafter.
    """

    def __init__(
        self, prices: Prices, calibration: Calibration, *, max_steps: int, branches: bool
    ) -> None:
        self._prices = prices
        self._calibration = calibration
        self._max_steps = min(max_steps, MAX_STEPS)
        self._branches = branches
        self._said: _Said | None = None

    def propose(
        self,
        endings: Sequence[Ending],
        context_tokens: int,
        num_tokens: int,
        draft_chain: DraftChain,
    ) -> Proposal:
        """Propose for one round; the head runs only if its tokens are expected to pay.

        Args:
            endings: that lookup found, the best first.
            context_tokens: positions held.
            num_tokens: the most proposals that the round has room for.
            draft_chain: runs the head.
        """
        if not self._branches:
            endings = endings[:1]
        most = min(num_tokens, MAX_TOKENS)
        mtp_chances = self._calibration.mtp_chances()[: min(self._max_steps, most)]
        lookup_chances = self._calibration.lookup_chances()
        found = grow((), (), endings, lookup_chances, most)
        market = _Market(self._prices.verify_ms(context_tokens), self._prices.draft_ms())
        num_steps = market.best_steps(mtp_chances, found, branches=self._branches)
        was_probe = not num_steps and self._is_probe_due(market, mtp_chances)
        if num_steps:
            self._calibration.probe.pays()
        chain = draft_chain(num_steps or 1) if num_steps or was_probe else ()
        if self._branches and chain:
            found = grow(chain, mtp_chances, endings, lookup_chances, most)
        elif num_steps:  # a probe that may not branch is scored, and verified by nobody
            found = grow(chain, mtp_chances, (), lookup_chances, most)
        self._said = _Said(chain, endings, was_probe)
        return market.cut(found, len(chain))

    def learn(self, committed: Sequence[int]) -> None:
        """Score what was said in the round that committed these tokens, once."""
        said, self._said = self._said, None
        if said is None:
            return
        self._calibration.learn_mtp(said.chain, committed)
        self._calibration.learn_lookup(said.endings, committed)
        if said.was_probe and said.chain and committed and said.chain[0] == committed[0]:
            self._calibration.probe.was_right()

    def _is_probe_due(self, market: "_Market", mtp_chances: Sequence[float]) -> bool:
        """Whether the head is tried although it does not pay, not even against plain decode."""
        if not mtp_chances or market.best_steps(mtp_chances, Candidates(), branches=False):
            return False
        return self._calibration.probe.is_due()


class _Market:
    """The prices of one round, and what they make the best choice."""

    def __init__(self, verify_ms: Sequence[float], draft_ms: Sequence[float]) -> None:
        self._verify_ms = verify_ms
        self._draft_ms = draft_ms

    def best_steps(self, mtp_chances: Sequence[float], found: Candidates, *, branches: bool) -> int:
        """Steps of the head that are expected to pay, before its tokens are known.

        A token of lookup that stands beside the head's chain adds the chance that it alone is
        right; tokens of both are counted as two rows, since nobody knows yet whether they agree.

        Args:
            mtp_chances: of each depth, where those before it are right; as many as may be made.
            found: by lookup.
            branches: whether head and lookup may share a tree.
        """
        best, best_steps = 0.0, 0
        reached = 1.0
        missed = [1.0] * (max(found.depths, default=0) + 1)
        in_chain = 0.0
        for num_steps in range(len(mtp_chances) + 1):
            if num_steps:
                reached *= mtp_chances[num_steps - 1]
                in_chain += reached
                if num_steps < len(missed):
                    missed[num_steps] = 1.0 - reached
            gains = [0.0]
            if branches or not num_steps:
                alone = map(mul, found.chances, [missed[depth] for depth in found.depths])
                gains = list(accumulate(alone, initial=0.0))
            draft_ms = self._draft_ms[num_steps]
            for rows, verify_ms in zip(ROW_CLASSES, self._verify_ms, strict=True):
                num_found = rows - 1 - num_steps
                if num_found < 0:
                    continue
                if num_found >= len(gains):
                    break
                rate = (1.0 + in_chain + gains[num_found]) / (draft_ms + verify_ms)
                if rate > best:
                    best, best_steps = rate, num_steps
        return best_steps

    def cut(self, found: Candidates, num_steps: int) -> Proposal:
        """Keep as many of the likeliest tokens as pay; the head's steps are paid for already."""
        expected = list(accumulate(found.chances, initial=1.0))
        prices = zip(ROW_CLASSES, self._verify_ms, strict=True)
        draft_ms = self._draft_ms[num_steps]
        tokens, ms, num_tokens = max(
            (
                (expected[rows - 1], draft_ms + verify_ms, rows - 1)
                for rows, verify_ms in prices
                if rows <= len(expected)
            ),
            key=lambda one: one[0] / one[1],
        )
        return Proposal(
            token_ids=tuple(found.token_ids[:num_tokens]),
            parents=tuple(found.parents[:num_tokens]),
            drafter=found.drafter(num_tokens),
            num_steps=num_steps,
            expected_tokens=tokens,
            expected_ms=ms,
        )
