"""Find out how far the target agrees with a draft."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from engine.model.decoder import Model
from engine.model.state import State
from engine.turn.clock import PhaseClock

Commit = Callable[[torch.Tensor], tuple[int, bool]]
"""fp32 logits [V] of the next position -> (the token that the target chooses there, whether the
turn goes on behind it). Called once for each committed token, in order."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of a round.

    Attributes:
        read_ids: n tokens that the state has taken in: the newest committed one and the accepted.
        hidden: bf16 [n, D], their rows after the final norm.
        chosen: n tokens that were committed: the accepted ones and the target's own.
        tested: draft tokens that the target looked at.
        accepted: draft tokens that it agreed with.
    """

    read_ids: list[int]
    hidden: torch.Tensor
    chosen: list[int]
    tested: int
    accepted: int


class Verifier(Protocol):
    """Computes the rows of a round; leaves exactly ``read_ids`` behind in the state."""

    def verify(
        self, token_id: int, draft: Sequence[int], state: State, commit: Commit, clock: PhaseClock
    ) -> Verified:
        """Verify ``draft``, proposed to follow ``token_id``, which the state has not read yet.

        The clock is left in the phase ``accept``.
        """
        ...


class RowWalk:
    """Computes row after row and stops at the first disagreement.

    Every row is the model's one-token step, the same call that plain decode makes, and no row is
    computed that would have to be taken back. So a speculative turn has plain decode's bits.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    def verify(
        self, token_id: int, draft: Sequence[int], state: State, commit: Commit, clock: PhaseClock
    ) -> Verified:
        """Walk the rows; see ``Verifier``."""
        read_ids: list[int] = []
        rows: list[torch.Tensor] = []
        chosen: list[int] = []
        for proposed in (*draft, None):
            clock.enter("verify")
            rows.append(self._model.step(token_id, state))
            read_ids.append(token_id)
            logits = self._model.logits(rows[-1])
            clock.enter("accept")
            token_id, goes_on = commit(logits[0])
            chosen.append(token_id)
            if token_id != proposed or not goes_on:
                break
        accepted = sum(one == other for one, other in zip(chosen, draft, strict=False))
        tested = min(len(chosen), len(draft))
        return Verified(read_ids, torch.cat(rows), chosen, tested, accepted)
