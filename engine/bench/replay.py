"""Plain decode, recorded once and replayed in rounds of several rows, one behind the other.

A target must agree with each replayed row, so that what is timed is proven to be right.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from engine.bench.model import any_ids
from engine.draft.draft import Draft
from engine.model.decoder import Model
from engine.model.state import Snapshot, State
from engine.turn.choice import TokenChooser
from engine.turn.clock import PhaseClock
from engine.turn.verify import Commit, Verified, Verifier
from engine.types import Sampling


@dataclass(frozen=True, slots=True)
class Replayed:
    """One round: what came of it, the draft it was given, milliseconds by phase."""

    verified: Verified
    draft: Draft
    ms: dict[str, float]

    @property
    def agrees(self) -> bool:
        """Whether the target chose every token of the draft."""
        return self.verified.accepted == len(self.draft.token_ids)


class Replay:
    """Rounds behind one context.

    Args:
        model: reads the context.
        context_tokens: tokens before the rounds.
        num_tokens: of the context and of all rounds.
    """

    def __init__(self, model: Model, context_tokens: int, num_tokens: int) -> None:
        self._device = model.device
        self._chooser = TokenChooser(Sampling(temperature=0.0), model.config.vocab_size, ())
        self._num_decoded = num_tokens - context_tokens
        self.state: State = model.new_state(num_tokens)
        model.prefill(any_ids(model.config, context_tokens), self.state)
        self.start: Snapshot = self.state.snapshot()
        self.truth: list[int] = []

    def decode(self, verifier: Verifier) -> None:
        """Record token 0 and what plain decode chooses behind it."""
        self.state.restore(self.start)
        chosen = [0]
        while len(chosen) < self._num_decoded:
            chosen += self._round(verifier, chosen[-1], Draft.chain(())).verified.chosen
        self.truth = chosen

    def rounds(
        self, verifier: Verifier, num_rows: int, num_rounds: int, commit: Commit | None = None
    ) -> Iterator[Replayed]:
        """Replay from the end of the context.

        Args:
            verifier: of the model, or of one that has its weights.
            num_rows: rows of a round.
            num_rounds: at most what was decoded holds.
            commit: sees each token that the target chooses, with its logits.
        """
        self.state.restore(self.start)
        for at in range(0, num_rounds * num_rows, num_rows):
            draft = Draft.chain(self.truth[at + 1 : at + num_rows])
            yield self._round(verifier, self.truth[at], draft, commit)

    def chosen_by_plain_decode(self, index: int, num_rows: int) -> Sequence[int]:
        """What a round of so many rows must choose; fewer where the record ends."""
        return self.truth[index * num_rows + 1 : (index + 1) * num_rows + 1]

    def _round(
        self, verifier: Verifier, token_id: int, draft: Draft, commit: Commit | None = None
    ) -> Replayed:
        clock = PhaseClock(self._device)
        verified = verifier.verify(
            token_id, draft, self.state, self._chooser, commit or _go_on, clock
        )
        clock.enter("host")
        return Replayed(verified, draft, clock.stop())


def _go_on(_token_id: int, _logits: torch.Tensor) -> bool:
    return True
