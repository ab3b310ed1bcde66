"""The MTP head by the kernels: a chain of proposals is one captured graph."""

from collections.abc import Callable, Sequence
from functools import partial

import torch

from engine.graph_classes import context_class
from engine.model.config import ModelConfig
from engine.model.draft_head import DraftHead
from engine.model.draft_state import DraftState
from engine.model.graphs import GraphCache
from engine.model.matrix import logits_of, operands_for, product, products
from engine.model.mlp import feed_forward
from engine.model.mtp import Mtp, expect_as_many
from engine.model.norms import add_rms_norm, rms_norm
from engine.model.placed_rows import PlacedRows
from engine.model.rope import RopeTable
from engine.model.weights import MtpWeights
from kernels.attention.prep import attention_prep
from kernels.attention.verify import attention_verify
from kernels.common.operands import Operands
from kernels.common.round import MAX_ROWS
from kernels.common.staged import FetchedTable, StagedTable
from kernels.common.tree import StagedTree
from kernels.embed.op import embed
from kernels.head.op import argmax_rows
from kernels.head.scratch import HeadScratch

MAX_STEPS = MAX_ROWS - 1
"""Proposals of one chain."""

READ_ROWS = 7
"""Committed rows that the launches of a chain read beside the one it begins with: together they are
the rows of one matrix instruction, so that fewer take as long. A chain of 6 that was right in all
leaves no more."""


