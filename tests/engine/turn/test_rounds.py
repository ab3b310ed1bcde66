"""A round is on its way before the one before it is told; one that nobody wants leaves nothing."""

import itertools
import threading
from dataclasses import replace

import pytest
import torch

from engine.draft.draft import Draft
from engine.model.round_state import RoundState
from engine.records import PHASES
from engine.turn.choice import TokenChooser
from engine.turn.rounds import Rounds
from engine.turn.rows_round import RowsRound
from engine.turn.rows_verify import RowsVerifier
from engine.turn.verify import Course, RowWalk
from engine.types import Request, RoundEnded, TextArrived
from tests.fakes.model import run
from tests.fakes.rounds import PROMPT, SAMPLINGS, answered_alike, assert_equal, requested, settled


class Text:
    """Rounds by hand: what they committed, and the state behind them."""

    def __init__(self, model, verifier, sampling):
        self.state = model.new_state(512)
        model.prefill(PROMPT, self.state)
        self.chooser = TokenChooser(sampling, model.config.vocab_size, PROMPT)
        course = Course(self.state, self.chooser, keeps_logits=True)
        self.rounds = Rounds(verifier, course, model.device)
        self.ids, self.logits, self.taken = [50], [], []

    def launch(self, draft: Draft, room: int = 99) -> None:
        self.rounds.launch(self.ids[-1], lambda: draft, room)

    def take(self) -> None:
        def commit(token_id):
            self.chooser.note(token_id)
            self.ids.append(token_id)
            return True

        self.taken.append(self.rounds.take(commit))
        self.logits += self.taken[-1].verified.logits


PLAIN = Draft.chain(())


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_rounds_that_run_ahead_are_plain_decode(model, verifier, sampling):
    ahead, plain = Text(model, verifier, sampling), Text(model, RowWalk(model), sampling)
    ahead.launch(PLAIN)
    for _ in range(12):
        ahead.rounds.launch_ahead()
        ahead.take()
        assert ahead.rounds.are_under_way
        plain.launch(PLAIN)
        plain.take()
    ahead.rounds.drop()
    assert ahead.ids == plain.ids
    assert len(set(ahead.ids)) > 1
    assert_equal(ahead.logits, plain.logits)
    hidden = [[one.verified.hidden for one in text.taken] for text in (ahead, plain)]
    assert_equal(*hidden)
    assert_equal(settled(ahead.state), settled(plain.state))


@pytest.mark.parametrize("draft", [PLAIN, Draft.chain([60, 61, 62]), Draft.tree([60, 61], [0, 0])])
@pytest.mark.parametrize("is_ahead", [True, False], ids=["ahead", "behind"])
def test_a_dropped_round_leaves_nothing(model, verifier, draft, is_ahead):
    """Whether it was launched behind one that was known, or behind one on its way."""
    texts = [Text(model, verifier, SAMPLINGS["penalised"]) for _ in range(2)]
    for text, drops in zip(texts, (True, False), strict=True):
        for _ in range(3):
            text.launch(PLAIN)
            if is_ahead and drops:
                text.rounds.launch_ahead()
            text.take()
            if not is_ahead and drops:
                text.launch(draft)
            text.rounds.drop()
    dropped, plain = texts
    assert dropped.ids == plain.ids
    assert_equal(dropped.logits, plain.logits)
    assert_equal(settled(dropped.state), settled(plain.state))


def test_a_point_behind_a_dropped_round_is_a_point_to_come_back_to(model, verifier):
    text = Text(model, verifier, SAMPLINGS["greedy"])
    for _ in range(2):  # a graph is captured by the first, which has nothing pending
        text.launch(PLAIN)
        text.take()
        text.launch(Draft.chain([60, 61]))
        text.rounds.drop()
    start, ids = text.state.snapshot(), list(text.ids)
    found = []
    for _ in range(2):
        text.ids, text.logits = list(ids), []
        for _ in range(3):
            text.launch(PLAIN)
            text.take()
        found.append((text.ids, text.logits))
        text.state.restore(start)
    (once, first), (again, second) = found
    assert once == again
    assert_equal(first, second)


