"""Find out how far the target agrees with a draft."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from engine.draft.draft import Draft
from engine.model.decoder import Model
from engine.model.state import State
from engine.turn.choice import TokenChooser
from engine.turn.clock import PhaseClock

Commit = Callable[[int], bool]
"""(token that the target chooses next) -> whether the turn goes on behind it. Called once for each
committed token, in order."""


@dataclass(frozen=True, slots=True)
class Course:
    """What the rounds of a turn have in common.

    Attributes:
        state: that they go on from.
        chooser: of the turn; whoever commits a token notes it there.
        stop_ids: end the turn.
        keeps_logits: hand out the logits of every committed token.
        ends_by_text: the turn may end behind a token that the text alone tells apart.
    """

    state: State
    chooser: TokenChooser
    stop_ids: frozenset[int] = frozenset()
    keeps_logits: bool = False
    ends_by_text: bool = False


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of a round.

    Attributes:
        hidden: bf16 [n, D], the rows that the state has taken in, after the final norm: that of the
            newest committed token and those of the accepted ones.
        chosen: n tokens that were committed: the accepted ones and the target's own.
        tested: draft tokens that the target looked at.
        accepted: draft tokens that it agreed with.
        logits: fp32 [n, V] that the tokens were chosen from, where they are kept.
        notice: what a person should know of the round; mostly empty.
        was_captured: its launches came for the first time and were captured: its time is no price.
    """

    hidden: torch.Tensor
    chosen: list[int]
    tested: int
    accepted: int
    logits: torch.Tensor | None = None
    notice: str = ""
    was_captured: bool = False


class Launched(Protocol):
    """A round that is on its way.

    Attributes:
        draft: what it verifies.
        clock: of the round; in the phase ``host`` once the round is taken in.
    """

    draft: Draft
    clock: PhaseClock

    @property
    def hidden(self) -> torch.Tensor | None:
        """Where `Verified.hidden` will stand, bf16 [T, D], others behind; None if nobody knows."""
        ...

    def wait(self, commit: Commit) -> Verified:
        """Wait for it, commit what it brought, and leave exactly the rows of that in the state."""
        ...

    def drop(self) -> None:
        """Take nothing of it: the state is then, bit for bit, as if it had not been launched."""
        ...


class Verifier(Protocol):
    """Computes the rows of rounds."""

    def prepare(self, course: Course, num_rows: int, max_context: int) -> None:
        """Run a round of a shape once, so that no answer waits for its launches to be made.

        Args:
            course: whose state is empty; it holds rows without a meaning afterwards.
            num_rows: of the round.
            max_context: positions that its launches provide for, a power of two.
        """
        ...

    def launch(
        self, course: Course, token_id: int, draft: Draft, room: int, clock: PhaseClock
    ) -> Launched:
        """Launch a round; every round before has been waited for or dropped.

        Args:
            course: of the turn.
            token_id: the newest committed token, which the state has not read yet.
            draft: proposed to follow it.
            room: tokens that the turn may still commit, 1 or more.
            clock: of the round.
        """
        ...

    def launch_behind(self, before: Launched) -> Launched | None:
        """Launch a round of one row for the token that another chooses, before anybody knows it.

        Args:
            before: the newest round, which is still on its way.

        Returns:
            The round; None where that token must be known first.
        """
        ...

    def get_ready(self, before: Launched, token_ids: Sequence[int], draft: Draft) -> Any:  # noqa: ANN401  each verifier's own
        """Get a round ready while the one before it runs, for the case that this goes as foreseen.

        Args:
            before: the only round on its way.
            token_ids: that it is thought to commit.
            draft: of the next round.

        Returns:
            What `launch_ready` takes; None where there is nothing to be got ready.
        """
        ...

    def launch_ready(self, ready: Any) -> Launched | None:  # noqa: ANN401
        """Wait for the round before, and launch what is ready if it committed the foreseen tokens.

        That comes before anything else that the host does with them.
        """
        ...


class RowWalk:
    """Computes row after row and stops at the first disagreement.

    Every row is the model's one-token step, the same call that plain decode makes, and no row is
    computed that would have to be taken back. So a speculative turn has plain decode's bits.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    def prepare(self, course: Course, num_rows: int, max_context: int) -> None:
        """Nothing outlives a walk; see ``Verifier``."""

    def launch(
        self,
        course: Course,
        token_id: int,
        draft: Draft,
        room: int,  # noqa: ARG002  whoever commits ends the walk
        clock: PhaseClock,
    ) -> "Walk":
        """Note a round, which is computed when it is waited for; see ``Verifier``."""
        return Walk(self._model, course, token_id, draft, clock)

    def launch_behind(self, before: Launched) -> None:  # noqa: ARG002
        """Never: nothing runs while nobody waits."""
        return

    def get_ready(self, before: Launched, token_ids: Sequence[int], draft: Draft) -> None:  # noqa: ARG002
        """Nothing: as above."""
        return

    def launch_ready(self, ready: None) -> None:  # noqa: ARG002
        """Never: as above."""
        return


@dataclass(slots=True)
class Walk:
    """A round that is walked row by row; see ``Launched``."""

    model: Model
    course: Course
    token_id: int
    draft: Draft
    clock: PhaseClock
    hidden: torch.Tensor | None = None

    def wait(self, commit: Commit) -> Verified:
        """Walk along the draft as far as it holds what the target chooses."""
        hidden: list[torch.Tensor] = []
        logits: list[torch.Tensor] = []
        chosen: list[int] = []
        row: int | None = 0
        while row is not None:
            token_id, rows, scores = self._step(row)
            hidden.append(rows)
            if self.course.keeps_logits:
                logits.append(scores)
            chosen.append(token_id)
            row = self.draft.follower(row, token_id) if commit(token_id) else None
        self.clock.enter("host")
        kept = torch.stack(logits) if logits else None
        return Verified(torch.cat(hidden), chosen, *self.draft.agreement(chosen), kept)

    def drop(self) -> None:
        """Nothing was computed."""

    def _step(self, row: int) -> tuple[int, torch.Tensor, torch.Tensor]:
        """Let the state read a row: the token that follows it, its hidden row, its logits [V]."""
        state = self.course.state
        self.clock.enter("verify")
        hidden = self.model.step((self.token_id, *self.draft.token_ids)[row], state)
        logits = self.model.logits(hidden)[0]
        self.clock.enter("accept")
        return self.course.chooser.choose(logits, state.length), hidden, logits
