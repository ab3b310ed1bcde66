"""The trace in the full screen: recorded beside the session, written by a key, and replayed."""

import asyncio

from app.live import LiveSettings
from app.sessions.history import PromptHistory
from app.sessions.store import SessionStore
from app.trace.replay import ReplayEngine, prompts_of
from app.tui.chat import ChatApp
from app.tui.worker import EngineWorker
from engine.settings.load import load_settings
from tests.app.trace import perfetto
from tests.app.trace.scripted import ExactEngine, make_recorder, read, record
from tests.app.tui.conftest import Seat
from tests.fakes.engine import Script, real_checkpoint_engine


def recorded_seat(seat, tmp_path, *scripts):
    recorder = make_recorder(tmp_path)
    engine = real_checkpoint_engine(list(scripts) or [Script()])
    opener = recorder.wrap(lambda progress, cancel: engine)
    return recorder, seat(opener=opener, recorder=recorder)


async def test_answers_are_recorded_beside_their_session(seat, tmp_path):
    recorder, opened = recorded_seat(seat, tmp_path)
    async with opened as s:
        await s.idle()
        for text in ("one", "two"):
            await s.send(text)
            await s.idle()
        first = s.app.chat.session
        await s.pilot.press("ctrl+n")
        await s.send("three")
        await s.idle()
        second = s.app.chat.session
    assert [len(read(one.trace_path)) for one in (first, second)] == [2, 1]
    shown = [one.record.rounds for one in first.path_messages() if one.record]
    for ours, theirs in zip(read(first.trace_path), shown, strict=True):
        assert [one.ms for one in ours.record.rounds] == [one.ms for one in theirs]
    recorder.close()


async def test_f8_and_the_command_write_it(seat, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorder, opened = recorded_seat(seat, tmp_path)
    async with opened as s:
        await s.idle()
        await s.pilot.press("f8")
        await s.until(lambda: "There is no answer to trace yet" in s.text)
        await s.send("one")
        await s.idle()
        await s.pilot.press("f8")
        await s.until(lambda: "ui.perfetto.dev" in s.unwrapped)
        await s.send("/trace mine.json")
        await s.until(lambda: "mine.json" in s.unwrapped)
    recorder.close()
    (packed,) = tmp_path.glob("qwen38-trace-*.json.gz")
    for path in (packed, tmp_path / "mine.json"):
        perfetto.check(perfetto.load(path))
        assert len(read(path)) == 1


async def test_it_writes_the_conversation_that_is_on_the_screen(seat, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorder, opened = recorded_seat(seat, tmp_path)
    async with opened as s:
        await s.idle()
        await s.send("one")
        await s.idle()
        first = s.app.chat.session.id
        await s.pilot.press("ctrl+n")
        await s.send("/trace new.json")
        await s.until(lambda: "There is no answer to trace yet" in s.text)
        await s.send(f"/resume {first}")
        await s.send("/trace old.json")
        await s.until(lambda: "old.json" in s.unwrapped)
    recorder.close()
    assert not (tmp_path / "new.json").exists()
    assert len(read(tmp_path / "old.json")) == 1


async def test_without_a_recorder_the_key_says_so(seat):
    async with seat() as s:
        await s.pilot.press("f8")
        await s.until(lambda: "The trace is off" in s.text)


async def test_a_trace_is_written_while_an_answer_is(seat, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorder, opened = recorded_seat(seat, tmp_path, Script(answer="word " * 300, round_s=0.2))
    async with opened as s:
        await s.idle()
        await s.send("one")
        await s.until(lambda: s.app.chat.rates is not None and len(s.app.chat.rates.rounds) > 3)
        await s.send("/trace mine.json")
        await s.until(lambda: "mine.json" in s.unwrapped)
        assert s.app.chat.is_busy
        await s.pilot.press("escape")
        await s.idle()
    recorder.close()
    (turn,) = read(tmp_path / "mine.json")
    assert turn.is_cut_off
    assert len(turn.record.rounds) > 3


async def test_a_replay_shows_the_same_figures(seat, tmp_path):
    path, records = record(tmp_path, engine=ExactEngine(rounds=8), num_turns=2)
    turns = read(path)
    _, sources = load_settings({f"paths.{one}": str(tmp_path / one) for one in ("config", "state")})
    store = SessionStore(tmp_path / "none", keep=False)
    engine = ReplayEngine(turns, speed=20)
    worker = EngineWorker(lambda progress, cancel: engine)
    history = PromptHistory(tmp_path / "state" / "history.jsonl")
    app = ChatApp(
        LiveSettings.of(sources), store, history, worker, prompts=prompts_of(turns)
    )  # fmt: skip
    async with app.run_test(size=(100, 40)) as pilot:
        s = Seat(app, engine, store, pilot)
        await s.until(lambda: sum(one.record is not None for one in messages(app)) == 2)
        await s.idle()
        for line in (
            "A replay of a trace",
            "Turn 1 of the trace: 40 prompt tokens.",
            "each word stands for a token",
            f"{records[0].decode_tok_s:.1f} tok/s",
        ):
            assert line in s.text, line
        rates = app.chat.rates
        assert [one.ms for one in rates.rounds] == [one.ms for one in records[1].rounds]
        assert rates.record.decode_tok_s == turns[1].record.decode_tok_s
        assert (rates.num_accepted, rates.num_tested) == (15, 20)
        assert f"{15 / 8:.2f}/" in app.instruments.shown
        assert app.chat.info.profile == "nvfp4"
        await s.send("more")
        await s.until(lambda: "The replay is over" in s.text)
        await asyncio.sleep(0)
    worker.close()
    app.chat.close()
    kept = [path.suffix for path in (tmp_path / "none").rglob("*")]
    assert not {".jsonl", ".trace"} & set(kept)  # a draft may be: it is on disk while it is typed


async def test_escape_ends_the_replay_after_the_turn(seat, tmp_path):
    turns = read(record(tmp_path, engine=ExactEngine(rounds=50), num_turns=3)[0])
    engine = ReplayEngine(turns)
    async with seat(engine=engine, prompts=prompts_of(turns)) as s:
        await s.until(lambda: s.app.chat.phase == "writing")
        await s.pilot.press("escape")
        await s.idle()
        await asyncio.sleep(0.2)
        assert len(messages(s.app)) == 2


def messages(app):
    return app.chat.session.path_messages()
