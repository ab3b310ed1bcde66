"""A round whose rows are computed together, from its launch until its rows are taken in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

from engine.draft.draft import Draft
from engine.model.round_state import RoundState
from engine.model.taps import Taps
from engine.turn.clock import PhaseClock
from engine.turn.verify import Commit, Course, Verified
from kernels.sample.accept import COMMITTED, PATH
from kernels.sample.accept_reference import BROKEN


@dataclass(frozen=True, slots=True)
class RowBuffers:
    """What every round writes to; the next one overwrites it.

    Attributes:
        hidden: bf16 [32, D], rows after the final norm.
        logits: fp32 [32, V].
        taps: rows of some layers' outputs, where a drafter reads them.
    """

    hidden: torch.Tensor
    logits: torch.Tensor
    taps: Taps | None


class RowsRound:
    """A round on its way; see ``engine.turn.verify.Launched``.

    Attributes:
        course: of the turn.
        draft: what it verifies.
        room: tokens that the turn could still commit before it.
        clock: of the round.
        notice: what a person should know of its launch; mostly empty.

    Args:
        course: of the turn.
        draft: what it verifies.
        room: tokens that the turn may still commit.
        clock: of the round.
        buffers: that it writes to.
    """

    def __init__(
        self, course: Course, draft: Draft, room: int, clock: PhaseClock, buffers: RowBuffers
    ) -> None:
        self.course = course
        self.draft = draft
        self.room = room
        self.clock = clock
        self.notice = ""
        self._buffers = buffers
        self._taken: tuple[torch.Tensor, torch.Tensor | None] | None = None

    def bring(self, result: torch.Tensor, page: torch.Tensor) -> None:
        """Let what came of the round be copied to the host when it is there.

        Args:
            result: int32 [80] of `kernels.sample.accept`, on the device.
            page: int32 [80], pinned where the device is a GPU.
        """
        page.copy_(result, non_blocking=True)
        self._page = page
        self._is_there = torch.cuda.Event() if result.is_cuda else None
        if self._is_there is not None:
            self._is_there.record()

    @torch.inference_mode()
    def take_in(self, rows: Sequence[int]) -> None:
        """Let the state take in rows, a path from row 0, and copy what the next round overwrites.

        All of it is asked of the device behind the round: the round may still be on its way.
        """
        state, buffers = self._state, self._buffers
        at = _index(rows, buffers.hidden.device)
        logits = buffers.logits[at].clone() if self.course.keeps_logits else None
        self._taken = buffers.hidden[at].clone(), logits
        if buffers.taps is not None:
            buffers.taps.keep(state.length, at)
        state.accept(rows)
        self.clock.enter("host")

    def wait(self, commit: Commit) -> Verified:
        """Wait for what came of it, and commit that as far as the turn goes on.

        Raises:
            ValueError: a row that the target came to has no finite largest logit.
        """
        if self._is_there is not None:
            self._is_there.synchronize()
        result: list[int] = cast("Any", self._page).tolist()
        num_chosen, num_agreed, _, finish, end = result[:5]
        committed, path = (result[part][:num_chosen] for part in (COMMITTED, PATH))
        chosen, goes_on = self._commit(committed, commit)
        if goes_on and finish == BROKEN:
            raise ValueError(f"the logits of position {end + 1} have no finite maximum")
        rows = path[: len(chosen)]
        if self._taken is None:
            self.take_in(rows)
        assert self._taken is not None
        hidden, logits = self._taken
        parents = set(self.draft.plan.parents)
        num_right = len(chosen) - (chosen != committed[: len(chosen)])
        return Verified(
            hidden, chosen, sum(row in parents for row in rows), min(num_agreed, num_right), logits,
            self.notice,
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
        chosen: list[int] = []
        for token_id in committed:
            forced = self.course.chooser.forced
            chosen.append(token_id if forced is None else forced)
            if not commit(chosen[-1]) or chosen[-1] != token_id:
                return chosen, False
        return chosen, True


def _index(rows: Sequence[int], device: torch.device) -> slice | torch.Tensor:
    """Rows as an index; those of a chain need none that must reach the device."""
    if list(rows) == list(range(len(rows))):
        return slice(len(rows))
    return torch.tensor(rows, device=device)