def test_a_dropped_round_that_is_counted_is_seen(model, verifier, monkeypatch):
    """What the tests above hold would not hold if a dropped round's row stayed."""
    monkeypatch.setattr(RoundState, "drop", lambda state: state.accept((0,)))
    with pytest.raises(AssertionError):
        test_a_dropped_round_leaves_nothing(model, verifier, PLAIN, is_ahead=True)


def test_tails_that_stay_in_one_half_are_seen(model, verifier, monkeypatch):
    monkeypatch.setattr(RoundState, "drop", lambda state: state.accept(()))
    with pytest.raises(AssertionError):
        test_a_point_behind_a_dropped_round_is_a_point_to_come_back_to(model, verifier)


def test_no_round_runs_ahead_of_a_token_that_must_be_known(model, verifier):
    text = Text(model, verifier, SAMPLINGS["greedy"])
    for draft, room in ((Draft.chain([60]), 99), (PLAIN, 1)):
        text.launch(draft, room)
        text.rounds.launch_ahead()
        text.take()
        assert not text.rounds.are_under_way


class Watched(RowsVerifier):
    """Notes when rounds are launched."""

    def __init__(self, model):
        super().__init__(model)
        self.log = []

    def _run(self, *others, **how):
        self.log.append("launched")
        return super()._run(*others, **how)


@pytest.mark.parametrize("drafter", ["off", "wrong"])
def test_the_next_round_is_on_its_way_before_anything_is_told(model, open_engine, drafter):
    """However slow the reader of the events is."""
    verifier = Watched(model)
    log = verifier.log
    truth = (1,) * 16  # never chosen
    request = requested(drafter=drafter, replay_ids=truth, num_draft_tokens=2)
    for event in open_engine(verifier).generate(request, threading.Event()):
        if isinstance(event, TextArrived | RoundEnded):
            log.append(type(event).__name__)
    told = [at for at, one in enumerate(log) if one == "RoundEnded"]
    assert len(told) == log.count("launched") == 15
    launched_before = [log[:at].count("launched") for at in told]
    assert launched_before == [*range(2, 16), 15]
    text_of_first = log.index("TextArrived", 1 + log.index("launched"))
    assert log[:text_of_first].count("launched") == 2


@pytest.mark.parametrize("ends", ["cancel", "close"])
@pytest.mark.parametrize("drafter", ["off", "replay"])
def test_a_turn_that_is_left_while_a_round_runs_is_as_if_it_had_not(
    open_engine, monkeypatch, drafter, ends
):
    whole = run(open_engine(), requested())[-1].record
    dropped = []
    drop = RowsRound.drop
    monkeypatch.setattr(RowsRound, "drop", lambda one: (dropped.append(one), drop(one)))
    engine, stop = open_engine(), threading.Event()
    request = requested(drafter=drafter, replay_ids=whole.token_ids, num_draft_tokens=3)
    events = engine.generate(request, stop)
    num_rounds = 0
    for event in events:
        num_rounds += isinstance(event, RoundEnded)
        if num_rounds == 2:
            if ends == "close":
                events.close()
                break
            stop.set()
    assert (len(dropped), num_rounds) == (1, 2)
    memory = engine._memory
    num_tokens = 1 + (2 if drafter == "off" else 8)
    assert memory.ids == [*PROMPT, *whole.token_ids[: num_tokens - 1]]
    assert memory.ranges[-1].end == memory.state.length == len(memory.ids)

    other = open_engine()
    run(other, requested(max_tokens=num_tokens))
    assert_equal(settled(memory.state), settled(other._memory.state))
    more = Request(
        prompt_ids=(*PROMPT, *whole.token_ids[:num_tokens], 41), max_tokens=6, keep_logits=True,
        sampling=SAMPLINGS["greedy"], drafter=drafter, exact_resume=False,
    )  # fmt: skip
    goes_on, wanted = (run(one, more)[-1].record for one in (engine, other))
    assert goes_on.token_ids == wanted.token_ids
    assert torch.equal(goes_on.logits, wanted.logits)


