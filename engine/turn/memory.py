"""What the model holds of the conversation, and how much of it the next prompt can keep."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

from engine.draft.calibration import Calibration
from engine.draft.dflash import DflashRows, DflashSource
from engine.draft.mtp import MAX_MTP_TOKENS, MtpRows
from engine.draft.ngrams import NgramIndex, num_common
from engine.model.decoder import Model
from engine.records import RangeRecord
from engine.turn.marks import Mark, Marks


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of the ids that were held, when a prompt came.

    Attributes:
        held: tokens that were read before.
        common: of them, how many the prompt begins with.
        reused: of those, how many stay read.
    """

    held: int
    common: int
    reused: int


class Memory:
    """The state of one conversation beside the ids that it stands for.

    Attributes:
        state: of the model; its length is always that of ``ids``.
        ids: the tokens that were read.
        last_hidden: bf16 [1, D], the last one's row after the final norm; None before the first.
        ranges: how all positions were computed, in order, without gaps.
        mtp: rows of the MTP head, where the checkpoint has one.
        dflash: rows of the DFlash2 drafter, where one is loaded.
        ngrams: of the conversation, as far as the lookup drafter has needed them.
        calibration: how often its proposals were right, for the router.

    Args:
        model: the model that reads.
        max_tokens: longest conversation.
        most_marks: points to come back to that are held at once.
        dflash: the DFlash2 drafter of the model.
    """

    def __init__(
        self,
        model: Model,
        max_tokens: int,
        most_marks: int,
        dflash: DflashSource | None = None,
    ) -> None:
        self._marks = Marks(most_marks)
        self.state = model.new_state(max_tokens)
        self.mtp = MtpRows(model.mtp, max_tokens) if model.mtp is not None else None
        self.dflash = DflashRows(dflash, max_tokens) if dflash is not None else None
        self.forget()

    def spoil(self) -> None:
        """Trust the state no more: a failure may have left some layers ahead of others."""
        self._is_spoilt = True

    def forget(self) -> None:
        """Begin an empty conversation in the same memory."""
        self.spoil()  # until every part is empty
        self.state.clear()
        self.ids: list[int] = []
        self.last_hidden: torch.Tensor | None = None
        self.ranges: list[RangeRecord] = []
        if self.mtp is not None:
            self.mtp.rewind(0, None)
        if self.dflash is not None:
            self.dflash.rewind(0)
        self.ngrams = NgramIndex()
        self.calibration = Calibration(self._drafted())
        self._marks.forget_beyond(0)
        self._is_spoilt = False

    def align(self, ids: Sequence[int]) -> Kept:
        """Keep the longest held beginning of ``ids`` and forget the rest.

        What is held can be kept as a whole, or up to a mark.
        """
        if self._is_spoilt:
            self.forget()
        num_held, common = len(self.ids), num_common(self.ids, ids)
        if common < num_held:
            mark = self._marks.nearest(common)
            if mark is not None:
                self._return_to(mark)
            else:
                self.forget()
        return Kept(num_held, common, len(self.ids))

    def mark(self) -> None:
        """Make this point one to come back to."""
        is_new = self.ids and all(mark.length != len(self.ids) for mark in self._marks)
        if is_new and self._marks.make_room():
            assert self.last_hidden is not None
            # a copy: the row is a view of its chunk, which would stay with it
            self._marks.add(Mark(self.state.snapshot(), self.last_hidden.clone()))

    def expect(self, hidden: torch.Tensor) -> None:
        """Prepare for a draft behind a round that is on its way.

        Args:
            hidden: bf16 [T, D], where it leaves the rows that `read` takes, or more of them.
        """
        if self.mtp is not None:
            self.mtp.expect(hidden)

    def read(
        self,
        token_ids: Sequence[int],
        hidden: torch.Tensor,
        how: Literal["prefill", "decode"],
        chunk_tokens: int = 0,
    ) -> None:
        """Note tokens that the model has read into ``state``.

        Args:
            token_ids: T tokens, T at least 1.
            hidden: bf16 [T, D], their rows.
            how: the arithmetic.
            chunk_tokens: size of prefill chunks.
        """
        if self.mtp is not None:
            self.mtp.follow(token_ids, hidden)
        if self.dflash is not None:
            self.dflash.follow(len(token_ids))
        start = len(self.ids)
        self.ids += token_ids
        self.last_hidden = hidden[-1:]
        last = self.ranges[-1] if self.ranges else None
        if last is not None and _goes_on(last, how, chunk_tokens):
            self.ranges[-1] = RangeRecord(last.start, len(self.ids), how, chunk_tokens)
        else:
            self.ranges.append(RangeRecord(start, len(self.ids), how, chunk_tokens))

    def _drafted(self) -> dict[str, int]:
        """Most tokens that each drafter with weights proposes."""
        found = {"mtp": MAX_MTP_TOKENS} if self.mtp is not None else {}
        return found | ({"dflash2": self.dflash.num_proposals} if self.dflash is not None else {})

    def _return_to(self, mark: Mark) -> None:
        self.spoil()  # until every part is there
        self.state.restore(mark.snapshot)
        del self.ids[mark.length :]
        self.last_hidden = mark.last_hidden
        self.ranges = [
            replace(one, end=min(one.end, mark.length))
            for one in self.ranges
            if one.start < mark.length
        ]
        if self.mtp is not None:
            self.mtp.rewind(mark.length, mark.last_hidden)
        if self.dflash is not None:
            self.dflash.rewind(mark.length)
        self._marks.forget_beyond(mark.length)
        self._is_spoilt = False


def _goes_on(last: RangeRecord, how: str, chunk_tokens: int) -> bool:
    """Whether more tokens, computed so, leave ``last`` the one range that it is."""
    if (last.how, last.chunk_tokens) != (how, chunk_tokens):
        return False
    return how == "decode" or (last.end - last.start) % chunk_tokens == 0
