"""The MTP head by the kernels: a chain of proposals is one captured graph."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch

from engine.graph_classes import context_class
from engine.model.config import ModelConfig
from engine.model.draft_head import DraftHead
from engine.model.draft_state import DraftState
from engine.model.graphs import GraphCache
from engine.model.matrix import logits_of, product, products
from engine.model.mlp import feed_forward
from engine.model.mtp import Mtp, expect_as_many
from engine.model.norms import add_rms_norm, rms_norm
from engine.model.rope import RopeTable
from engine.model.weights import MtpWeights
from kernels.attention.prep import attention_prep
from kernels.attention.verify import attention_verify
from kernels.common.round import MAX_ROWS
from kernels.common.staged import StagedTable
from kernels.common.tree import StagedTree
from kernels.embed.op import embed
from kernels.head.op import argmax_rows
from kernels.head.scratch import HeadScratch

MAX_STEPS = MAX_ROWS - 1
"""Proposals of one chain."""


class KernelMtp(Mtp):
    """The MTP head of a model whose layers run by kernels; see ``Mtp``.

    Rows and their tokens are copied to fixed places, so that a captured graph serves every call of
    a size: to the last place the row that a chain begins with, right before it those to append.
    Proposals change speed only, so nothing here needs the bits of another row count.

    Args:
        config: the model's numbers.
        weights: packed.
        embedding: bf16 [V, D].
        head: what proposals are chosen with.
        rope: the trunk's angles.
        graphs: of its calls.
        overlap: kernels start before their predecessors end.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: MtpWeights,
        embedding: torch.Tensor,
        head: DraftHead,
        rope: RopeTable,
        graphs: GraphCache,
        *,
        overlap: bool,
    ) -> None:
        super().__init__(config, weights, embedding, head.matrix, rope)
        device = embedding.device
        self._id_map = head.id_map
        self._overlap = overlap
        self._graphs = graphs
        self._rows = torch.zeros(
            (MAX_ROWS + 1, config.hidden_size), dtype=torch.bfloat16, device=device
        )
        # the rows' tokens, where those to append begin, where each step of a chain stands
        self._table = StagedTable(MAX_ROWS + 1 + 1 + MAX_STEPS, device)
        self._ids = self._table.values[: MAX_ROWS + 1]
        self._fill_start = self._table.values[MAX_ROWS + 1 : MAX_ROWS + 2]
        self._starts = self._table.values[MAX_ROWS + 2 :]
        self._proposed = torch.zeros(MAX_STEPS, dtype=torch.int32, device=device)
        self._scratch = HeadScratch(1, config.vocab_size, device)
        self._chain = StagedTree(device)

    @torch.inference_mode()
    def fill(self, hidden: torch.Tensor, next_ids: Sequence[int], state: DraftState) -> None:
        """Append committed rows; see ``Mtp.fill``."""
        expect_as_many(hidden, next_ids)
        state.kv.expect_room(state.length + len(next_ids))
        for first in range(0, len(next_ids), MAX_ROWS):
            piece = slice(first, first + MAX_ROWS)
            num_rows = len(next_ids[piece])
            self._load(hidden[piece], next_ids[piece], num_rows, state.length)
            self._append(num_rows, state)

    @torch.inference_mode()
    def draft(
        self, hidden: torch.Tensor, next_ids: Sequence[int], state: DraftState, num_tokens: int
    ) -> list[int]:
        """Append rows and propose what follows; see ``Mtp.draft``.

        All is brought to the device before anything is launched: it waits for the host once.
        """
        expect_as_many(hidden, next_ids)
        state.kv.expect_room(state.length + len(next_ids) - 1 + num_tokens)
        first = max(len(next_ids) - 1 - MAX_ROWS, 0)
        self.fill(hidden[:first], next_ids[:first], state)
        num_rows = len(next_ids) - 1 - first
        self._load(hidden[first:], next_ids[first:], num_rows, state.length)
        if num_rows:
            self._append(num_rows, state)
        shape = (num_tokens, context_class(state.length + num_tokens))
        self._run(state, ("draft", *shape), partial(self._propose, *shape, state))
        # one copy, which waits for the chain
        proposed: list[int] = cast("Any", self._proposed[:num_tokens]).tolist()
        return proposed

    @torch.inference_mode()
    def prepare(
        self, hidden: torch.Tensor, state: DraftState, num_tokens: int, max_context: int
    ) -> None:
        """Propose once for a shape, and keep its graph; see ``Mtp.prepare``."""
        state.kv.expect_room(state.length + num_tokens)
        self._load(hidden, (0,), 0, state.length)
        shape = (num_tokens, max_context)
        self._run(state, ("draft", *shape), partial(self._propose, *shape, state), lasts=True)

    def _run(
        self,
        state: DraftState,
        key: tuple[str | int, ...],
        launch: Callable[[], None],
        *,
        lasts: bool = False,
    ) -> None:
        self._rope.angles(0, state.kv.max_tokens)
        self._graphs.serve((*state.addresses, self._rope.address))
        self._graphs.run(key, launch, "a call of the MTP head", lasts=lasts)

    def _load(self, rows: torch.Tensor, ids: Sequence[int], num_appended: int, start: int) -> None:
        """Bring rows, their tokens and the place of each step to where launches read them."""
        first, end = MAX_ROWS - num_appended, MAX_ROWS - num_appended + len(ids)
        self._rows[first:end] = rows
        before, behind = (0,) * first, (0,) * (MAX_ROWS + 1 - end)
        chain = start + num_appended
        self._table.load((*before, *ids, *behind, start, *range(chain, chain + MAX_STEPS)))

    def _append(self, num_rows: int, state: DraftState) -> None:
        launch = partial(self._fill, num_rows, state)
        self._run(state, ("fill", num_rows), launch, lasts=True)
        state.length += num_rows

    def _fill(self, num_rows: int, state: DraftState) -> None:
        """Write keys and values of rows; nothing else of them is needed."""
        rows = slice(MAX_ROWS - num_rows, MAX_ROWS)
        normed = self._normed(self._input(self._rows[rows], self._ids[rows]))
        no_heads = normed.new_empty((num_rows, 0))
        self._prepare(normed, no_heads, self._fill_start, state)

    def _propose(self, num_tokens: int, max_context: int, state: DraftState) -> None:
        """Chain proposals, each from the row and the token that the one before left."""
        row, token = self._rows[MAX_ROWS:], self._ids[MAX_ROWS:]
        for step in range(num_tokens):
            start = self._starts[step : step + 1]
            row = self._step(row, token, start, max_context, state)
            token = self._proposed[step : step + 1]
            logits = logits_of(row, self._head)
            argmax_rows(
                logits, self._config.vocab_size, ids=token, scratch=self._scratch,
                id_map=self._id_map,
            )  # fmt: skip

    def _step(
        self,
        row: torch.Tensor,
        token: torch.Tensor,
        start: torch.Tensor,
        max_context: int,
        state: DraftState,
    ) -> torch.Tensor:
        """Run one row: bf16 [1, D] after the head's own norm."""
        weights, eps, width = self._weights, self._config.rms_norm_eps, self._config.head_dim
        x = self._input(row, token)
        normed = self._normed(x)
        both = product(normed, weights.attention.q)
        query = self._prepare(normed, both, start, state)
        gate = both.view(1, -1, 2 * width)[..., width:]
        mixed = attention_verify(
            query, state.kv.keys[0], state.kv.values[0], gate, start, self._chain.depths,
            self._chain.paths, max_context=max_context, overlap=self._overlap,
        )  # fmt: skip
        mixed = product(mixed, weights.attention.o)
        normed, x = add_rms_norm(mixed, x, weights.post_norm, eps, overlap=self._overlap)
        fed = feed_forward(normed, weights.mlp, overlap=self._overlap)
        return add_rms_norm(fed, x, weights.norm, eps, overlap=self._overlap)[0]

    def _input(self, rows: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Join as fc over [normed embedding | normed hidden state]: bf16 [T, D]."""
        weights, eps, size = self._weights, self._config.rms_norm_eps, rows.shape[1]
        joined = rows.new_empty((rows.shape[0], 2 * size))
        embedded = torch.empty_like(rows)
        embed(ids, self._embedding, out=embedded)
        for x, weight, out in (
            (embedded, weights.embedding_norm, joined[:, :size]),
            (rows, weights.hidden_norm, joined[:, size:]),
        ):
            rms_norm(x, weight, eps, overlap=self._overlap, out=out)
        return product(joined, weights.fc)

    def _normed(self, x: torch.Tensor) -> torch.Tensor:
        eps = self._config.rms_norm_eps
        return rms_norm(x, self._weights.input_norm, eps, overlap=self._overlap)

    def _prepare(
        self, normed: torch.Tensor, both: torch.Tensor, start: torch.Tensor, state: DraftState
    ) -> torch.Tensor:
        """Store keys and values of rows, and turn the queries that ``both`` holds."""
        weights, config = self._weights.attention, self._config
        key, value = products(normed, weights.k, weights.v)
        num_heads = both.shape[1] // (2 * config.head_dim)
        query = both.new_empty((both.shape[0], num_heads, config.head_dim))
        attention_prep(
            both, key, value, weights.q_norm, weights.k_norm,
            *self._rope.angles(0, state.kv.max_tokens), start, None,
            state.kv.keys[0], state.kv.values[0], out=query, eps=config.rms_norm_eps,
            overlap=self._overlap,
        )  # fmt: skip
        return query
