"""Hostile texts through every path that draws: names, files, notices, errors, titles, replays."""

import json
from dataclasses import replace

import pytest

from app.report import say
from app.sessions.export import as_markdown
from app.trace.replay import ReplayEngine, prompts_of
from app.tui.run import farewell
from engine.errors import CheckpointError, RequestError
from engine.types import LoadProgressed
from tests.app.trace.scripted import read, record
from tests.app.tui.hostile import FORBIDDEN, HOSTILE
from tests.fakes.engine import INFO, Script, ScriptedEngine

BROKEN_UTF8 = b'\xff\xfe\xc3\x28 {"type": "message", "id": "x", "content": "\xed\xa0\x80"}\n'
NUMBERED = [*enumerate(HOSTILE)]


def _line(kind, **fields):
    return json.dumps({"type": kind, **fields})


def assert_clean(s):
    assert not FORBIDDEN & set(s.text)
    assert not s.app._exit


@pytest.mark.parametrize(("number", "text"), NUMBERED)
async def test_names_of_a_model_and_its_files(seat, number, text):
    """The header, the titles of answers, the load line, and the engine's own notices."""
    del number
    info = replace(INFO, model=text, profile=text, device=text, is_demo=False)
    engine = ScriptedEngine([Script(notice=text)], info)

    def opener(progress, cancel):
        progress(LoadProgressed(text, 1, 2, 1.0))
        return engine

    async with seat(opener=opener, engine=engine, size=(120, 36)) as s:
        assert_clean(s)
        await s.idle()
        await s.send("go")
        await s.idle()
        assert_clean(s)
        assert not FORBIDDEN & set(s.app._frame.header.shown)


@pytest.mark.parametrize(("number", "text"), NUMBERED)
async def test_errors_and_refusals(seat, number, text):
    del number
    refused = Script(refuses=RequestError(text, text))
    async with seat(refused, size=(120, 36)) as s:
        await s.idle()
        await s.paste(text)
        await s.send(" ")
        await s.until(lambda: not s.app.chat.is_busy)
        s.app.tick()
        await s.pilot.pause()
        assert_clean(s)
        s.app.chat.notice(text, text, "error")
        s.app.hint(text.replace("\n", " "))
        await s.pilot.pause()
        assert_clean(s)
        s.app.action_run(f"/set theme {text}")
        s.app.action_run(f"/find {text}")
        s.app.action_run(f"/export {text}.docx")
        await s.pilot.pause()
        assert_clean(s)


async def test_a_load_that_fails_with_a_name_from_a_file(seat):
    text = "".join(HOSTILE)

    def fail(progress, cancel):
        raise CheckpointError(text, text)

    async with seat(opener=fail, size=(120, 36)) as s:
        await s.until(lambda: s.app.chat.phase == "unloaded")
        await s.pilot.pause()
        assert_clean(s)


async def test_a_session_file_of_broken_bytes_and_foreign_values(seat, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    deep = "[" * 100_000
    lines = [
        _line("session", format=1, id="x", at="\x1b[2J", model=HOSTILE[0]),
        _line("title", text="".join(HOSTILE), at="\x9b"),
        _line("message", id="\x1b", parent="", role="user", content="a\x9b"),
        _line("message", id="n", parent="\x1b", role="assistant", content="x" * 1_000_000,
              reasoning="> " * 5000, at="\x1b]0;t\x07", record={"rounds": deep[:50]}),
        _line("message", id=7, parent=[], role="root", content=None),
        deep,
    ]  # fmt: skip
    data = "\n".join(lines).encode() + b"\n" + BROKEN_UTF8
    (folder / "20260101-000000-abcd.jsonl").write_bytes(data)
    (folder / "\x1b]0;name\x07.jsonl").write_bytes(data)
    async with seat(size=(120, 36), resume="20260101-000000-abcd") as s:
        await s.idle()
        assert_clean(s)
        assert "damaged line" in " ".join(s.app.chat.session.warnings)
        await s.pilot.press("ctrl+r")
        await s.until(lambda: "now" in s.text)
        assert_clean(s)
        await s.pilot.press("escape")
        assert not FORBIDDEN & set(farewell(s.app.chat.session))


async def test_a_replay_of_a_hostile_trace(seat, tmp_path):
    text = "\n\n".join(HOSTILE).encode("utf-8", "replace").decode()
    path, _ = record(tmp_path, Script(answer=text, thinking=text), trace__keep_text=True)
    turns = read(path)
    engine = ReplayEngine(turns, 1000.0)
    async with seat(engine=engine, prompts=prompts_of(turns), size=(120, 36)) as s:
        await s.until(lambda: s.app.chat.rates is not None and s.app.chat.rates.record)
        await s.idle()
        assert_clean(s)


def test_what_is_told_on_stderr_is_one_clean_line(capsys):
    for text in HOSTILE:
        say(text)
    assert not FORBIDDEN & set(capsys.readouterr().err)


def test_an_exported_document_keeps_the_text_as_it_is(tmp_path):
    from app.sessions.store import SessionStore

    session = SessionStore(tmp_path).create("m", "demo", "")
    for text in HOSTILE:
        session.add_message("user", text)
    for text in HOSTILE:
        assert text in as_markdown(session)