def test_a_stop_string_ends_the_turn_while_the_next_round_runs(open_engine, monkeypatch):
    whole = run(open_engine(), requested())[-1].record
    stop = whole.text[5:8]
    at = whole.text.index(stop) + len(stop)
    dropped = []
    drop = RowsRound.drop
    monkeypatch.setattr(RowsRound, "drop", lambda one: (dropped.append(one), drop(one)))
    engine, other = open_engine(), open_engine(None)
    record = run(engine, requested(stop=(stop,)))[-1].record
    assert (record.finish_reason, record.text) == ("stop_string", whole.text[: at - len(stop)])
    assert len(dropped) == 1
    run(other, requested(stop=(stop,)))
    assert record.token_ids == whole.token_ids[:at]
    assert_equal(settled(engine._memory.state), settled(other._memory.state))


@pytest.mark.parametrize("shape", ["chain", "tree"])
@pytest.mark.parametrize("drafter", ["off", "mtp", "lookup", "half", "replay"])
def test_no_drafter_changes_a_bit(open_engine, walked, drafter, shape):
    answered_alike(open_engine, walked, drafter, shape)


@pytest.mark.parametrize("drafter", ["off", "replay"])
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_a_forced_token_ends_what_ran_ahead(open_engine, drafter, sampling):
    """The device chose another one in its place."""
    records = []
    for engine in (open_engine(None), open_engine()):
        tokenizer = engine._machine.tokenizer
        request = replace(
            requested(drafter="off" if not records else drafter, sampling=sampling),
            prompt_ids=(*PROMPT, tokenizer.think_open_id), thinking_budget=4, num_draft_tokens=6,
            replay_ids=records[0].token_ids if records else (),
        )  # fmt: skip
        records.append(run(engine, request)[-1].record)
    walked, record = records
    assert tokenizer.think_close_id in walked.token_ids[4:]
    assert record.token_ids == walked.token_ids
    assert torch.equal(record.logits, walked.logits)
    assert (record.text, record.reasoning) == (walked.text, walked.reasoning)


def test_what_a_round_brought_is_told_when_the_next_cannot_be_launched(open_engine, monkeypatch):
    launch, launched = RowsVerifier.launch, []

    def failing(*arguments):
        launched.append(arguments)
        if len(launched) == 3:
            raise RuntimeError("the device was lost")
        return launch(*arguments)

    monkeypatch.setattr(RowsVerifier, "launch", failing)
    engine = open_engine()
    request = requested(drafter="wrong", replay_ids=(1,) * 16, num_draft_tokens=2)
    record = run(engine, request)[-1].record
    assert (record.error, record.finish_reason) == (
        "The engine failed: the device was lost", "error",
    )  # fmt: skip
    assert len(record.token_ids) == 1 + len(record.rounds) == 3
    assert len(record.text) == 3
    monkeypatch.undo()
    assert run(engine, requested())[-1].record.finish_reason == "length"


@pytest.mark.parametrize("drafter", ["off", "wrong"])
def test_rounds_lie_end_to_end_and_their_phases_add_up(open_engine, drafter):
    request = requested(drafter=drafter, replay_ids=(1,) * 16, num_draft_tokens=2)
    record = run(open_engine(), request)[-1].record
    rounds = record.rounds
    assert len(rounds) == 15
    for one, following in itertools.pairwise(rounds):
        assert set(one.ms) == set(PHASES)
        assert all(ms >= 0 for ms in one.ms.values())
        assert following.start_s == pytest.approx(one.start_s + one.round_ms / 1e3)
    last_s = rounds[-1].start_s + rounds[-1].round_ms / 1e3
    assert record.ttft_s <= rounds[0].start_s < last_s <= record.total_s
