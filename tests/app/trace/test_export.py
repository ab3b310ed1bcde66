"""The exported trace: what Perfetto needs, whole or not at all, and nothing lost on the way."""

import errno
import gzip
import json
import time
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from app.sessions.store import SessionStore
from app.trace.chrome import ChromeLayout
from app.trace.export import document, export, export_present, exported_at_the_end
from app.trace.read import read_turns
from app.trace.traced import Chunk, Head, Notice, Piece, TracedTurn, TraceError
from engine.errors import OutputError, RequestError
from engine.records import BYTE_PARTS, PHASES, RoundRecord, TurnRecord
from tests.app.trace import perfetto
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
from tests.fakes.model import FakeModel, local_engine, write_text_files

SECONDS = some.floats(0, 1e5, allow_nan=False)
COUNTS = some.integers(0, 1000)
MILLISECONDS = some.floats(0, 1e4, allow_nan=False)
ROUNDS = some.builds(
    RoundRecord,
    index=some.just(0),
    drafter=some.sampled_from(("mtp", "off", 'a "quoted" name')),
    shape=some.sampled_from(("chain", "tree")),
    rows=some.integers(1, 32),
    tested=some.integers(0, 31),
    accepted=some.integers(0, 31),
    token_ids=some.integers(1, 32).map(lambda num: (0,) * num),
    context_tokens=COUNTS,
    start_s=SECONDS,
    ms=some.fixed_dictionaries(dict.fromkeys(PHASES, MILLISECONDS)),
    num_bytes=some.fixed_dictionaries(dict.fromkeys(BYTE_PARTS, COUNTS)),
)


def consistent(record):
    """As many token ids as the rounds and the prefill committed."""
    num = 1 + sum(len(one.token_ids) for one in record.rounds)
    rounds = tuple(replace(one, index=n) for n, one in enumerate(record.rounds))
    return replace(record, token_ids=(0,) * num, rounds=rounds)


def in_order(parts):
    return tuple(sorted(parts, key=lambda one: one.at_s))


