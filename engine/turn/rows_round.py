"""A round whose rows are computed together, from its launch until its rows are taken in."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.draft.draft import Draft
from engine.model.round_state import RoundState
from engine.model.taps import Taps
from engine.turn.clock import PhaseClock
from engine.turn.failures import LogitsError
from engine.turn.verify import Commit, Course, Verified
from kernels.common.staged import FetchedTable
from kernels.sample.accept import COMMITTED, PATH
from kernels.sample.accept_reference import BROKEN


@dataclass(frozen=True, slots=True)
class PathRows:
    """Copies of what a round left of the rows that the target came to, in their order.

    The rounds behind it overwrite the rest. Rows behind the end of the path are others'.

    Attributes:
        hidden: bf16 [T, D], after the final norm.
        logits: fp32 [T, V], where they are kept.
        tapped: bf16 [T, layers * D], where a drafter reads some layers' outputs.
    """

    hidden: torch.Tensor
    logits: torch.Tensor | None
    tapped: torch.Tensor | None


class RowsRound:
    """A round on its way; see ``engine.turn.verify.Launched``.

    Attributes:
        course: of the turn.
        draft: what it verifies.
        room: tokens that the turn could still commit before it.
        clock: of the round.
        notice: what a person should know of its launch; mostly empty.
        was_captured: its launches came for the first time and were captured.

    Args:
        course: of the turn.
        draft: what it verifies.
        room: tokens that the turn may still commit.
        clock: of the round.
        taps: keep what a drafter reads.
    """

    def __init__(
        self, course: Course, draft: Draft, room: int, clock: PhaseClock, taps: Taps | None
    ) -> None:
        self.course = course
        self.draft = draft
        self.room = room
        self.clock = clock
        self.notice = ""
        self.was_captured = False
        self._taps = taps
        self._is_taken_in = self._has_ended = False
        self._result: list[int] = []

    def bring(self, page: FetchedTable, rows: PathRows) -> None:
        """Hand over where what comes of the round will be: all of it is asked of the device."""
        self._page = page
        self._rows = rows

    @property
    def hidden(self) -> torch.Tensor:
        """Where the rows after the final norm will stand that it accepts, others behind them."""
        return self._rows.hidden

    @property
    def is_taken_in(self) -> bool:
        """Whether the state counts its rows already."""
        return self._is_taken_in

    def take_in(self, rows: Sequence[int]) -> None:
        """Let the state take in rows, a path from row 0; the round may still be on its way."""
        state = self._state
        if self._taps is not None and self._rows.tapped is not None:
            self._taps.keep(state.length, self._rows.tapped[: len(rows)])
        state.accept(rows)
        self._is_taken_in = True
        self.end()

    def end(self) -> None:
        """Let the next round begin, in the clock."""
        if not self._has_ended:
            self._has_ended = True
            self.clock.enter("host")

    def result(self) -> list[int]:
        """Wait for what came of it: int32 [80] of `kernels.sample.accept`."""
        if not self._result:
            self._result = self._page.wait()
            self._state.inputs.have_left()
        return self._result

    def wait(self, commit: Commit) -> Verified:
        """Wait for what came of it, and commit that as far as the turn goes on.

        Raises:
            LogitsError: a row that the target came to has no finite largest logit.
        """
        result = self.result()
        num_chosen, num_agreed, num_tested, finish, end = result[:5]
        committed, path = (result[part][:num_chosen] for part in (COMMITTED, PATH))
        chosen, goes_on = self._commit(committed, commit)
        if goes_on and finish == BROKEN:
            raise LogitsError(f"the logits of position {end + 1} have no finite maximum")
        if chosen != committed:
            path = path[: len(chosen)]
            num_tested, num_agreed = self.draft.agreement(chosen)
        if not self._is_taken_in:
            self.take_in(path)
        logits = self._rows.logits
        return Verified(
            self._rows.hidden[: len(path)], chosen, num_tested, num_agreed,
            logits[: len(path)] if logits is not None else None, self.notice, self.was_captured,
        )  # fmt: skip

    def drop(self) -> None:
        """Take in no row; see ``engine.turn.verify.Launched``."""
        self._state.drop()

    @property
    def _state(self) -> RoundState:
        assert isinstance(self.course.state, RoundState)
        return self.course.state

    def _commit(self, committed: Sequence[int], commit: Commit) -> tuple[list[int], bool]:
        """Commit tokens until the turn ends or another one is forced; whether all were committed.

        Rows behind a token that is forced have read one that the text does not hold.
        """
        chooser, chosen = self.course.chooser, list[int]()
        may_force = chooser.may_force
        for token_id in committed:
            forced = chooser.forced if may_force else None
            chosen.append(token_id if forced is None else forced)
            if not commit(chosen[-1]) or chosen[-1] != token_id:
                return chosen, False
        return chosen, True
