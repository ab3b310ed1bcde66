"""A turn that breaks anywhere, or is left anywhere, leaves a conversation that can be trusted.

What memory holds afterwards has the bits of plain single steps, or it is not trusted and read anew.
The model is small and real, on the path of a GPU: here by the kernels' references.
"""

import threading
from subprocess import CalledProcessError

import pytest
import torch
from triton.errors import TritonError

from engine.draft.mtp import MtpRows
from engine.errors import MemoryPlanError
from engine.model.kernel_model import KernelModel
from engine.model.round_state import RoundInputs, RoundState
from engine.turn.answer import Answer
from engine.turn.clock import PhaseClock
from engine.turn.device_choice import DeviceChoice
from engine.turn.memory import Memory
from engine.turn.round_log import RoundLog
from engine.turn.rows_round import RowsRound
from engine.turn.rows_verify import RowsVerifier
from engine.types import Request, RoundEnded, Sampling, TextArrived, TurnEnded
from tests.fakes.model import local_engine, run, write_text_files
from tests.fakes.rounds import assert_equal, settled, small_model

PROMPT = tuple(range(40, 60))
# ids that are printable bytes: each is text at once
GREEDY = Sampling(temperature=0.0, logit_bias=tuple((one, 1e3) for one in range(33, 94)))
PLACES = [
    (RowsVerifier, "launch"), (RowsVerifier, "launch_behind"), (RowsRound, "wait"),
    (RowsRound, "take_in"), (RowsRound, "drop"), (RoundState, "accept"), (DeviceChoice, "launch"),
    (KernelModel, "run_rows"), (Memory, "read"), (MtpRows, "draft"), (RoundInputs, "send"),
    (RowsVerifier, "get_ready"), (RowsVerifier, "launch_ready"), (PhaseClock, "ms"),
    (Answer, "keep"), (RoundLog, "add"),
]  # fmt: skip
NAMES = [f"{where.__name__}.{name}" for where, name in PLACES]


@pytest.fixture(scope="module")
def model():
    return small_model("cpu")


@pytest.fixture(scope="module")
def open_engine(model, tmp_path_factory):
    folder, verifier = write_text_files(tmp_path_factory.mktemp("text")), RowsVerifier(model)
    return lambda: local_engine(model, folder, verifier=verifier, max_context_tokens=128)


def requested(**options) -> Request:
    options = {"prompt_ids": PROMPT, "max_tokens": 6, "drafter": "off", **options}
    return Request(sampling=GREEDY, keep_logits=True, **options)


@pytest.fixture(scope="module")
def whole(open_engine):
    return run(open_engine(), requested())[-1].record


class Breaking:
    """Lets a method fail behind its n-th call, when all of it is done."""

    def __init__(self, monkeypatch, place, nth: int, problem: Exception) -> None:
        where, name = place
        method, self.num_calls, self._nth = getattr(where, name), 0, nth

        def breaking(*arguments, **options):
            result = method(*arguments, **options)
            self.num_calls += 1
            if self.num_calls == nth:
                raise problem
            return result

        monkeypatch.setattr(where, name, breaking)

    @property
    def has_failed(self) -> bool:
        return self.num_calls >= self._nth


def assert_trusted_rightly(memory: Memory, model) -> None:
    """What memory holds is what plain single steps leave, unless it is given up."""
    if memory._is_spoilt:
        return
    state = model.new_state(128)
    for one in memory.ranges:
        part = memory.ids[one.start : one.end]
        if one.how == "prefill":
            model.prefill(part, state, chunk_tokens=one.chunk_tokens)
        for token_id in part if one.how == "decode" else ():
            model.step(token_id, state)
    assert memory.state.length == len(memory.ids)
    assert_equal(settled(memory.state), settled(state))


def assert_told(events, record) -> None:
    """Every token that a round committed stands in the record of one that ended, in order."""
    ended = [one for one in events if isinstance(one, RoundEnded)]
    told = [token_id for one in ended for token_id in one.record.token_ids]
    assert told == list(record.token_ids[1:])
    assert tuple(one.record for one in ended) == record.rounds
    assert [len(one.token_chars) for one in ended] == [
        len(one.record.token_ids) + (at == 0) for at, one in enumerate(ended)
    ]
    text = "".join(one.text for one in events if isinstance(one, TextArrived))
    assert (text, len(text)) == (record.text, len(record.token_ids))
    if record.logits is not None:
        assert len(record.logits) == len(record.token_ids)


