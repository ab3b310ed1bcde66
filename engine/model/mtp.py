"""The checkpoint's MTP head: one attention layer that joins a hidden state with the next token.

Row p holds the trunk's hidden state of position p and the token of position p + 1, and predicts
the token of position p + 2. What it proposes changes speed only, never text.
"""

from collections.abc import Sequence

import torch
from torch.nn import functional

from engine.model.attention import Angles, attend, store_keys
from engine.model.config import ModelConfig
from engine.model.draft_state import DraftState
from engine.model.matrix import Matrix, logits_of, product
from engine.model.mlp import feed_forward
from engine.model.norms import add_rms_norm, rms_norm
from engine.model.rope import RopeTable
from engine.model.state import KeyValueStore
from engine.model.weights import MtpWeights

MAX_WAITING_ROWS = 1024
"""Rows that may wait for the head before it reads them: 10 MB at the 27B's width."""


def joined(
    hidden: torch.Tensor,
    next_ids: torch.Tensor,
    embedding: torch.Tensor,
    weights: MtpWeights,
    eps: float,
) -> torch.Tensor:
    """Join hidden states with the tokens after them, as fc over [normed embedding | normed hidden].

    Args:
        hidden: bf16 [T, D], after the trunk's final norm.
        next_ids: int64 [T].
        embedding: bf16 [V, D].
        weights: of the head.
        eps: of the norms.

    Returns:
        bf16 [T, D], what the head's layer reads.
    """
    embedded = functional.embedding(next_ids, embedding)
    left = rms_norm(embedded, weights.embedding_norm, eps)
    right = rms_norm(hidden, weights.hidden_norm, eps)
    return product(torch.cat((left, right), -1), weights.fc)


def expect_as_many(num_rows: int, next_ids: Sequence[int]) -> None:
    """Refuse rows for the head that do not each have the token behind them.

    Raises:
        ValueError: there are more hidden states than tokens, or fewer.
    """
    if num_rows != len(next_ids):
        raise ValueError(f"the MTP head has {num_rows} hidden states and {len(next_ids)} tokens")


class Mtp:
    """The MTP head of one model; shares embedding and output head with the trunk."""

    def __init__(
        self,
        config: ModelConfig,
        weights: MtpWeights,
        embedding: torch.Tensor,
        head: Matrix,
        rope: RopeTable,
    ) -> None:
        self._config = config
        self._weights = weights
        self._embedding = embedding
        self._head = head
        self._rope = rope

    @property
    def head(self) -> Matrix:
        """What proposals are chosen with."""
        return self._head

    def new_state(self, max_tokens: int) -> DraftState:
        """An empty state for conversations of up to ``max_tokens``."""
        return DraftState(KeyValueStore(1, self._config, max_tokens, self._embedding.device))

    @torch.inference_mode()
    def fill(self, hidden: torch.Tensor, next_ids: Sequence[int], state: DraftState) -> None:
        """Append committed rows.

        Args:
            hidden: bf16 [T, D], the trunk's hidden states after its final norm, of the positions
                from ``state.length`` on.
            next_ids: T tokens, each the one that follows its hidden state's position.
            state: appended to.

        Raises:
            ValueError: there are more hidden states than tokens, or fewer.
        """
        expect_as_many(hidden.shape[0], next_ids)
        if not next_ids:
            return
        ids = torch.tensor(next_ids, device=self._embedding.device)
        x = joined(hidden, ids, self._embedding, self._weights, self._config.rms_norm_eps)
        normed = rms_norm(x, self._weights.input_norm, self._config.rms_norm_eps)
        angles = self._reserve(state, len(next_ids))
        # keys and values need nothing beyond the layer's input: the rest is left out
        store_keys(normed, self._weights.attention, self._config, angles, state.kv.layer(0))
        state.length += len(next_ids)

    def expect(self, rows: Sequence[torch.Tensor]) -> None:
        """Prepare for a draft that these rows, or a beginning of them, are for.

        Args:
            rows: bf16 [T, D] in pieces, as for `draft`; they may still be written by what the
                device was asked for before. Who drafts with a beginning of them passes the same
                places.
        """

    @torch.inference_mode()
    def draft(
        self,
        rows: Sequence[torch.Tensor],
        next_ids: Sequence[int],
        state: DraftState,
        num_tokens: int,
    ) -> list[int]:
        """Append committed rows but for the last, and propose what follows the last.

        Proposals are greedy, each from the one before.

        Args:
            rows: bf16 [T, D] in pieces, the last of which is one row: the trunk's hidden states
                after its final norm, of the positions from ``state.length`` on.
            next_ids: T tokens, each the one that follows its hidden state's position; the last is
                the newest committed token.
            state: appended to, T - 1 rows.
            num_tokens: how many to propose.

        Returns:
            ``num_tokens`` proposals; the lowest id wins a tie.

        Raises:
            ValueError: there are more hidden states than tokens, or fewer.
        """
        hidden, row = torch.cat(tuple(rows)), rows[-1]
        self.fill(hidden[: -len(row)], next_ids[:-1], state)
        committed = state.length
        token_id = next_ids[-1]
        proposals: list[int] = []
        try:
            for _ in range(num_tokens):
                row = self._row(row, token_id, state)
                token_id = int(logits_of(row, self._head).argmax())
                proposals.append(token_id)
        finally:
            state.length = committed
        return proposals

    def prepare(
        self, hidden: torch.Tensor, state: DraftState, num_tokens: int, max_context: int
    ) -> None:
        """Make the launches of ``num_tokens`` proposals, where launches are kept.

        Args:
            hidden: bf16 [1, D], any.
            state: with room for them.
            num_tokens: of a chain.
            max_context: positions that the launches provide for, a power of two.
        """

    def _row(self, hidden: torch.Tensor, token_id: int, state: DraftState) -> torch.Tensor:
        """Run one row and append it: bf16 [1, D] after the head's own norm."""
        weights, eps = self._weights, self._config.rms_norm_eps
        ids = torch.tensor([token_id], device=hidden.device)
        x = joined(hidden, ids, self._embedding, weights, eps)
        normed = rms_norm(x, weights.input_norm, eps)
        angles = self._reserve(state, 1)
        mixed = attend(normed, weights.attention, self._config, angles, state.kv.layer(0))
        state.length += 1
        normed, x = add_rms_norm(mixed, x, weights.post_norm, eps)
        return add_rms_norm(feed_forward(normed, weights.mlp), x, weights.norm, eps)[0]

    def _reserve(self, state: DraftState, num_rows: int) -> Angles:
        end = state.length + num_rows
        state.kv.expect_room(end)
        return Angles(state.length, *self._rope.angles(state.length, end))
