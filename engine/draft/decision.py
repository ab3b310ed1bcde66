"""What a round may do, weighed before any drafter has run for it. No tensors."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul

from engine.draft.calibration import Calibration
from engine.draft.candidates import Candidates, grow
from engine.draft.market import PLAIN, Market, Option, Proposal
from engine.draft.ngrams import Ending
from engine.draft.prices import MAX_STEPS, Prices

NOTHING = Candidates()
"""What lookup finds where it finds nothing."""


@dataclass(frozen=True, slots=True)
class Known:
    """What of a decision needs no copy that lookup finds.

    Attributes:
        most: tokens that a round may propose.
        chances: of lookup, by tokens in common.
        draft_ms: by steps of the MTP head.
        market: prices of its verify.
        options: what may run.
        alone: the best of them where lookup finds nothing.
        usual: prices at which nothing is tried; None where they are the market's.
        usual_rate: tokens a millisecond of the usual decision.
    """

    most: int
    chances: Sequence[float]
    draft_ms: Sequence[float]
    market: Market
    options: Sequence[Option]
    alone: Option
    usual: Market | None = None
    usual_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Decision:
    """What a round does, weighed while the one before it runs, if lookup finds what is thought.

    Attributes:
        known: what holds whatever it finds.
        endings: that it will find, as far as that can be guessed.
        found: what they come to.
        chosen: the best option beside them.
        plain: what is proposed where no drafter runs; None where one does.
    """

    known: Known
    endings: Sequence[Ending]
    found: Candidates
    chosen: Option
    plain: Proposal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighing:
    """Weighs what may run and what lookup finds, at the prices of this machine.

    Attributes:
        prices: of this machine.
        calibration: of this conversation.
        max_steps: of the MTP head; 0 without one.
        max_places: that a block of DFlash2 proposes; 0 without one.
        branches: whether trees are allowed; a chain is of one drafter.
    """

    prices: Prices
    calibration: Calibration
    max_steps: int
    max_places: int = 0
    branches: bool

    def decide(self, most: int, context_tokens: int, endings: Sequence[Ending]) -> Decision:
        """Weigh everything, rows that are worth a try among it.

        Args:
            most: tokens that the round may propose.
            context_tokens: positions held.
            endings: of lookup.
        """
        known = self._known(most, Market(self.prices, context_tokens))
        usual = self.with_endings(known, endings)
        return self._hoped(usual, context_tokens) if self.prices.curiosity.is_due else usual

    def with_endings(self, known: Known, endings: Sequence[Ending]) -> Decision:
        """Weigh what may run beside what lookup finds.

        Args:
            known: what holds whatever it finds.
            endings: that it found, the best first.
        """
        market, found, chosen = known.market, NOTHING, known.alone
        if endings:
            found = grow((), endings, known.chances, known.most)
            chosen = market.best(known.options, found, branches=self.branches)
        plain = None
        if not chosen.drafter:
            plain = market.cut(found, 0, with_block=False, spent_ms=0.0)
        return Decision(known, endings, found, chosen, plain)

    def resting(self, known: Known, chosen: Option) -> dict[str, list[Option]]:
        """Drafters that do not pay, not even where lookup has nothing, by what they could do.

        Args:
            known: in the round.
            chosen: what runs.
        """
        resting = [one for one in self.calibration.probes if one != chosen.drafter]
        could = {
            name: [one for one in known.options if one.drafter == name]
            for name in resting
            if name != known.alone.drafter
        }
        return {name: own for name, own in could.items() if own}

    def _hoped(self, usual: Decision, context_tokens: int) -> Decision:
        """The decision where rows that nobody has timed cost the least that they can."""
        known = usual.known
        rate = known.market.rate(usual.chosen, usual.found, branches=self.branches)
        hopeful = self._known(known.most, Market(self.prices, context_tokens, hopeful=True))
        hopeful = replace(hopeful, usual=known.market, usual_rate=rate)
        return self.with_endings(hopeful, usual.endings)

    def _known(self, most: int, market: Market) -> Known:
        draft_ms = self.prices.draft_ms()
        options = self._options(most, draft_ms)
        alone = market.best(options, NOTHING, branches=False)
        chances = self.calibration.lookup_chances()
        return Known(most, chances, draft_ms, market, options, alone)

    def _options(self, most: int, draft_ms: Sequence[float]) -> list[Option]:
        """What may run for at most so many tokens: nothing, the head's steps, a block."""
        options = [PLAIN]
        if num_steps := min(self.max_steps, MAX_STEPS, most):
            costs = enumerate(draft_ms[1 : num_steps + 1], start=1)
            options += self._cuts("mtp", costs)
        if num_places := min(self.max_places, most):
            options += self._cuts("dflash2", [(num_places, self.prices.block_ms())])
        return options

    def _cuts(self, drafter: str, costs: Iterable[tuple[int, float]]) -> list[Option]:
        """A drafter's chain by its possible lengths, each with what it costs."""
        chances = self.calibration.chain_chances(drafter)
        reached: list[float] = list(accumulate(chances, mul))
        expected = list(accumulate(reached, initial=1.0))
        return [
            Option(drafter, chances[:number], reached[:number], expected[: number + 1], ms)
            for number, ms in costs
        ]