CHUNKS = some.builds(Chunk, SECONDS, SECONDS, COUNTS, COUNTS, COUNTS)
RECORDS = some.builds(
    TurnRecord,
    text=some.just(""),
    reasoning=some.just(""),
    token_ids=some.just(()),
    finish_reason=some.sampled_from(("stop", "length", "cancelled")),
    prompt_tokens=COUNTS,
    reused_tokens=COUNTS,
    ttft_s=SECONDS,
    total_s=SECONDS,
    prefill_tok_s=SECONDS,
    decode_tok_s=SECONDS,
    rounds=some.lists(ROUNDS, max_size=6).map(tuple),
    ranges=some.just(()),
    seed=some.integers(0, 2**63 - 1),
).map(consistent)
HEADS = some.builds(
    Head,
    run=some.sampled_from("abc"),
    at=some.just("2026-11-29T09:41:00+00:00"),
    facts=some.fixed_dictionaries({"engine.profile": some.sampled_from(("fp8", "bf16"))}),
)
TURNS = some.builds(
    TracedTurn,
    head=HEADS,
    start_s=SECONDS,
    at=some.just(""),
    request=some.just({"drafter": "auto"}),
    prompt=some.sampled_from(("", "why?")),
    chunks=some.lists(CHUNKS, max_size=4).map(tuple),
    notices=some.lists(some.builds(Notice, SECONDS, some.text()), max_size=2).map(in_order),
    pieces=some.lists(
        some.builds(Piece, SECONDS, some.sampled_from(("answer", "thinking")), some.text()),
        max_size=3,
    ).map(in_order),
    record=RECORDS,
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(some.lists(TURNS, min_size=1, max_size=4))
def test_any_turns_are_laid_out_by_perfettos_rules(turns):
    perfetto.check(json.loads(b"".join(document(turns))))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(some.lists(TURNS, min_size=1, max_size=3))
def test_an_export_loses_nothing(tmp_path_factory, turns):
    path = tmp_path_factory.mktemp("export") / "x.json"
    export(turns, path)
    found = read(path)
    again = path.with_name("y.json")
    export(found, again)
    assert read(again) == found
    for ours, given_turn in zip(found, turns, strict=True):
        record = given_turn.record
        for name in ("prompt_tokens", "seed", "finish_reason", "token_ids"):
            assert getattr(ours.record, name) == getattr(record, name)
        assert ours.record.decode_tok_s == pytest.approx(record.decode_tok_s, abs=1e-6)
        for one, other in zip(ours.record.rounds, record.rounds, strict=True):
            assert one.ms == pytest.approx(other.ms, abs=1e-4)
            assert (one.num_bytes, one.token_ids) == (other.num_bytes, other.token_ids)
        assert (ours.prompt, ours.notices) == (given_turn.prompt, given_turn.notices)
        assert (ours.chunks, ours.pieces) == (given_turn.chunks, given_turn.pieces)


def test_the_checker_sees_faults(tmp_path):
    path, _ = record(tmp_path, engine=ExactEngine(rounds=2))
    export(read(path), tmp_path / "x.json")
    for spoil in (
        lambda e: e.update(dur=e["dur"] + 1e6) if e["name"] == "round" else None,
        lambda e: e.update(dur=e["dur"] + 0.001) if e["name"] == "host" else None,
        lambda e: e.pop("tid") if e["ph"] == "s" else None,
        lambda e: e.update(id=2) if e["ph"] == "f" else None,
        lambda e: e.update(ts=0.0) if e.get("args") == {"tok/s": 0} else None,
        lambda e: e.update(args={}) if e["ph"] == "C" else None,
        lambda e: e.update(name="thread") if e["name"] == "thread_name" else None,
    ):
        spoilt = perfetto.load(tmp_path / "x.json")
        for event in spoilt["traceEvents"]:
            spoil(event)
        with pytest.raises((AssertionError, KeyError, ValueError)):
            perfetto.check(spoilt)


def test_times_of_true_records_are_not_moved(tmp_path):
    """The real round loop around a model without weights; its clock is the real one."""
    write_text_files(tmp_path)
    model = FakeModel(lambda context: 65 + len(context) % 20, guess=lambda context: 65)
    engine = local_engine(model, tmp_path)
    recorder = make_recorder(tmp_path)
    recorder.follow(tmp_path / "x.trace")
    began = time.perf_counter()
    records = [ask(opened(recorder, engine), max_tokens=40)[-1].record for _ in range(2)]
    took_s = time.perf_counter() - began
    recorder.close()
    turns = read(tmp_path / "x.trace")
    export(turns, tmp_path / "x.json")
    data = perfetto.load(tmp_path / "x.json")
    perfetto.check(data)
    slices = [one for one in data["traceEvents"] if one["ph"] == "X"]
    found = iter([one for one in slices if one["name"] == "round"])
    for turn, known in zip(turns, records, strict=True):
        assert len(known.rounds) > 5
        for one in known.rounds:
            event = next(found)
            assert event["ts"] == pytest.approx((turn.start_s + one.start_s) * 1e6, abs=1.5)
            assert event["dur"] == pytest.approx(one.round_ms * 1e3, abs=0.3)
    total_us = sum(one["dur"] for one in slices if one["name"] == "turn")
    assert total_us <= took_s * 1e6


def test_what_stands_in_it(tmp_path):
    path, _ = record(tmp_path, engine=ExactEngine(rounds=3), draft__tokens=3)
    export(read(path), tmp_path / "x.json")
    data = perfetto.load(tmp_path / "x.json")
    assert data["displayTimeUnit"] == "ms"
    assert data["metadata"]["engine.profile"] == "nvfp4"
    assert data["metadata"]["setting.draft.tokens"] == 3
    named = [one["name"] for one in data["traceEvents"] if one["ph"] == "X"]
    assert named[:5] == ["turn", "prompt", "prefill", "chunk", "chunk"]
    assert named[5:] == ["round", "draft", "verify", "accept", "host"] * 3
    counters = {
        f"{one['name']} {key}"
        for one in data["traceEvents"]
        if one["ph"] == "C"
        for key in one["args"]
    }
    assert counters == {"decode tok/s", "accepted drafts", "bandwidth GB/s", "context tokens"}
    args = next(one["args"] for one in data["traceEvents"] if one["name"] == "round")
    assert (args["accepted"], args["tested"], args["gb_s"]) == (3, 3, 0.1)
    assert SECRET not in json.dumps(data)


def test_runs_of_a_session_follow_each_other(tmp_path):
    path, _ = record(tmp_path, Script(), draft__tokens=3)
    record(tmp_path, Script(), path=path, draft__tokens=5)
    export(read(path), tmp_path / "x.json")
    data = perfetto.load(tmp_path / "x.json")
    perfetto.check(data)
    assert data["metadata"]["setting.draft.tokens"] == 3
    assert data["metadata"]["run2.setting.draft.tokens"] == 5
    assert "run2.engine.model" not in data["metadata"]
    assert [one.head.facts["setting.draft.tokens"] for one in read(tmp_path / "x.json")] == [3, 5]


def test_a_name_that_ends_in_gz_is_packed(tmp_path):
    path, _ = record(tmp_path, engine=ExactEngine(rounds=200))
    for name in ("x.json", "x.json.gz"):
        export(read(path), tmp_path / name)
    plain, packed = ((tmp_path / name).read_bytes() for name in ("x.json", "x.json.gz"))
    assert gzip.decompress(packed) == plain
    assert len(packed) < len(plain) / 5
    assert [one.record for one in read(tmp_path / "x.json.gz")] == [
        one.record for one in read(tmp_path / "x.json")
    ]


def test_a_run_over_several_conversations_is_one_trace(tmp_path):
    record(tmp_path, Script(), path=tmp_path / "a.trace")
    recorder = make_recorder(tmp_path)
    engine = opened(recorder, ScriptedEngine())
    for name in ("a.trace", "b.trace", "a.trace"):
        recorder.follow(tmp_path / name)
        ask(engine)
    turns = list(read_turns(recorder.sources(whole=False)))
    assert [one.start_s for one in turns] == sorted(one.start_s for one in turns)
    assert len(turns) == 3
    assert len({one.head.run for one in turns}) == 1
    assert len(read(recorder.sources(whole=True)[0].path)) == 3  # with the run before
    recorder.close()


def test_a_failed_export_leaves_nothing(tmp_path, monkeypatch):
    path, _ = record(tmp_path, Script())
    target = tmp_path / "x.json"
    target.write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        export(read(path), target)

    def refuse(fd):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("app.output_file.os.fsync", refuse)
    with pytest.raises(OutputError, match="No space left"):
        export(read(path), target, replace=True)
    with pytest.raises(OutputError, match="No space left"):
        export(read(path), tmp_path / "y.json.gz")
    assert target.read_text() == "mine"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["session.trace", "x.json"]


def test_nothing_to_export_is_a_sentence(tmp_path):
    with pytest.raises(TraceError, match="no answer to trace"):
        export([], tmp_path / "x.json")
    session = SessionStore(tmp_path / "sessions").create("m", "p", "")
    with pytest.raises(TraceError, match="The trace is off"):
        export_present(None, session, "")
    recorder = make_recorder(tmp_path)
    with pytest.raises(TraceError, match="no answer to trace"):
        export_present(recorder, session, str(tmp_path / "x.json"))
    with pytest.raises(RequestError, match="ends in .json or .json.gz"):
        export_present(recorder, session, str(tmp_path / "notes.md"))
    assert list(tmp_path.iterdir()) == []


def test_a_layout_without_turns_has_names_only():
    assert {one["ph"] for one in ChromeLayout().names()} == {"M"}


def test_a_recording_that_the_disk_refused_is_not_called_nothing_answered(tmp_path):
    (tmp_path / "full").write_text("a file where the folder should be")
    recorder = make_recorder(tmp_path)
    engine = opened(recorder, ScriptedEngine([Script()]))
    recorder.follow(tmp_path / "full" / "x.trace")
    with (
        pytest.raises(TraceError, match=r"Nothing could be recorded \(.*full.*: "),
        exported_at_the_end(recorder, tmp_path / "out.json"),
    ):
        ask(engine)
    assert not (tmp_path / "out.json").exists()
    session = SessionStore(tmp_path / "full").create("m", "p", "")
    with pytest.raises(TraceError, match=r"Nothing could be recorded \(.*full.*: "):
        export_present(recorder, session, str(tmp_path / "now.json"))
    assert [one.name for one in tmp_path.iterdir()] == ["full"]
