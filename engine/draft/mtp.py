"""Draft with the checkpoint's MTP head: a chain, each token from the one before."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import torch

from engine.draft.draft import Draft
from engine.draft.drafter import Drafter
from engine.model.mtp import MAX_WAITING_ROWS, Mtp
from kernels.common.round import MAX_ROWS

MAX_MTP_TOKENS = 7
"""Most proposals a round: the head was trained for the next token, and guesses worse and worse."""

MAX_PIECES = 32
"""Pieces that waiting rows are held in: a row may be all that is wanted of the round that it is of,
whose rows stay with it, until pieces are joined."""


class MtpRows:
    """The head's keys and values for the conversation, kept up with the target's rows.

    Rows that the target has computed wait until a proposal needs them, or until there are
    ``MAX_WAITING_ROWS``: the first token does not wait for the head, and their memory is bounded.

    Args:
        mtp: the head.
        max_tokens: longest conversation.
    """

    def __init__(self, mtp: Mtp, max_tokens: int) -> None:
        self._mtp = mtp
        self._state = mtp.new_state(max_tokens)
        # rows, and the token that follows each
        self._waiting: list[torch.Tensor] = []
        self._following: list[int] = []
        self._last: torch.Tensor | None = None

    def follow(self, token_ids: Sequence[int], hidden: torch.Tensor) -> None:
        """Take rows that the target computed.

        Args:
            token_ids: T tokens that it read, following those it read before.
            hidden: bf16 [T, D] after its final norm, one row a token.
        """
        if self._last is not None:
            self._waiting.append(self._last)
        if len(hidden) > 1:
            self._waiting.append(hidden[:-1])
        if len(self._waiting) > MAX_PIECES:
            self._waiting = [torch.cat(self._waiting)]
        self._following += token_ids[self._last is None :]
        self._last = hidden[-1:]
        if len(self._following) >= MAX_WAITING_ROWS:
            self._catch_up()

    def expect(self, hidden: torch.Tensor) -> None:
        """Prepare for a draft behind a round that is on its way.

        Args:
            hidden: bf16 [T, D], where it leaves the rows that `follow` takes, or more of them.
        """
        if self._last is not None:
            self._mtp.expect((*self._waiting, self._last, hidden))

    def draft(self, token_id: int, num_tokens: int) -> list[int]:
        """Propose what follows ``token_id``, the token after the last row."""
        if self._last is None:
            return []
        rows, next_ids = (*self._waiting, self._last), (*self._following, token_id)
        length = self._state.length
        try:
            return self._mtp.draft(rows, next_ids, self._state, num_tokens)
        finally:  # a chain that fails leaves what was read
            self._have_read(self._state.length - length)

    def warm_up(self, row: torch.Tensor, contexts: Sequence[int]) -> None:
        """Let the head run once for each number of rows to catch up with, and each chain.

        Args:
            row: bf16 [1, D], any.
            contexts: positions that chains provide for (``Mtp.prepare``).
        """
        for num_rows in range(1, MAX_ROWS + 1):
            self.rewind(0, row)
            self.follow((0,) * num_rows, row.expand(num_rows, -1))
            self._catch_up()
        for context, num_tokens in product(reversed(contexts), range(MAX_MTP_TOKENS, 0, -1)):
            self._mtp.prepare(row, self._state, num_tokens, context)
        self.rewind(0, None)

    def rewind(self, num_tokens: int, last_hidden: torch.Tensor | None) -> None:
        """Go back to where the target had read ``num_tokens``.

        Args:
            num_tokens: that stay.
            last_hidden: bf16 [1, D], the last one's row after the final norm; None without one.
        """
        num_rows = max(num_tokens - 1, 0)
        if num_rows > self._state.length:
            self._catch_up()
        self._forget_waiting()
        self._state.truncate(num_rows)
        self._last = last_hidden

    def _catch_up(self) -> None:
        if self._waiting:
            self._mtp.fill(torch.cat(self._waiting), list(self._following), self._state)
        self._forget_waiting()

    def _have_read(self, num_rows: int) -> None:
        """Let as many rows wait no more."""
        if num_rows == len(self._following):
            self._forget_waiting()
        elif num_rows:
            self._waiting = [torch.cat(self._waiting)[num_rows:]]
            del self._following[:num_rows]

    def _forget_waiting(self) -> None:
        self._waiting.clear()
        self._following.clear()


class MtpDrafter(Drafter):
    """Proposes what the head predicts: always a chain, since each token needs the one before."""

    name = "mtp"
    reads_rows = True

    def __init__(self, rows: MtpRows) -> None:
        self._rows = rows

    def propose(self, token_id: int, num_generated: int, num_tokens: int) -> Draft:  # noqa: ARG002
        """Propose a chain of ``num_tokens``."""
        token_ids = self._rows.draft(token_id, num_tokens)
        return replace(Draft.chain(token_ids), num_steps=len(token_ids))