@pytest.mark.parametrize("leaves", [False, True], ids=["listens", "leaves"])
@pytest.mark.parametrize("drafter", ["off", "drafts"])
@pytest.mark.parametrize("place", PLACES, ids=NAMES)
def test_a_failure_anywhere_is_an_end_of_the_turn(
    open_engine, model, whole, monkeypatch, place, drafter, leaves
):
    """Whoever listens is told; whoever leaves at the next event hears nothing more."""
    problem = RuntimeError("the device was lost")
    breaking = Breaking(monkeypatch, place, 1 if place[1] == "drop" else 3, problem)
    engine, events = open_engine(), []
    if drafter == "drafts":
        drafter = "mtp" if place[0] is MtpRows else "wrong"
    request = requested(drafter=drafter, num_draft_tokens=2, replay_ids=(1,) * 6)
    turn = engine.generate(request, threading.Event())
    for event in turn:
        events.append(event)
        if leaves and (breaking.has_failed or sum(isinstance(e, RoundEnded) for e in events) == 3):
            turn.close()
            break
    else:
        record = events[-1].record
        assert isinstance(events[-1], TurnEnded)
        assert record.finish_reason == ("error" if breaking.has_failed else "length")
        assert record.token_ids == whole.token_ids[: len(record.token_ids)]
        assert_told(events, record)
    monkeypatch.undo()
    assert_trusted_rightly(engine._memory, model)
    if breaking.has_failed:
        again = run(engine, requested())[-1].record
        assert again.token_ids == whole.token_ids
        assert_equal([again.logits], [whole.logits])


@pytest.mark.parametrize("leaves", [False, True], ids=["stops", "leaves"])
@pytest.mark.parametrize("drafter", ["off", "replay"])
def test_a_turn_may_be_left_at_any_event(open_engine, model, whole, drafter, leaves):
    options = {"max_tokens": 4, "num_draft_tokens": 1, "replay_ids": whole.token_ids}
    request = requested(drafter=drafter, **options)
    for at in range(len(run(open_engine(), request))):
        engine, stop = open_engine(), threading.Event()
        turn = engine.generate(request, stop)
        for index, event in enumerate(turn):
            if index == at and leaves:
                turn.close()
            elif index == at:
                stop.set()
            if isinstance(event, TurnEnded):
                ids = event.record.token_ids
                assert ids == whole.token_ids[: len(ids)]
        assert not engine._memory._is_spoilt
        assert_trusted_rightly(engine._memory, model)


@pytest.mark.parametrize(
    "problem", [TritonError("out of resource"), CalledProcessError(1, ["ptxas"])], ids=repr
)
def test_a_kernel_that_does_not_compile_ends_the_turn(open_engine, monkeypatch, problem):
    Breaking(monkeypatch, (KernelModel, "run_rows"), 3, problem)
    record = run(open_engine(), requested())[-1].record
    assert (record.finish_reason, len(record.rounds)) == ("error", 1)
    assert record.error == f"The engine failed: {problem}"


def test_a_return_that_fails_half_way_is_not_trusted(open_engine, whole, monkeypatch):
    """The state went back, and the rows of the head did not."""
    engine = open_engine()
    run(engine, requested())
    Breaking(monkeypatch, (RoundState, "restore"), 1, TritonError("out of resource"))
    with pytest.raises(MemoryPlanError, match="out of resource"):
        run(engine, requested())
    monkeypatch.undo()
    again = run(engine, requested())[-1].record
    assert (again.token_ids, again.reused_tokens) == (whole.token_ids, 0)
    assert_equal([again.logits], [whole.logits])


@pytest.mark.parametrize("drafter", ["off", "replay"])
def test_what_a_round_committed_before_it_broke_is_told(open_engine, whole, monkeypatch, drafter):
    """Nobody knows more of it than its tokens and its draft; logits that were lost are NaN."""
    Breaking(monkeypatch, (RowsRound, "wait"), 2, RuntimeError("the device was lost"))
    request = requested(drafter=drafter, num_draft_tokens=1, replay_ids=whole.token_ids)
    events = run(open_engine(), request)
    record = events[-1].record
    assert_told(events, record)
    per_round = 1 if drafter == "off" else 2
    assert [len(one.token_ids) for one in record.rounds] == [per_round] * 2
    lost = record.rounds[-1]
    assert (lost.rows, lost.accepted, lost.tested) == (per_round, per_round - 1, per_round - 1)
    assert (lost.round_ms, sum(lost.num_bytes.values())) == (0, 0)
    assert record.rounds[0].num_bytes["weights"] > 0
    assert torch.equal(record.logits[: 1 + per_round], whole.logits[: 1 + per_round])
    assert record.logits[1 + per_round :].isnan().all()
