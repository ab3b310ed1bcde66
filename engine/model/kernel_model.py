"""A model whose layers run by the kernels, over packed weights."""

from collections.abc import Sequence
from functools import partial

import torch

from engine.graph_classes import context_class
from engine.model.chunk import CHUNK_TOKENS_ON_KERNELS, ChunkInputs, num_rows_for, run_chunk
from engine.model.config import ModelConfig
from engine.model.decoder import Model
from engine.model.draft_head import DraftHead, trim_head
from engine.model.generation import Generation
from engine.model.graphs import GraphCache
from engine.model.kernel_mtp import KernelMtp
from engine.model.packing import Launching
from engine.model.round_state import RoundState
from engine.model.rows import RowsShape, run_rows
from engine.model.state import State
from engine.model.weights import ModelWeights
from kernels.common.round import MAX_ROWS
from kernels.common.tree import plan_chain


class KernelModel(Model):
    """Decodes rounds of 1 to 32 rows and reads prompts in captured chunks; see ``Model``.

    Args:
        config: the model's numbers.
        weights: packed for ``launching``.
        generation: stop ids and sampling defaults.
        launching: the GPU and its switches.

    Attributes:
        draft_head: what proposals are chosen with; the whole head of a checkpoint without drafter.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: ModelWeights,
        generation: Generation,
        launching: Launching,
    ) -> None:
        super().__init__(config, weights, generation)
        self.launching = launching
        self.chunk_tokens = CHUNK_TOKENS_ON_KERNELS
        self._notices: list[str] = []
        self._captured: list[tuple[str, float]] = []
        self._chunk = ChunkInputs(self.device)
        self._chunk_hidden = torch.empty(
            (self.chunk_tokens, config.hidden_size), dtype=torch.bfloat16, device=self.device
        )
        self._chunk_graphs = self.new_graphs()
        self.draft_head = DraftHead(weights.head)
        if weights.mtp is None:
            return
        self.draft_head = head = trim_head(weights.head)
        if head.num_bytes:
            weights.part_bytes["draft_head"] = head.num_bytes
        self.mtp = KernelMtp(
            config, weights.mtp, weights.embedding, head, self._rope, self.new_graphs(),
            overlap=launching.overlap,
        )  # fmt: skip

    def new_state(self, max_tokens: int) -> RoundState:
        """An empty state for a conversation of up to ``max_tokens``, its angles ready."""
        self._rope.angles(0, max_tokens)
        return RoundState(self.config, max_tokens, self.device, self.kv_scales)

    def new_graphs(self) -> GraphCache:
        """Graphs of launches over this model; what they refuse stands in `take_notice`."""
        captures = self.launching.graphs and self.device.type == "cuda"
        return GraphCache(
            captures=captures,
            refused=self._notices.append,
            captured=lambda what, ms: self._captured.append((what, ms)),
        )

    def take_notice(self) -> str:
        """What a person should know since the last call; mostly empty."""
        notice = " ".join(self._notices)
        self._notices.clear()
        return notice

    def take_captured(self) -> str:
        """What was captured since the last call; see ``Model.take_captured``."""
        captured, self._captured = self._captured, []
        if not captured:
            return ""
        names = ", ".join(dict.fromkeys(what for what, _ in captured))
        return (
            f"{len(captured)} shapes of launches came for the first time and were captured as "
            f"graphs, {sum(ms for _, ms in captured):.0f} ms: {names}."
        )

    def addresses(self, state: RoundState) -> tuple[int, ...]:
        """What captured rounds hold."""
        self._rope.angles(0, state.kv.max_tokens)
        return *state.addresses, self._rope.address

    @torch.inference_mode()
    def run_rows(self, state: RoundState, shape: RowsShape, hidden: torch.Tensor) -> None:
        """Run the rows that ``state.begin`` brought; see ``engine.model.rows.run_rows``."""
        tables = self._rope.angles(0, state.kv.max_tokens)
        run_rows(self.config, self.weights, tables, state, shape, hidden, self.taps)

    @torch.inference_mode()
    def decode(self, ids: Sequence[int], state: State) -> torch.Tensor:
        """Decode tokens that are known, in rounds of up to 32 rows; see ``Model.decode``."""
        assert isinstance(state, RoundState)
        self._expect_ids(ids)
        state.kv.expect_room(state.length + len(ids))
        hidden = torch.empty(
            (len(ids), self.config.hidden_size), dtype=torch.bfloat16, device=self.device
        )
        for first in range(0, len(ids), MAX_ROWS):
            rows = ids[first : first + MAX_ROWS]
            self._round(rows, state, hidden[first : first + len(rows)])
        return hidden

    def _forward(self, ids: Sequence[int], state: State, *, decode: bool) -> torch.Tensor:
        assert isinstance(state, RoundState)
        if decode:
            hidden = torch.empty(
                (1, self.config.hidden_size), dtype=torch.bfloat16, device=self.device
            )
            self._round(ids, state, hidden)
            return hidden
        return self._read_chunk(ids, state)

    def _read_chunk(self, ids: Sequence[int], state: RoundState) -> torch.Tensor:
        num_rows = num_rows_for(len(ids))
        state.settle()
        self._chunk.load(ids, state.length)
        hidden = self._chunk_hidden[:num_rows]
        self._chunk_graphs.serve(self.addresses(state))
        tables = self._rope.angles(0, state.kv.max_tokens)
        launch = partial(
            run_chunk, self.config, self.weights, tables, state, self._chunk, hidden, self.taps
        )
        key = (num_rows, self.taps is not None)
        self._chunk_graphs.run(key, launch, f"a chunk of {num_rows} rows of a prompt")
        if self.taps is not None:
            self.taps.keep(state.length, self.taps.copy(len(ids)))
        state.length += len(ids)
        return hidden[: len(ids)].clone()

    def _round(self, ids: Sequence[int], state: RoundState, hidden: torch.Tensor) -> None:
        """A round whose rows are a chain and all accepted, launched kernel by kernel."""
        state.begin(ids, plan_chain(len(ids)))
        self.run_rows(state, RowsShape(len(ids), context_class(state.length + len(ids))), hidden)
        if self.taps is not None:
            self.taps.keep(state.length, self.taps.copy(len(ids)))
        state.accept(range(len(ids)))
