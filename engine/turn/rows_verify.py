"""Verify all rows of a round at once on a GPU."""

from collections.abc import Sequence
from functools import partial

import torch

from engine.draft.draft import Draft
from engine.model.kernel_model import KernelModel
from engine.model.round_state import RoundState
from engine.model.rows import RowsShape, context_class
from engine.model.state import State
from engine.turn.choice import TokenChooser
from engine.turn.clock import PhaseClock
from engine.turn.device_choice import DeviceChoice, Way
from engine.turn.verify import Commit, Verified, follow
from kernels.common.tree import MAX_NODES


class RowsVerifier:
    """Computes a round's rows together; every row has the bits of the path to it alone.

    Args:
        model: whose layers run by kernels, launched as its ``launching`` says.
    """

    def __init__(self, model: KernelModel) -> None:
        self._model = model
        self._launching = model.launching
        self._graphs = model.new_graphs()
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
            if chooser.forced is not None:
                return chooser.forced, self._logits[row]
            if chosen[row] < 0:
                position = state.length + draft.plan.depths[row] + 1
                raise ValueError(f"the logits of position {position} have no finite maximum")
            return chosen[row], self._logits[row]

        went = follow(draft, choose, commit)
        rows = self._in_order(went.rows)
        if self._model.taps is not None:
            self._model.taps.keep(state.length, rows)
        state.accept(went.rows)
        read_ids = [row_ids[row] for row in went.rows]
        hidden = self._hidden[rows].clone()  # outlives the next round
        notice = self._model.take_notice()
        return Verified(read_ids, hidden, went.chosen, went.tested, went.accepted, notice)

    def _run(self, row_ids: Sequence[int], draft: Draft, state: RoundState, way: Way) -> None:
        """Leave hidden rows, logits and chosen ids of a round in their tensors."""
        num_rows = len(row_ids)
        end = state.length + num_rows
        state.kv.expect_room(end)
        is_tapped = self._model.taps is not None
        shape = RowsShape(num_rows, context_class(end), self._launching.overlap, is_tapped)
        key = (shape, way)
        self._graphs.serve(self._model.addresses(state))
        # what is captured has nothing pending in its first run, and so stands for any round
        if self._graphs.lacks(key) or not self._launching.commit_in_verify:
            state.settle()
        state.begin(row_ids, draft.plan)
        launch = partial(self._launch, state, shape, way)
        self._graphs.run(key, launch, f"a round of {num_rows} rows")

    def _launch(self, state: RoundState, shape: RowsShape, way: Way) -> None:
        num_rows = shape.num_rows
        hidden, logits = self._hidden[:num_rows], self._logits[:num_rows]
        self._model.run_rows(state, shape, hidden)
        self._model.logits(hidden, out=logits)
        self._choice.launch(logits, state.inputs, way, self._chosen[:num_rows])

    def _in_order(self, rows: list[int]) -> slice | torch.Tensor:
        """Rows as an index; those of a chain need none that must reach the device."""
        if rows == list(range(len(rows))):
            return slice(len(rows))
        return torch.tensor(rows, device=self._hidden.device)
