"""Find out how far the target agrees with a draft."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from engine.draft.draft import Draft
from engine.model.decoder import Model
from engine.model.state import State
from engine.turn.choice import TokenChooser
from engine.turn.clock import PhaseClock

Commit = Callable[[int, torch.Tensor], bool]
"""(token that the target chooses next, fp32 logits [V] it was chosen from) -> whether the turn goes
on behind it. Called once for each committed token, in order."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of a round.

    Attributes:
        read_ids: n tokens that the state has taken in: the newest committed one and the accepted.
        hidden: bf16 [n, D], their rows after the final norm.
        chosen: n tokens that were committed: the accepted ones and the target's own.
        tested: draft tokens that the target looked at.
        accepted: draft tokens that it agreed with.
        notice: what a person should know of the round; mostly empty.
    """

    read_ids: list[int]
    hidden: torch.Tensor
    chosen: list[int]
    tested: int
    accepted: int
    notice: str = ""


class Verifier(Protocol):
    """Computes the rows of a round; leaves exactly ``read_ids`` behind in the state."""

    def verify(
        self,
        token_id: int,
        draft: Draft,
        state: State,
        chooser: TokenChooser,
        commit: Commit,
        clock: PhaseClock,
    ) -> Verified:
        """Verify ``draft``, proposed to follow ``token_id``, which the state has not read yet.

        The clock is left in the phase ``accept``.
        """
        ...


@dataclass(frozen=True, slots=True)
class Followed:
    """How far the target went along a draft: rows it took, row 0 first, and its choices behind."""

    rows: list[int]
    chosen: list[int]
    tested: int
    accepted: int


def follow(
    draft: Draft, choose: Callable[[int], tuple[int, torch.Tensor]], commit: Commit
) -> Followed:
    """Go from row 0 along a draft as far as it holds what the target chooses.

    Args:
        draft: chain or tree.
        choose: row -> (token that the target chooses behind it, its logits); called for each row
            that is taken, in order.
        commit: takes each chosen token.
    """
    rows: list[int] = []
    chosen: list[int] = []
    tested = accepted = 0
    following: list[int] = [0]
    while following:
        rows.append(following[0])
        token_id, logits = choose(rows[-1])
        chosen.append(token_id)
        goes_on = commit(token_id, logits)
        children = draft.children(rows[-1])
        tested += bool(children)
        following = [row for row in children if draft.token_ids[row - 1] == token_id]
        accepted += bool(following)
        if not goes_on:
            break
    return Followed(rows, chosen, tested, accepted)


class RowWalk:
    """Computes row after row and stops at the first disagreement.

    Every row is the model's one-token step, the same call that plain decode makes, and no row is
    computed that would have to be taken back. So a speculative turn has plain decode's bits.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    def verify(
        self,
        token_id: int,
        draft: Draft,
        state: State,
        chooser: TokenChooser,
        commit: Commit,
        clock: PhaseClock,
    ) -> Verified:
        """Walk the rows; see ``Verifier``."""
        row_ids = (token_id, *draft.token_ids)
        hidden: list[torch.Tensor] = []

        def choose(row: int) -> tuple[int, torch.Tensor]:
            clock.enter("verify")
            hidden.append(self._model.step(row_ids[row], state))
            logits = self._model.logits(hidden[-1])[0]
            clock.enter("accept")
            return chooser.choose(logits, state.length), logits

        went = follow(draft, choose, commit)
        read_ids = [row_ids[row] for row in went.rows]
        return Verified(read_ids, torch.cat(hidden), went.chosen, went.tested, went.accepted)
