"""The DFlash2 drafter of one model: what it keeps of a conversation, and a block of proposals.

The context is the target's own hidden states behind some layers, one row a committed token: they
are joined once, and every layer makes its keys and values of them. A block is the newest committed
token and masks behind it, at the positions after the context; all of its rows see each other, and
row j proposes the token of its own position. What is proposed changes speed only, never text.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch

from engine.dflash.config import DflashConfig
from engine.dflash.layer import BEFORE, BEHIND, BlockConv, BlockWindow, attend_block
from engine.dflash.weights import BlockLayerWeights, DflashWeights
from engine.model.draft_head import DraftHead
from engine.model.draft_state import DraftState
from engine.model.graphs import GraphCache
from engine.model.matrix import bytes_of, logits_of, product, products
from engine.model.mlp import feed_forward
from engine.model.norms import add_rms_norm, rms_norm
from engine.model.rope import RopeTable
from engine.model.state import KeyValueStore
from kernels.attention.prep import attention_prep
from kernels.common.round import MAX_ROWS
from kernels.common.staged import StagedTable
from kernels.embed.op import embed
from kernels.head.scratch import HeadScratch
from kernels.head.top import topk_rows

SMALLEST_WINDOW = 256
"""Positions of the context that the launches of the shortest conversations look at."""


def window_classes(config: DflashConfig) -> tuple[int, ...]:
    """Positions of the context that launches look at: powers of two, up to the window."""
    most = max(SMALLEST_WINDOW, 1 << max(config.window - 1, 1).bit_length())
    return tuple(1 << bit for bit in range(SMALLEST_WINDOW.bit_length() - 1, most.bit_length()))


@dataclass(frozen=True, slots=True)
class Lattice:
    """Candidates of each place of a block, and how well they follow each other.

    Attributes:
        ids: ``places`` rows of k candidates; -1 where a row has no such.
        scores: [places][k of the place before][k]; of the first place all rows are alike, since
            one token alone, the newest committed one, stands before it.
    """

    ids: list[list[int]]
    scores: list[list[list[float]]]


class Dflash:
    """The drafter of one model; shares embedding and output head with it.

    Args:
        config: its numbers.
        weights: BF16, or packed.
        embedding: bf16 [V, D], the target's.
        head: what proposals are chosen with.
        graphs: of its launches.

    Attributes:
        config: its numbers.
        weights: as they are held.
    """

    def __init__(
        self,
        config: DflashConfig,
        weights: DflashWeights,
        embedding: torch.Tensor,
        head: DraftHead,
        graphs: GraphCache,
    ) -> None:
        self.config = config
        self.weights = weights
        self._embedding = embedding
        self._head = head
        self._graphs = graphs
        self._device = device = embedding.device
        self._rope = RopeTable(config, device)
        self._windows = {near: BlockWindow(config, near, device) for near in window_classes(config)}
        places, top = config.num_proposals, config.top_k
        self._rows = torch.empty(
            (MAX_ROWS, config.context_width), dtype=torch.bfloat16, device=device
        )
        self._table = StagedTable(config.block_size + 1, device)
        self._start, self._ids = self._table.values[:1], self._table.values[1:]
        self._scratch = HeadScratch(places, config.vocab_size, device)
        self._top_values = torch.empty((places, top), device=device)
        self._top_ids = torch.zeros((places, top), dtype=torch.int32, device=device)
        # ids, then the bits of scores: one copy brings both to the host
        self._found = torch.zeros((places, top + 1, top), dtype=torch.int32, device=device)

    @property
    def weight_bytes(self) -> int:
        """Bytes of its own weights as they are held."""
        return self.weights.num_bytes

    def moved_bytes(self, context_tokens: int) -> int:
        """Bytes that a block's kernels must move with so many positions held: weights, head, keys.

        The codebooks are read by row and not counted.
        """
        books = self.weights.predecessors.nbytes + self.weights.successors.nbytes
        head = bytes_of([self._head.matrix])
        near = min(context_tokens, self.config.window)
        return self.weights.num_bytes - books + head + near * self.config.kv_bytes_per_token

    def new_state(self, max_tokens: int) -> DraftState:
        """An empty state for conversations of up to ``max_tokens``, its angles ready."""
        # a block's own keys stand behind the context's, until the next rows take their place
        num_slots = max_tokens + self.config.block_size
        state = DraftState(
            KeyValueStore(self.config.num_layers, self.config, num_slots, self._device)
        )
        self._rope.angles(0, state.kv.max_tokens)
        return state

    @torch.inference_mode()
    def fill(self, tapped: torch.Tensor, state: DraftState) -> None:
        """Append committed positions.

        Args:
            tapped: bf16 [T, layers * D], the target's rows (`engine.model.taps`) of the positions
                from ``state.length`` on.
            state: appended to.
        """
        state.kv.expect_room(state.length + len(tapped) + self.config.block_size)
        for first in range(0, len(tapped), MAX_ROWS):
            piece = tapped[first : first + MAX_ROWS]
            num_rows = len(piece)
            self._rows[:num_rows] = piece
            self._table.load((state.length,))
            self._run(state, ("fill", num_rows), partial(self._fill, num_rows, state))
            state.length += num_rows

    @torch.inference_mode()
    def propose(self, token_id: int, state: DraftState) -> Lattice:
        """Propose the tokens after ``token_id``, which stands at position ``state.length``.

        Args:
            token_id: the newest committed token.
            state: holds all positions before it; its length is the same afterwards.
        """
        config = self.config
        state.kv.expect_room(state.length + config.block_size)
        masks = (config.mask_id,) * config.num_proposals
        self._table.load((state.length, token_id, *masks))
        near = next(one for one in self._windows if one >= min(state.length, max(self._windows)))
        self._run(state, ("block", near), partial(self._propose, self._windows[near], state))
        found = self._found.cpu()  # one copy, which waits for the block
        ids, scores = cast("Any", found[:, 0]), cast("Any", found[:, 1:].view(torch.float32))
        return Lattice(ids.tolist(), scores.tolist())

    def _run(
        self, state: DraftState, key: tuple[str | int, ...], launch: Callable[[], None]
    ) -> None:
        self._rope.angles(0, state.kv.max_tokens)
        self._graphs.serve((*state.addresses, self._rope.address))
        self._graphs.run(key, launch, "a call of the DFlash2 drafter")

    def _fill(self, num_rows: int, state: DraftState) -> None:
        """Write keys and values of context rows; they need nothing of the layers before."""
        weights, eps = self.weights, self.config.rms_norm_eps
        joined = product(self._rows[:num_rows], weights.fc)
        context = rms_norm(joined, weights.hidden_norm, eps)
        for index, layer in enumerate(weights.layers):
            key, value = products(context, layer.k, layer.v)
            self._store(index, layer, key, value, state)

    def _propose(self, window: BlockWindow, state: DraftState) -> None:
        """Run a block, and leave its candidates with their scores in ``_found``."""
        weights, eps = self.weights, self.config.rms_norm_eps
        size = (self.config.block_size, self.config.hidden_size)
        stream = torch.empty(size, dtype=torch.bfloat16, device=self._device)
        embed(self._ids, self._embedding, out=stream)
        slots, hidden = window.at(self._start)
        layers = weights.layers
        following = [layer.input_norm for layer in layers[1:]] + [weights.norm]
        normed = rms_norm(stream, layers[0].input_norm, eps)
        for index, (layer, next_norm) in enumerate(zip(layers, following, strict=True)):
            conv = BlockConv(normed, layer.attention_conv, self.config)
            mixed = self._attend(index, layer, conv.apply(BEFORE, normed), slots, hidden, state)
            normed, stream = add_rms_norm(conv.apply(BEHIND, mixed), stream, layer.post_norm, eps)
            conv = BlockConv(normed, layer.mlp_conv, self.config)
            fed = feed_forward(conv.apply(BEFORE, normed), layer.mlp)
            normed, stream = add_rms_norm(conv.apply(BEHIND, fed), stream, next_norm, eps)
        self._select(normed[1:])

    def _attend(
        self,
        index: int,
        layer: BlockLayerWeights,
        x: torch.Tensor,
        slots: torch.Tensor,
        hidden: torch.Tensor,
        state: DraftState,
    ) -> torch.Tensor:
        query = product(x, layer.q)
        key, value = products(x, layer.k, layer.v)
        query = self._store(index, layer, key, value, state, query)
        keys, values = state.kv.keys[index], state.kv.values[index]
        return product(attend_block(query, keys, values, slots, hidden), layer.o)

    def _store(
        self,
        index: int,
        layer: BlockLayerWeights,
        key: torch.Tensor,
        value: torch.Tensor,
        state: DraftState,
        query: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Store keys and values of rows from the start on; give the queries normed and rotated."""
        width, num_rows = self.config.head_dim, len(key)
        num_heads = 0 if query is None else self.config.num_heads
        # the preparation reads a gate behind each head's query, and leaves it alone
        both = key.new_empty((num_rows, num_heads, 2, width))
        if query is not None:
            both[:, :, 0] = query.view(num_rows, num_heads, width)
        out = key.new_empty((num_rows, num_heads, width))
        attention_prep(
            both.view(num_rows, num_heads * 2 * width), key, value, layer.q_norm, layer.k_norm,
            *self._rope.angles(0, state.kv.max_tokens), self._start, None,
            state.kv.keys[index], state.kv.values[index], out=out, eps=self.config.rms_norm_eps,
        )  # fmt: skip
        return out

    def _select(self, hidden: torch.Tensor) -> None:
        """Find the best candidates of each place and score them behind those of the one before.

        Args:
            hidden: bf16 [places, D] after the drafter's norm.
        """
        weights, top = self.weights, self.config.top_k
        logits = logits_of(hidden, self._head.matrix)
        topk_rows(
            logits, logits.shape[1], values=self._top_values, ids=self._top_ids,
            scratch=self._scratch,
        )  # fmt: skip
        ids = self._top_ids.long()
        if self._head.id_map is not None:
            known = self._head.id_map.long()[ids.clamp(min=0)]
            ids = torch.where(ids < 0, ids, known)
        last = self._ids[:1].long().expand(1, top)
        before = torch.cat((last, ids[:-1])).clamp(min=0)
        projected = product(hidden, weights.projection).float()
        asked = weights.predecessors[before].float() * projected[:, None]
        follow = torch.bmm(asked, weights.successors[ids.clamp(min=0)].float().transpose(1, 2))
        scores = self._top_values[:, None] + follow
        self._found[:, 0] = ids
        self._found[:, 1:] = scores.masked_fill((ids < 0)[:, None], -math.inf).view(torch.int32)
