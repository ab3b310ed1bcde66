"""Recording: everything is on disk, nothing can stop an answer, and it costs next to nothing."""

import errno
import itertools
import json
import os
import stat
import threading
import time
import tracemalloc
from types import SimpleNamespace

import pytest

from app import streams
from app.trace import disk
from app.trace.record import TracedEngine
from engine.errors import RequestError
from engine.records import PHASES
from engine.types import NoticeRaised, Request, RoundEnded, TextArrived, TurnEnded
from tests.app.trace.scripted import (
    SECRET,
    ExactEngine,
    ask,
    make_recorder,
    opened,
    read,
    record,
)
from tests.fakes.engine import Script, ScriptedEngine
from tests.tries import slowness, tries

ROUND_BUDGET_US = 50
"""1 % of a round of 5 ms, the fastest one that is planned."""


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class FullDisk:
    """``os`` of a disk that takes nothing while ``is_full``, or only half of what it is given."""

    def __init__(self):
        self.is_full = True
        self.num_refused = 0

    def __getattr__(self, name):
        return getattr(os, name)

    def write(self, fd, data):
        if self.is_full:
            self.num_refused += 1
            os.write(fd, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(fd, data)


@pytest.fixture
def full_disk(monkeypatch):
    full = FullDisk()
    monkeypatch.setattr(streams, "os", full)
    return full


def test_every_event_is_a_line_and_the_records_come_back(tmp_path):
    path, (given,) = record(tmp_path, engine=ExactEngine(rounds=4))
    kinds = [one["type"] for one in lines(path)]
    assert kinds == ["trace", "turn", "chunk", "chunk", "notice", *["round"] * 4, "end"]
    (turn,) = read(path)
    for ours, theirs in zip(turn.record.rounds, given.rounds, strict=True):
        assert ours.ms == theirs.ms
        assert ours.num_bytes == theirs.num_bytes
        assert (ours.tested, ours.accepted, len(ours.token_ids)) == (
            theirs.tested, theirs.accepted, len(theirs.token_ids),
        )  # fmt: skip
        assert ours.start_s == pytest.approx(theirs.start_s, abs=1e-6)
    for name in ("ttft_s", "total_s", "decode_tok_s", "prefill_tok_s", "prompt_tokens", "seed"):
        assert getattr(turn.record, name) == pytest.approx(getattr(given, name), abs=1e-6)
    assert len(turn.record.token_ids) == len(given.token_ids)
    assert [one.text for one in turn.notices] == ["a slower path"]
    assert (turn.chunks[-1].num_tokens, turn.chunks[-1].num_reused) == (40, 10)
    assert turn.request["seed"] == 7


def test_events_pass_through_unchanged(tmp_path):
    plain = ask(ExactEngine(rounds=3))
    recorder = make_recorder(tmp_path)
    recorder.follow(tmp_path / "x.trace")
    assert ask(opened(recorder, ExactEngine(rounds=3))) == plain
    recorder.close()


def test_the_head_says_with_what(tmp_path):
    path, _ = record(tmp_path, draft__tokens=5)
    facts = lines(path)[0]["facts"]
    assert facts["setting.draft.tokens"] == 5
    assert facts["engine.model"] == "scripted"
    assert facts["engine.read_gb_s"] == 20.0
    assert facts["package.torch"].startswith("2.")
    assert {"machine.gpu", "machine.driver", "machine.system", "package.qwen38"} <= facts.keys()


def test_no_text_of_the_conversation_is_recorded_unless_asked(tmp_path):
    script = Script(answer="an answer nobody may read", thinking="nor this thought")
    path, _ = record(tmp_path, script, chat__system="nor this instruction")
    raw = path.read_text()
    for words in (SECRET, "nobody may read", "this thought", "this instruction", '"ids"'):
        assert words not in raw
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path, (given,) = record(
        tmp_path, script, path=tmp_path / "kept.trace", trace__keep_text=True, chat__system="be x"
    )
    (turn,) = read(path)
    assert turn.prompt == SECRET
    assert (turn.record.text, turn.record.token_ids) == (given.text, given.token_ids)
    assert "".join(one.text for one in turn.pieces) == given.reasoning + given.text
    assert turn.head.facts["setting.chat.system"] == "be x"


def test_a_refused_request_leaves_no_turn(tmp_path):
    recorder = make_recorder(tmp_path)
    recorder.follow(tmp_path / "x.trace")
    engine = opened(recorder, ScriptedEngine([Script(refuses=RequestError("No.")), Script()]))
    with pytest.raises(RequestError):
        ask(engine)
    ask(engine)
    recorder.close()
    assert len(read(tmp_path / "x.trace")) == 1


def test_a_crash_of_the_engine_keeps_what_was_recorded(tmp_path):
    recorder = make_recorder(tmp_path)
    recorder.follow(tmp_path / "x.trace")
    engine = opened(recorder, ScriptedEngine([Script(crashes_after=2)]))
    with pytest.raises(RuntimeError):
        ask(engine)
    (turn,) = read(tmp_path / "x.trace")
    assert turn.is_cut_off
    assert len(turn.record.rounds) == 2
    recorder.close()


def test_a_running_turn_can_be_read_before_its_end(tmp_path):
    recorder = make_recorder(tmp_path)
    recorder.follow(tmp_path / "x.trace")
    events = opened(recorder, ExactEngine(rounds=5)).generate(Request(), threading.Event())
    seen = itertools.takewhile(lambda one: not isinstance(one, RoundEnded), events)
    assert list(seen)
    (source,) = recorder.sources(whole=True)
    (turn,) = read(source.path)
    assert (turn.is_cut_off, len(turn.record.rounds)) == (True, 1)
    events.close()
    recorder.close()


def test_a_damaged_tail_is_skipped_and_the_next_run_goes_on_behind_it(tmp_path):
    path, _ = record(tmp_path, Script(), Script())
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    turns = read(path)
    assert [one.is_cut_off for one in turns] == [False, True]
    record(tmp_path, Script(), path=path)
    turns = read(path)
    assert [one.is_cut_off for one in turns] == [False, True, False]
    assert len({one.head.run for one in turns}) == 2


def test_a_full_disk_is_told_once_and_costs_only_the_trace(tmp_path, full_disk):
    recorder = make_recorder(tmp_path)
    path = tmp_path / "x.trace"
    recorder.follow(path)
    engine = opened(recorder, ScriptedEngine([Script()]))
    events = ask(engine) + ask(engine)
    notices = [one.text for one in events if isinstance(one, NoticeRaised)]
    assert len(notices) == 1
    assert "No space left on device" in notices[0]
    assert str(path) in notices[0]
    assert sum(isinstance(one, TurnEnded) for one in events) == 2
    full_disk.is_full = False
    ask(engine)
    recorder.close()
    (turn,) = read(path)
    assert not turn.is_cut_off


def test_a_disk_that_fills_up_in_mid_turn_leaves_no_half_line(tmp_path, full_disk, monkeypatch):
    monkeypatch.setattr(disk, "BLOCK_BYTES", 0)
    full_disk.is_full = False
    recorder = make_recorder(tmp_path)
    path = tmp_path / "x.trace"
    recorder.follow(path)
    engine = opened(recorder, ExactEngine(rounds=6))
    num_rounds = 0
    events = engine.generate(Request(), threading.Event())
    for event in events:
        num_rounds += isinstance(event, RoundEnded)
        full_disk.is_full = num_rounds == 2
        last = event
    assert isinstance(last, TurnEnded)
    assert full_disk.num_refused == 1  # the rest of the turn is not even tried
    ask(engine)
    recorder.close()
    first, second = read(path)
    assert (first.is_cut_off, len(first.record.rounds)) == (True, 2)
    assert (second.is_cut_off, len(second.record.rounds)) == (False, 6)


def test_a_recording_stops_at_its_limit(tmp_path):
    recorder = make_recorder(tmp_path, trace__max_mb=1)
    recorder.follow(tmp_path / "x.trace")
    engine = opened(recorder, ExactEngine(rounds=14_000))
    notices = [one.text for one in ask(engine) if isinstance(one, NoticeRaised)]
    recorder.close()
    assert (tmp_path / "x.trace").stat().st_size <= 1 << 20
    assert "it has reached 1 MB (trace.max_mb)" in notices[-1]


def test_an_unwritable_folder_is_one_notice(tmp_path):
    (tmp_path / "file").write_text("")
    recorder = make_recorder(tmp_path)
    recorder.follow(tmp_path / "file" / "x.trace")
    events = ask(opened(recorder, ScriptedEngine()))
    recorder.close()
    assert str(tmp_path / "file") in next(e.text for e in events if isinstance(e, NoticeRaised))
    assert isinstance(events[-1], TurnEnded)


def test_off_means_off(tmp_path):
    recorder = make_recorder(tmp_path, trace__enabled=False)
    recorder.follow(tmp_path / "x.trace")
    engine = opened(recorder, ScriptedEngine())
    assert not isinstance(engine, TracedEngine)
    ask(engine)
    recorder.close()
    assert not (tmp_path / "x.trace").exists()


def test_with_conversations_not_kept_the_trace_is_not_kept_either(tmp_path):
    recorder = make_recorder(tmp_path, chat__save=False)
    recorder.follow(tmp_path / "data" / "x.trace")
    ask(opened(recorder, ScriptedEngine()))
    (source,) = recorder.sources(whole=True)
    assert len(read(source.path)) == 1
    recorder.close()
    assert not source.path.exists()
    assert not (tmp_path / "data").exists()


def test_100000_rounds_take_no_memory(tmp_path):
    rounds = 100_000
    record_of = ExactEngine()
    event = RoundEnded(record_of.round(0))

    class Endless(ExactEngine):
        def generate(self, request, stop):
            yield from itertools.repeat(event, rounds)
            yield TurnEnded(self.record([self.round(0)]))

    recorder = make_recorder(tmp_path)
    recorder.follow(tmp_path / "x.trace")
    engine = opened(recorder, Endless())
    tracemalloc.start()
    for _ in engine.generate(Request(), threading.Event()):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    recorder.close()
    size = (tmp_path / "x.trace").stat().st_size
    print(f"100,000 rounds: peak {peak / 1e3:.0f} KB, file {size / 1e6:.1f} MB")  # noqa: T201
    assert peak < 1_000_000
    assert size < 20_000_000


@pytest.mark.timing
def test_a_recorded_round_costs_less_than_a_percent(tmp_path):
    num = 20_000
    event = RoundEnded(ExactEngine().round(12))
    text = TextArrived(" two three four", "answer")

    def generate(request, stop):
        for _ in range(num):
            yield text
            yield event

    engine = SimpleNamespace(info=ExactEngine.info, generate=generate)
    recorder = make_recorder(tmp_path)
    recorder.follow(tmp_path / "x.trace")
    traced = opened(recorder, engine)
    for _ in tries():
        times = []
        for one in (engine, traced):
            began = time.perf_counter()
            for _ in one.generate(Request(), threading.Event()):
                pass
            times.append(time.perf_counter() - began)
        us = (times[1] - times[0]) / num * 1e6
        print(f"a recorded round costs {us:.1f} us")  # noqa: T201
        if us < ROUND_BUDGET_US * slowness():
            break
    recorder.close()
    assert us < ROUND_BUDGET_US * slowness()


def test_the_phases_have_their_four_names():
    assert PHASES == ("draft", "verify", "accept", "host")
