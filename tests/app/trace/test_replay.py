"""A replay says what was recorded, when it was, and asks for no model."""

import threading
import time

import pytest

from app.trace.replay import ReplayEngine, placeholder, prompts_of
from engine.errors import RequestError
from engine.types import NoticeRaised, Request, RoundEnded, TextArrived, TurnEnded
from tests.app.trace.scripted import SECRET, ExactEngine, ask, read, record
from tests.tries import tries


@pytest.fixture
def turns(tmp_path):
    return read(record(tmp_path, engine=ExactEngine(rounds=6), num_turns=2)[0])


def test_events_come_back_in_order_with_their_figures(turns):
    engine = ReplayEngine(turns, speed=1000)
    events = ask(engine)
    assert isinstance(events[-1], TurnEnded)
    rounds = [one.record for one in events if isinstance(one, RoundEnded)]
    assert tuple(rounds) == turns[0].record.rounds
    record = events[-1].record
    assert record.decode_tok_s == turns[0].record.decode_tok_s
    texts = "".join(one.text for one in events if isinstance(one, TextArrived))
    assert record.text == texts == placeholder(0, 19)
    assert engine.info == ExactEngine.info
    assert engine.count_tokens(()) == 40


def test_it_says_that_it_is_one_and_that_words_are_placeholders(turns, tmp_path):
    first = ask(ReplayEngine(turns, speed=1000))[0]
    assert isinstance(first, NoticeRaised)
    assert "A replay" in first.text
    assert "placeholders" in first.text
    path, _ = record(
        tmp_path, engine=ExactEngine(), path=tmp_path / "kept.trace", trace__keep_text=True
    )
    kept = read(path)
    events = ask(ReplayEngine(kept, speed=1000))
    assert "placeholders" not in events[0].text
    assert events[-1].record == kept[0].record
    assert prompts_of(kept) == [SECRET]


@pytest.mark.timing
@pytest.mark.parametrize("speed", [1.0, 4.0])
def test_times_are_the_recorded_ones_over_the_speed(turns, speed):
    wanted_s = turns[0].record.total_s / speed
    for _ in tries():
        began = time.perf_counter()
        ask(ReplayEngine(turns, speed))
        if (took_s := time.perf_counter() - began) == pytest.approx(wanted_s, abs=0.08):
            return
    pytest.fail(f"it took {took_s:.2f} s, expected {wanted_s:.2f}")


def test_a_stop_ends_it_within_a_round(turns):
    stop = threading.Event()
    events = ReplayEngine(turns).generate(Request(), stop)
    seen = []
    for event in events:
        seen.append(event)
        if isinstance(event, RoundEnded):
            stop.set()
    record = seen[-1].record
    assert record.finish_reason == "cancelled"
    assert len(record.rounds) == sum(isinstance(one, RoundEnded) for one in seen) == 1
    assert len(record.token_ids) == 4
    assert record.text == placeholder(0, 4)


def test_every_turn_is_played_once(turns):
    engine = ReplayEngine(turns, speed=1000)
    assert prompts_of(turns)[1] == "Turn 2 of the trace: 40 prompt tokens."
    for _ in turns:
        ask(engine)
    with pytest.raises(RequestError, match="The replay is over"):
        ask(engine)


def test_a_replay_recorded_again_has_the_same_figures(turns, tmp_path):
    path, _ = record(
        tmp_path, engine=ReplayEngine(turns, speed=1000), num_turns=2, path=tmp_path / "again.trace"
    )
    assert [one.record.rounds for one in read(path)] == [one.record.rounds for one in turns]
