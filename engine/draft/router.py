"""Choose what a round proposes: the most committed tokens that a millisecond can buy. No tensors.

A proposal is worth the one token that every round commits and the chance of each of its own, over
the price of its verify and of its draft. What comes out depends on the rounds that were observed
and on nothing else: no clock is read and nothing is drawn. It changes speed, never text.

The MTP head and DFlash2 read the same rows of the target and expect much the same of it, so that a
round pays for one of them at most; the other one is tried now and then. Turning from one drafter to
another is free: their keys are filled for every committed token whoever proposed it. So there is no
bias to what ran before.
"""

from collections import deque
from collections.abc import Callable, Sequence

from engine.draft.candidates import Chain, grow
from engine.draft.decision import NOTHING, Decision, Known, Weighing
from engine.draft.market import MAX_TOKENS, PLAIN, Option, Proposal
from engine.draft.ngrams import Ending
from engine.draft.said import Said, worth_another_try

ROUNDS_WITHOUT_A_COPY = 16
"""Rounds in which lookup was never right, until plain rounds may follow each other unseen. A copy
that begins while they do is seen one round later, which costs that round; what it saves is the
host's part of each."""

RunDrafter = Callable[[str, int], Sequence[int]]
"""("mtp" or "dflash2", tokens) -> up to as many tokens, each behind the one before."""


class Router:
    """Routes the rounds of a turn, as it weighs them."""

    def __init__(self, weighing: Weighing) -> None:
        self._weighing = weighing
        self._prices, self._calibration = weighing.prices, weighing.calibration
        # of rounds whose tokens are not learned from yet: one on its way, and one before it
        self._said: deque[Said] = deque(maxlen=2)
        self._prepared: Decision | None = None
        self._num_without_copy = 0

    @property
    def expects_no_copy(self) -> bool:
        """Whether lookup has not been right for long."""
        return self._num_without_copy >= ROUNDS_WITHOUT_A_COPY

    @property
    def is_prepared(self) -> bool:
        """Whether the next proposal waits for lookup alone."""
        return self._prepared is not None

    def prepare(
        self, context_tokens: int, num_tokens: int, endings: Sequence[Ending] = ()
    ) -> Proposal | None:
        """Get ready to propose, while the round before is on its way.

        Args:
            context_tokens: positions held; those of the round on its way change no price.
            num_tokens: the most proposals that the next round has room for.
            endings: that lookup finds if the text goes on as it is thought to.

        Returns:
            What `propose` then says; None where a drafter must run first.
        """
        if not self._weighing.branches:
            endings = endings[:1]
        most = min(num_tokens, MAX_TOKENS)
        self._prepared = ready = self._weighing.decide(most, context_tokens, endings)
        resting = self._weighing.resting(ready.known, ready.chosen)
        is_due = any(self._calibration.probes[name].is_due for name in resting)
        return None if is_due else ready.plain

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
        if not self._weighing.branches:
            endings = endings[:1]
        ready = self._ready(endings, context_tokens, num_tokens)
        self._prepared = None
        known, found, chosen = ready.known, ready.found, ready.chosen
        if chosen.drafter:
            self._calibration.probes[chosen.drafter].pays()
        tried = self._due(known, chosen)
        chains = [
            Chain(one.drafter, run(one.drafter, len(one.chances)), one.chances)
            for one in (chosen, *tried)
            if one.drafter
        ]
        names = frozenset(one.drafter for one in tried)
        spent = {one.drafter: one.ms for one in (chosen, *tried)}
        self._said.append(Said(chains, endings, names, known.usual or known.market, spent))
        if ready.plain is not None and not tried:
            self._pay(known, ready.plain)
            return ready.plain
        if self._weighing.branches:
            found = grow(chains, endings, known.chances, known.most)
        elif chosen.drafter:  # a try that may not branch is scored, and verified by nobody
            found = grow(chains[:1], (), known.chances, known.most)
        num_steps = sum(len(one.token_ids) for one in chains if one.drafter == "mtp")
        with_block = any(one.drafter == "dflash2" for one in chains)
        spent_ms = known.draft_ms[num_steps] + (self._prices.block_ms() if with_block else 0.0)
        cut = known.market.cut(found, num_steps, with_block=with_block, spent_ms=spent_ms)
        self._pay(known, cut, spent_ms)
        return cut

    def goes_on_plainly(
        self, endings: Sequence[Ending], context_tokens: int, num_tokens: int
    ) -> bool:
        """Take in what lookup says in a plain round that is on its way; whether one may follow it.

        To be asked once a round, in the place of ``propose``: this one says nothing, and the next
        may not even be asked, where no drafter pays or is due, and no ending would pay if it went
        on as it did before.

        Args:
            endings: that lookup found, the best first, of one token more than there is room for.
            context_tokens: positions held.
            num_tokens: the most proposals that the next round has room for.
        """
        if not self._weighing.branches:
            endings = endings[:1]
        self._said.append(Said((), endings))
        going_on = [Ending(one.length + 1, one.continuation[1:]) for one in endings]
        self.prepare(context_tokens, num_tokens, going_on)
        assert self._prepared is not None
        ready = self._prepared
        resting = self._weighing.resting(ready.known, ready.chosen)
        for name in resting:
            self._calibration.probes[name].rests()
        is_due = any(self._calibration.probes[name].is_due for name in resting)
        if ready.plain is None or ready.plain.token_ids:
            return False
        self._pay(ready.known, ready.plain)
        return self.expects_no_copy and not is_due

    def learn(self, committed: Sequence[int]) -> None:
        """Score what was said in the oldest round that was not learned from, once.

        Args:
            committed: the tokens of that round.
        """
        if not self._said:
            return
        said = self._said.popleft()
        self._calibration.learn_lookup(said.endings, committed)
        was_copy = any(one.continuation[:1] == tuple(committed[:1]) for one in said.endings)
        self._num_without_copy = 0 if was_copy else self._num_without_copy + 1
        right = {
            one.drafter: self._calibration.learn_chain(one.drafter, one.token_ids, committed)
            for one in said.chains
        }
        for name in worth_another_try(said, right, committed):
            self._calibration.probes[name].was_right()

    def _pay(self, known: Known, proposal: Proposal, spent_ms: float = 0.0) -> None:
        """Pay for a try, if it became one."""
        if known.usual is None:
            return
        num_tokens, curiosity = len(proposal.token_ids), self._prices.curiosity
        if self._prices.is_timed(num_tokens + 1):
            curiosity.finds_nothing()
        else:
            ms = known.usual.ms(num_tokens, spent_ms)
            curiosity.tries(ms - proposal.expected_tokens / known.usual_rate)

    def _ready(self, endings: Sequence[Ending], context_tokens: int, num_tokens: int) -> Decision:
        """What was prepared, as far as it still holds, and the rest of it now."""
        ready = self._prepared
        if ready is None or ready.known.most != min(num_tokens, MAX_TOKENS):
            self.prepare(context_tokens, num_tokens, endings)
            assert self._prepared is not None
            return self._prepared
        if list(endings) == list(ready.endings):
            return ready
        return self._weighing.with_endings(ready.known, endings)

    def _due(self, known: Known, chosen: Option) -> list[Option]:
        """Drafters that are tried although they do not pay, not even where lookup has nothing."""
        due: list[Option] = []
        for name, own in self._weighing.resting(known, chosen).items():
            probe = self._calibration.probes[name]
            if not probe.is_due:
                probe.rests()
                continue
            probe.is_tried()
            alone = known.market.best([PLAIN, *own], NOTHING, branches=False)
            due.append(alone if alone.drafter else own[0])
        return due
