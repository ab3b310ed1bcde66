"""Plain decode, recorded once and replayed in rounds of several rows, one behind the other.

A target must agree with each replayed row, so that what is timed is proven to be right. Rounds run
as those of a turn do: the next is on its way before anybody looks at what came of one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engine.bench.model import any_ids
from engine.compute_path import KernelError
from engine.draft.draft import Draft, Foreseen
from engine.draft.scripted import ScriptedDrafter, replayed
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

    def proven(self, about: str) -> "Replayed":
        """The round itself, which chose what plain decode chose.

        Args:
            about: the round, for a sentence that begins with it.

        Raises:
            KernelError: it chose other tokens.
        """
        if not self.agrees:
            raise disagreement(about, self.verified.chosen, self.truth)
        return self


def disagreement(about: str, chosen: Sequence[int], truth: Sequence[int]) -> KernelError:
    """What is said of a round that chose other tokens than plain decode did."""
    return KernelError(
        f"{about} chose {list(chosen)}, and plain decode chose {list(truth)}.",
        "Tell us what 'qwen38 check' says.",
    )


class Replay:
    """Rounds behind one context.

    Args:
        model: reads the context.
        context_tokens: tokens before the rounds.
        num_tokens: of the context and of all rounds.
    """

    def __init__(self, model: Model, context_tokens: int, num_tokens: int) -> None:
        self._device = model.device
        self._num_ids = model.config.vocab_size
        self._chooser = TokenChooser(Sampling(temperature=0.0), self._num_ids, ())
        self._num_decoded = num_tokens - context_tokens
        self.state: State = model.new_state(num_tokens)
        model.prefill(any_ids(model.config, context_tokens), self.state)
        self.start: Snapshot = self.state.snapshot()
        self.truth: list[int] = []

    def decode(self, verifier: Verifier) -> None:
        """Record token 0 and what plain decode chooses behind it."""
        chosen = [0]
        plain = _Kind(1, lambda _at: Draft.chain(()))
        for one in self._run(verifier, plain, self._num_decoded - 1):
            chosen += one.verified.chosen
        self.truth = chosen

    def rounds(
        self,
        verifier: Verifier,
        num_rows: int,
        num_rounds: int,
        *,
        keeps_logits: bool = False,
        foresees: bool = True,
    ) -> Iterator[Replayed]:
        """Replay from the end of the context.

        Args:
            verifier: of the model, or of one that has its weights.
            num_rows: rows of a round.
            num_rounds: at most what was decoded holds.
            keeps_logits: hand out the logits that tokens were chosen from.
            foresees: a round is got ready while the one before runs, as behind a copy.
        """
        chains = _Kind(
            num_rows, lambda at: Draft.chain(self.truth[at + 1 : at + num_rows]), foresees
        )
        return self._replayed(verifier, chains, num_rounds, keeps_logits=keeps_logits)

    def tree_rounds(self, verifier: Verifier, num_rows: int, num_rounds: int) -> Iterator[Replayed]:
        """As `rounds`, with a wrong token beside each right one: paths are half as long.

        Args:
            verifier: of the model.
            num_rows: rows of a round, 3 or more.
            num_rounds: at most what was decoded holds.
        """
        script = ScriptedDrafter("replay", replayed(self.truth), self._num_ids, siblings=True)
        trees = _Kind(
            num_rows // 2 + 1, lambda at: script.propose(self.truth[at], at + 1, num_rows - 1),
            foresees=True,
        )  # fmt: skip
        return self._replayed(verifier, trees, num_rounds)

    def _replayed(
        self, verifier: Verifier, kind: "_Kind", num_rounds: int, *, keeps_logits: bool = False
    ) -> Iterator[Replayed]:
        rounds = self._run(verifier, kind, num_rounds, keeps_logits=keeps_logits)
        for index, one in enumerate(rounds):
            first = index * kind.num_committed + 1
            truth = self.truth[first : first + kind.num_committed]
            yield Replayed(one.verified, truth, one.clock.ms())

    def _run(
        self, verifier: Verifier, kind: "_Kind", num_rounds: int, *, keeps_logits: bool = False
    ) -> Iterator[Round]:
        """Run rounds of a kind behind token 0.

        Args:
            verifier: computes them.
            kind: what each proposes.
            num_rounds: how many.
            keeps_logits: as in `rounds`.
        """
        self.state.restore(self.start)
        course = Course(self.state, self._chooser, keeps_logits=keeps_logits)
        rounds = Rounds(verifier, course, self._device)

        def launch(token_id: int, index: int) -> None:
            draft = kind.draft(index * kind.num_committed)
            room = (num_rounds - index) * kind.num_committed
            rounds.launch(token_id, lambda: draft, room)

        try:
            launch(0, 0)
            for index in range(1, num_rounds + 1):
                rounds.launch_ahead()
                if kind.foresees and index < num_rounds and rounds.num_under_way == 1:
                    at = index * kind.num_committed
                    known = self.truth[at - kind.num_committed + 1 : at + 1]
                    rounds.foresee(Foreseen(known, kind.draft(at)))
                one = rounds.take(go_on)
                if index < num_rounds and not rounds.are_under_way:
                    launch(one.verified.chosen[-1], index)
                yield one
        finally:
            rounds.drop()


@dataclass(frozen=True, slots=True)
class _Kind:
    """Rounds that commit so many tokens each; ``draft`` is of the place of the newest one."""

    num_committed: int
    draft: Callable[[int], Draft]
    foresees: bool = False


def go_on(_token_id: int) -> bool:
    """Let rounds go on behind every token."""
    return True
