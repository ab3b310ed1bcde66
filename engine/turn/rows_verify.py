"""Verify all rows of a round at once on a GPU."""

from collections.abc import Sequence

import torch

from engine.draft.draft import Draft
from engine.model.graphs import GraphCache
from engine.model.kernel_model import KernelModel
from engine.model.round_state import RoundState
from engine.model.rows import RowsShape, context_class
from engine.model.state import State
from engine.turn.choice import TokenChooser
from engine.turn.clock import PhaseClock
from engine.turn.device_choice import DeviceChoice
from engine.turn.verify import Commit, Verified, follow
from kernels.common.tree import MAX_NODES
from kernels.sample.params import Method


class RowsVerifier:
    """Computes a round's rows together; every row has the bits of the path to it alone.

    Args:
        model: whose layers run by kernels, launched as its ``launching`` says.
    """

    def __init__(self, model: KernelModel) -> None:
        self._model = model
        self._launching = model.launching
        replays = model.launching.graphs and model.device.type == "cuda"
        self._graphs = GraphCache() if replays else None
        self._notice = ""
        config, device = model.config, model.device
        self._hidden = torch.empty(
            (MAX_NODES, config.hidden_size), dtype=torch.bfloat16, device=device
        )
        self._logits = torch.empty((MAX_NODES, config.vocab_size), device=device)
        self._chosen = torch.empty(MAX_NODES, dtype=torch.int32, device=device)
        self._choice = DeviceChoice(config.vocab_size, device)

    @torch.inference_mode()
    def verify(
        self,
        token_id: int,
        draft: Draft,
        state: State,
        chooser: TokenChooser,
        commit: Commit,
        clock: PhaseClock,
    ) -> Verified:
        """Verify a draft; see ``engine.turn.verify.Verifier``."""
        assert isinstance(state, RoundState)
        clock.enter("verify")
        row_ids = (token_id, *draft.token_ids)
        self._run(row_ids, draft, state, self._choice.follow(chooser))
        chosen = [int(one) for one in self._chosen[: len(row_ids)].cpu()]
        clock.enter("accept")

        def choose(row: int) -> tuple[int, torch.Tensor]:
            if chosen[row] < 0:
                position = state.length + draft.plan.depths[row] + 1
                raise ValueError(f"the logits of position {position} have no finite maximum")
            return chosen[row], self._logits[row]

        went = follow(draft, choose, commit)
        state.accept(went.rows)
        read_ids = [row_ids[row] for row in went.rows]
        hidden = self._rows(went.rows)
        notice, self._notice = self._notice, ""
        return Verified(read_ids, hidden, went.chosen, went.tested, went.accepted, notice)

    def _run(self, row_ids: Sequence[int], draft: Draft, state: RoundState, method: Method) -> None:
        """Leave hidden rows, logits and chosen ids of a round in their tensors."""
        num_rows = len(row_ids)
        end = state.length + num_rows
        state.kv.reserve(end, state.length)
        shape = RowsShape(num_rows, context_class(end), self._launching.overlap)
        if not self._launching.commit_in_verify:
            state.settle()
        if self._graphs is None:
            state.begin(row_ids, draft.plan)
            self._launch(state, shape, method)
            return
        self._graphs.serve(self._model.addresses(state))
        key = (shape, method)
        if key in self._graphs:
            state.begin(row_ids, draft.plan)
            self._graphs.replay(key)
            return
        # a shape's first round runs launch by launch, which compiles what is new, with nothing
        # pending: its capture then stands for any round
        state.settle()
        state.begin(row_ids, draft.plan)
        self._launch(state, shape, method)
        try:
            self._graphs.capture(key, lambda: self._launch(state, shape, method))
        except RuntimeError as problem:
            self._go_without_graphs(num_rows, problem)

    def _go_without_graphs(self, num_rows: int, problem: RuntimeError) -> None:
        """Launch kernel by kernel from here on; the round itself has its result already."""
        self._graphs = None
        reason = (str(problem).splitlines() or ["no reason given"])[0]
        self._notice = (
            f"The GPU refused to capture a round of {num_rows} rows as a graph ({reason}): rounds "
            "run kernel by kernel from here, which is slower and changes no bit."
        )

    def _launch(self, state: RoundState, shape: RowsShape, method: Method) -> None:
        num_rows = shape.num_rows
        hidden, logits = self._hidden[:num_rows], self._logits[:num_rows]
        self._model.run_rows(state, shape, hidden)
        self._model.logits(hidden, out=logits)
        self._choice.launch(logits, state.inputs, method, self._chosen[:num_rows])

    def _rows(self, rows: list[int]) -> torch.Tensor:
        """Hidden rows that outlive the next round: bf16 [n, D]."""
        if rows == list(range(len(rows))):
            return self._hidden[: len(rows)].clone()
        return self._hidden[torch.tensor(rows, device=self._hidden.device)]
