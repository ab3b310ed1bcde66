"""Verify all rows of a round at once on a GPU, and the next round behind it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle

import torch

from engine.draft.draft import Draft
from engine.graph_classes import context_class
from engine.model.kernel_model import KernelModel
from engine.model.round_state import RoundState
from engine.model.rows import RowsShape
from engine.turn.clock import PhaseClock, clock_for
from engine.turn.device_choice import DeviceChoice, Way
from engine.turn.rows_round import PathRows, RowsRound
from engine.turn.verify import Course, Launched
from kernels.common.round import MAX_ROWS
from kernels.common.staged import FetchedTable
from kernels.sample.accept import COMMITTED, MAX_STOP_IDS, PATH, RESULT_SIZE, accept
from kernels.sample.accept_reference import GOES_ON
from kernels.sample.params import Method

PLAIN = Draft.chain(())


@dataclass(frozen=True, slots=True)
class ReadyRound:
    """A round whose numbers wait for the one before it.

    Attributes:
        before: on its way.
        token_ids: that it must commit.
        path: the rows that lead to them.
        draft: what the round verifies.
        room: tokens that the turn may commit before it.
        shape: of its launches.
    """

    before: RowsRound
    token_ids: list[int]
    path: list[int]
    draft: Draft
    room: int
    shape: RowsShape


class RowsVerifier:
    """Computes a round's rows together; every row has the bits of the path to it alone.

    Choosing tokens and walking along the draft belong to the launches of a round, which leave the
    numbers of a plain next round where that reads them. So a plain round can follow another one
    without the host in between. Whatever else a round needs of the device, and whatever the host
    can do without knowing what comes of it, is asked for behind its launches: between what came of
    a round and the launch of the next stand one copy and one graph.

    Args:
        model: whose layers run by kernels, launched as its ``launching`` says.
    """

    def __init__(self, model: KernelModel) -> None:
        self._model = model
        self._launching = model.launching
        self._graphs = model.new_graphs()
        config, device = model.config, model.device
        self._hidden = torch.empty(
            (MAX_ROWS, config.hidden_size), dtype=torch.bfloat16, device=device
        )
        self._logits = torch.empty((MAX_ROWS, config.vocab_size), device=device)
        self._chosen = torch.empty(MAX_ROWS, dtype=torch.int32, device=device)
        self._result = torch.zeros(RESULT_SIZE, dtype=torch.int32, device=device)
        # one is read while the round behind writes the other
        self._pages = cycle([FetchedTable(RESULT_SIZE, device), FetchedTable(RESULT_SIZE, device)])
        self._choice = DeviceChoice(config.vocab_size, device)
        self._way = Way(Method("greedy"))
        self._course: Course | None = None

    def prepare(self, course: Course, num_rows: int, max_context: int) -> None:
        """Run a round once, and keep its graph; see ``engine.turn.verify.Verifier``."""
        shape = self._shape(num_rows, num_rows)._replace(max_context=max_context)
        draft, clock = Draft.chain((0,) * (num_rows - 1)), clock_for(self._model.device)
        launched = self._launch_as(shape, course, 0, draft, num_rows, clock, lasts=True)
        launched.wait(lambda _token_id: False)

    def launch(
        self, course: Course, token_id: int, draft: Draft, room: int, clock: PhaseClock
    ) -> RowsRound:
        """Launch a round; see ``engine.turn.verify.Verifier``."""
        num_rows = draft.plan.num_nodes
        shape = self._shape(num_rows, course.state.length + num_rows)
        return self._launch_as(shape, course, token_id, draft, room, clock)

    def _launch_as(
        self,
        shape: RowsShape,
        course: Course,
        token_id: int,
        draft: Draft,
        room: int,
        clock: PhaseClock,
        *,
        lasts: bool = False,
    ) -> RowsRound:
        state = course.state
        assert isinstance(state, RoundState)
        state.kv.expect_room(state.length + shape.num_rows)
        self._way = way = self._choice.follow(course)
        if course is not self._course:  # nothing of a state moves within a turn
            self._course = course
            self._graphs.serve(self._model.addresses(state))
        if self._must_settle(shape, way):
            state.settle()
        state.begin((token_id, *draft.token_ids), draft.plan, room)
        launched = RowsRound(course, draft, room, clock, self._model.taps)
        return self._run(launched, state, shape, way, lasts=lasts)

    def launch_behind(self, before: Launched) -> RowsRound | None:
        """Launch a round of one row behind a plain one; see ``engine.turn.verify.Verifier``.

        A plain round's row is taken in whatever it chooses, so nothing but that token is unknown.
        """
        assert isinstance(before, RowsRound)
        course, state = before.course, before.course.state
        assert isinstance(state, RoundState)
        is_plain = before.draft.plan.num_nodes == 1
        is_open = before.room > 1 and course.chooser.forced is None
        shape = self._shape(1, state.length + 2)
        if not is_plain or not is_open or self._must_settle(shape, self._way):
            return None
        before.take_in([0])
        self._choice.mark(self._result, self._way)
        clock = before.clock.next(is_ahead=True)
        behind = RowsRound(course, PLAIN, before.room - 1, clock, self._model.taps)
        return self._run(behind, state, shape, self._way)

    def get_ready(
        self, before: Launched, token_ids: Sequence[int], draft: Draft
    ) -> "ReadyRound | None":
        """Write all numbers of a round to come; see ``engine.turn.verify.Verifier``."""
        assert isinstance(before, RowsRound)
        course, state = before.course, before.course.state
        assert isinstance(state, RoundState)
        path, room = before.draft.path_of(token_ids), before.room - len(token_ids)
        length = state.length + len(token_ids)
        num_rows = draft.plan.num_nodes
        shape = self._shape(num_rows, length + num_rows)
        may_go = path and room >= num_rows and length + num_rows <= state.max_tokens
        may_go = may_go and not before.is_taken_in and not course.chooser.may_force
        # it folds all that the round before accepts, of which the host then may want less
        may_go = may_go and (len(token_ids) == 1 or not _host_may_end(course))
        if not may_go or self._must_settle(shape, self._way):
            return None
        row_ids = (token_ids[-1], *draft.token_ids)
        state.inputs.write(row_ids, draft.plan, length, 1 - state.parity, path, room)
        return ReadyRound(before, list(token_ids), path, draft, room, shape)

    def launch_ready(self, ready: "ReadyRound") -> RowsRound | None:
        """Launch it if the round before went as foreseen; see ``engine.turn.verify.Verifier``."""
        before = ready.before
        result = before.result()
        num_chosen, _, _, finish = result[:4]
        committed, path = (result[part][:num_chosen] for part in (COMMITTED, PATH))
        if finish != GOES_ON or committed != ready.token_ids or path != ready.path:
            return None
        course, state = before.course, before.course.state
        assert isinstance(state, RoundState)
        state.inputs.send()
        self._choice.mark(self._result, self._way)
        before.end()
        clock = before.clock.next()
        launched = RowsRound(course, ready.draft, ready.room, clock, self._model.taps)
        return self._run(launched, state, ready.shape, self._way)

    def _shape(self, num_rows: int, end: int) -> RowsShape:
        is_tapped = self._model.taps is not None
        return RowsShape(num_rows, context_class(end), self._launching.overlap, is_tapped)

    def _must_settle(self, shape: RowsShape, way: Way) -> bool:
        """Whether nothing may be pending: what is captured then stands for any round."""
        return self._graphs.lacks((shape, way)) or not self._launching.commit_in_verify

    def _run(
        self,
        launched: RowsRound,
        state: RoundState,
        shape: RowsShape,
        way: Way,
        *,
        lasts: bool = False,
    ) -> RowsRound:
        launched.clock.enter("verify")
        launch = partial(self._launch, state, shape, way)
        launched.was_captured = self._graphs.lacks((shape, way))
        self._graphs.run((shape, way), launch, f"a round of {shape.num_rows} rows", lasts=lasts)
        launched.clock.enter("accept")
        page = next(self._pages)
        page.fetch(self._result)  # first: the host waits for it
        launched.bring(page, self._path_rows(launched, state, shape.num_rows))
        launched.notice = self._model.take_notice()
        return launched

    @torch.inference_mode()
    def _path_rows(self, launched: RowsRound, state: RoundState, num_rows: int) -> PathRows:
        """Copy the rows that the round on its way accepts, whichever they are; close their gaps."""
        if launched.draft.plan.is_chain:
            copied = partial(_first_rows, num_rows)
        else:
            state.close_gaps()
            copied = partial(torch.index_select, dim=0, index=state.inputs.pending_rows[:num_rows])
        taps = self._model.taps
        return PathRows(
            copied(self._hidden),
            copied(self._logits) if launched.course.keeps_logits else None,
            copied(taps.buffer) if taps is not None else None,
        )

    @torch.inference_mode()
    def _launch(self, state: RoundState, shape: RowsShape, way: Way) -> None:
        """Leave hidden rows, logits and what comes of the round in their tensors."""
        num_rows, inputs = shape.num_rows, state.inputs
        hidden, logits = self._hidden[:num_rows], self._logits[:num_rows]
        chosen = self._chosen[:num_rows]
        self._model.run_rows(state, shape, hidden)
        self._model.logits(hidden, out=logits)
        self._choice.launch(logits, inputs, way, chosen)
        accept(chosen, inputs.tree.parents, inputs.ends(self._choice.stops, self._result))


def _host_may_end(course: Course) -> bool:
    """Whether the turn may end inside a round that goes on for all that the device knows."""
    return course.ends_by_text or len(course.stop_ids) > MAX_STOP_IDS


def _first_rows(num_rows: int, rows: torch.Tensor) -> torch.Tensor:
    return rows[:num_rows].clone()