class KernelMtp(Mtp):
    """The MTP head of a model whose layers run by kernels; see ``Mtp``.

    Rows and their tokens are copied to fixed places, so that a captured graph serves every call of
    a size. A graph copies the tokens by itself, and the ids that it proposes: between what came of
    a round and its launch the host writes a page of numbers. The rows come while a round is on its
    way (`expect`), or with the call.

    A chain appends up to `READ_ROWS` beside its first step, where they cost no reading of weights.
    Where they are fewer, others stand behind them, which mean nothing: their keys go to slots that
    no row holds, and the chain's own take their place before anything reads them.

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
        # the row that a chain begins with; then those to append, and that row behind them
        self._rows = torch.zeros(
            (1 + MAX_ROWS, config.hidden_size), dtype=torch.bfloat16, device=device
        )
        self._placed = PlacedRows(self._rows[1:])
        # the first row's position, which row a chain begins with, where each of its steps stands,
        # and the rows' tokens in their order
        self._table = StagedTable(2 + MAX_STEPS + 1 + MAX_ROWS, device)
        self._fill_start, self._last = self._table.values[:1], self._table.values[1:2]
        self._starts = self._table.values[2 : 2 + MAX_STEPS]
        self._ids = self._table.values[2 + MAX_STEPS :]
        self._proposed = torch.zeros(MAX_STEPS, dtype=torch.int32, device=device)
        self._fetched = FetchedTable(MAX_STEPS, device)
        self._scratch = HeadScratch(1, config.vocab_size, device)
        self._chain = StagedTree(device)

    @torch.inference_mode()
    def fill(self, hidden: torch.Tensor, next_ids: Sequence[int], state: DraftState) -> None:
        """Append committed rows; see ``Mtp.fill``."""
        expect_as_many(hidden.shape[0], next_ids)
        state.kv.expect_room(state.length + len(next_ids))
        for first in range(0, len(next_ids), MAX_ROWS):
            ids = next_ids[first : first + MAX_ROWS]
            self._placed.put((hidden[first : first + len(ids)],))
            self._write((0, *ids), state.length)
            self._run(state, ("fill", len(ids)), partial(self._fill, len(ids), state), lasts=True)
            state.length += len(ids)
        self._placed.forget()  # they may be a part of many

    @torch.inference_mode()
    def expect(self, rows: Sequence[torch.Tensor]) -> None:
        """Bring rows to where a chain finds them; see ``Mtp.expect``."""
        *before, last = rows
        room = 1 + READ_ROWS - sum([one.shape[0] for one in before])
        if room > 0:
            self._placed.put((*before, last[:room]))

    @torch.inference_mode()
    def draft(
        self,
        rows: Sequence[torch.Tensor],
        next_ids: Sequence[int],
        state: DraftState,
        num_tokens: int,
    ) -> list[int]:
        """Append rows and propose what follows; see ``Mtp.draft``.

        All is brought to the device before anything is launched: it waits for the host once.
        """
        expect_as_many(sum([one.shape[0] for one in rows]), next_ids)
        *following, token_id = next_ids
        state.kv.expect_room(state.length + len(following) + num_tokens)
        more = len(following) - READ_ROWS
        if more > 0:
            hidden = torch.cat(tuple(rows))
            self.fill(hidden[:more], following[:more], state)
            rows, following = (hidden[more:].clone(),), following[more:]
        if not self._placed.begins_with(rows):
            self._placed.put(rows)
        self._write((token_id, *following), state.length)
        shape = (num_tokens, context_class(state.length + len(following) + num_tokens))
        self._run(state, ("draft", *shape), partial(self._propose, *shape, state))
        self._fetched.mark()
        state.length += len(following)
        return self._fetched.wait()[:num_tokens]

    @torch.inference_mode()
    def prepare(
        self, hidden: torch.Tensor, state: DraftState, num_tokens: int, max_context: int
    ) -> None:
        """Propose once for a shape, and keep its graph; see ``Mtp.prepare``."""
        state.kv.expect_room(state.length + num_tokens)
        self._placed.put((hidden,))
        self._write((0,), state.length)
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
        self._rope.reserve(state.kv.max_tokens)
        self._graphs.serve((*state.addresses, self._rope.address))
        self._graphs.run(key, launch, "a call of the MTP head", lasts=lasts)
        self._table.mark()

    def _write(self, ids: Sequence[int], start: int) -> None:
        """Write tokens, of a chain's row and of those to append, and the place of each step."""
        chain = start + len(ids) - 1
        self._table.write((start, len(ids), *range(chain, chain + MAX_STEPS), *ids))

    def _fill(self, num_rows: int, state: DraftState) -> None:
        """Write keys and values of rows; nothing else of them is needed."""
        self._table.send()
        rows = slice(1, 1 + num_rows)
        normed = self._normed(self._input(self._rows[rows], self._ids[rows]))
        key, value = self._keys(normed)
        self._store(key, value, state)

    def _propose(self, num_tokens: int, max_context: int, state: DraftState) -> None:
        """Chain proposals, each from the row and the token that the one before left."""
        self._table.send()
        embed(self._last, self._rows, out=self._rows[:1])  # it stands behind those to append
        rows, ids = self._rows[: 1 + READ_ROWS], self._ids[: 1 + READ_ROWS]
        for step in range(num_tokens):
            start = self._starts[step : step + 1]
            row = self._step(self._input(rows, ids), start, max_context, state)
            token = self._proposed[step : step + 1]
            logits = logits_of(row, self._head)
            argmax_rows(
                logits, self._config.vocab_size, ids=token, scratch=self._scratch,
                id_map=self._id_map, overlap=self._overlap,
            )  # fmt: skip
            rows, ids = row, token
        self._fetched.copy(self._proposed)

    def _step(
        self, x: torch.Tensor, start: torch.Tensor, max_context: int, state: DraftState
    ) -> torch.Tensor:
        """Run the first row, and append those behind it: bf16 [1, D] after the head's own norm."""
        weights, eps, width = self._weights, self._config.rms_norm_eps, self._config.head_dim
        overlap = self._overlap
        ready = operands_for(weights.attention.q, len(x))
        normed = rms_norm(x, weights.input_norm, eps, overlap=overlap, operands=ready)
        key, value = self._keys(normed, ready)
        if len(x) > 1:
            self._store(key[1:], value[1:], state)
        # behind the rows to append, and a product between: attention reads keys that are older than
        # the kernel before it while that runs
        both = product(normed[:1], weights.attention.q, ready)
        query = both.new_empty((1, self._config.num_heads, width))
        self._prepare(both, key[:1], value[:1], start, state, query)
        gate = both.view(1, -1, 2 * width)[..., width:]
        ready = operands_for(weights.attention.o, 1)
        mixed = attention_verify(
            query, state.kv.keys[0], state.kv.values[0], gate, start, self._chain.depths,
            self._chain.paths, max_context=max_context, overlap=overlap, operands=ready,
        )  # fmt: skip
        mixed = product(mixed, weights.attention.o, ready)
        ready = operands_for(weights.mlp.gate, 1)
        normed, x = add_rms_norm(
            mixed, x[:1], weights.post_norm, eps, overlap=overlap, operands=ready
        )
        fed = feed_forward(normed, weights.mlp, overlap=overlap, operands=ready)
        return add_rms_norm(fed, x, weights.norm, eps, overlap=overlap)[0]

    def _input(self, rows: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Join as fc over [normed embedding | normed hidden state]: bf16 [T, D]."""
        weights, eps, size = self._weights, self._config.rms_norm_eps, rows.shape[1]
        joined = rows.new_empty((rows.shape[0], 2 * size))
        embedded = torch.empty_like(rows)
        embed(ids, self._embedding, out=embedded, overlap=self._overlap)
        for x, weight, out in (
            (embedded, weights.embedding_norm, joined[:, :size]),
            (rows, weights.hidden_norm, joined[:, size:]),
        ):
            rms_norm(x, weight, eps, overlap=self._overlap, out=out)
        return product(joined, weights.fc)

    def _normed(self, x: torch.Tensor) -> torch.Tensor:
        eps = self._config.rms_norm_eps
        return rms_norm(x, self._weights.input_norm, eps, overlap=self._overlap)

    def _keys(
        self, normed: torch.Tensor, operands: Operands | None = None
    ) -> tuple[torch.Tensor, ...]:
        """Keys and values of normed rows before their preparation: bf16 [T, G D] each."""
        weights = self._weights.attention
        return products(normed, weights.k, weights.v, operands=operands)

    def _store(self, key: torch.Tensor, value: torch.Tensor, state: DraftState) -> None:
        """Store keys and values of rows to append, which need no queries."""
        no_heads = key.new_empty((len(key), 0))
        none = key.new_empty((len(key), 0, self._config.head_dim))
        self._prepare(no_heads, key, value, self._fill_start, state, none)

    def _prepare(
        self,
        both: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        start: torch.Tensor,
        state: DraftState,
        query: torch.Tensor,
    ) -> None:
        """Store keys and values of rows, and turn the queries that ``both`` holds."""
        weights, config = self._weights.attention, self._config
        attention_prep(
            both, key, value, weights.q_norm, weights.k_norm,
            *self._rope.angles(0, state.kv.max_tokens), start, None,
            state.kv.keys[0], state.kv.values[0], out=query, eps=config.rms_norm_eps,
            overlap=self._overlap,
        )  # fmt: skip
