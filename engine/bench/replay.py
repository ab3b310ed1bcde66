"""Plain decode, recorded once and replayed in rounds of several rows, one behind the other.

A target must agree with each replayed row, so that what is timed is proven to be right. Rounds run
as those of a turn do: the next is on its way before anybody looks at what came of one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.bench.model import any_ids
from engine.draft.draft import Draft
from engine.model.decoder import Model
from engine.model.state import Snapshot, State
from engine.turn.choice import TokenChooser
from engine.turn.rounds import Round, Rounds
from engine.turn.verify import Course, Verified, Verifier
from engine.types import Sampling


@dataclass(frozen=True, slots=True)
class Replayed:
    """One round: what came of it, what plain decode chose there, milliseconds by phase."""

    verified: Verified
    truth: Sequence[int]
    ms: dict[str, float]

    @property
    def agrees(self) -> bool:
        """Whether the target chose every token that plain decode chose, as far as that went."""
        return self.verified.chosen[: len(self.truth)] == list(self.truth)


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
        chosen = [0]
        for one in self._run(verifier, [0], 1, self._num_decoded - 1):
            chosen += one.verified.chosen
        self.truth = chosen

    def rounds(
        self, verifier: Verifier, num_rows: int, num_rounds: int, *, keeps_logits: bool = False
    ) -> Iterator[Replayed]:
        """Replay from the end of the context.

        Args:
            verifier: of the model, or of one that has its weights.
            num_rows: rows of a round.
            num_rounds: at most what was decoded holds.
            keeps_logits: hand out the logits that tokens were chosen from.
        """
        rounds = self._run(verifier, self.truth, num_rows, num_rounds, keeps_logits=keeps_logits)
        for index, one in enumerate(rounds):
            truth = self.truth[index * num_rows + 1 : (index + 1) * num_rows + 1]
            yield Replayed(one.verified, truth, one.clock.ms())

    def _run(
        self,
        verifier: Verifier,
        text: Sequence[int],
        num_rows: int,
        num_rounds: int,
        *,
        keeps_logits: bool = False,
    ) -> Iterator[Round]:
        """Run rounds whose rows are the next tokens of a text, as far as it is known.

        Args:
            verifier: computes them.
            text: token 0 and what follows it; a round of one row needs no more than token 0.
            num_rows: rows of a round.
            num_rounds: how many.
            keeps_logits: as in `rounds`.
        """
        self.state.restore(self.start)
        course = Course(self.state, self._chooser, keeps_logits=keeps_logits)
        rounds = Rounds(verifier, course, self._device)

        def launch(token_id: int, index: int) -> None:
            at = index * num_rows
            draft = Draft.chain(text[at + 1 : at + num_rows])
            rounds.launch(token_id, lambda: draft, (num_rounds - index) * num_rows)

        try:
            launch(text[0], 0)
            for index in range(1, num_rounds + 1):
                rounds.launch_ahead()
                one = rounds.take(_go_on)
                if index < num_rounds and not rounds.are_under_way:
                    launch(one.verified.chosen[-1], index)
                yield one
        finally:
            rounds.drop()


def _go_on(_token_id: int) -> bool:
    return True
