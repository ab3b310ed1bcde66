"""Every state of a conversation through the real app: loading, failing, queueing, keeping."""

import asyncio
import errno
import os
import threading
from dataclasses import replace

import pytest

from app.sessions.store import SessionStore
from app.tui.run import farewell
from engine.errors import CancelledError, CheckpointError, RequestError
from engine.types import LoadProgressed
from tests.app.tui.hostile import FORBIDDEN, HOSTILE
from tests.fakes.engine import Script, ScriptedEngine, real_checkpoint_engine

LONG = "\n\n".join(f"Paragraph number {n} of a long answer." for n in range(60))
SLOW = Script(answer=LONG, round_s=0.2)


EARLY = LoadProgressed("model-00003-of-00011.safetensors", 3_200_000_000, 28_900_000_000, 2.1)


class SlowOpener:
    """Loads until it is let go or cancelled."""

    def __init__(self, engine, step=EARLY):
        self.engine, self.step = engine, step
        self.go = threading.Event()
        self.num_opened = 0

    def __call__(self, progress, cancel):
        self.num_opened += 1
        progress(self.step)
        while not self.go.wait(0.01):
            if cancel.is_set():
                raise CancelledError("The load was stopped.", "A message loads it again.")
        return self.engine


async def test_typing_is_taken_while_loading_and_sent_when_ready(seat):
    opener = SlowOpener(real_checkpoint_engine([Script(answer="here I am")]))
    async with seat(opener=opener) as s:
        await s.until(lambda: "2.10 GB/s" in s.state)
        assert "11% of 28.9 GB" in s.state
        await s.send("early bird")
        s.app.tick()
        assert "1 message queued" in s.state
        opener.go.set()
        await s.until(lambda: "here I am" in s.text)
        assert "early bird" in s.text


CAPTURED = LoadProgressed("rounds are captured, 12 of 36", 28_900_000_000, 28_900_000_000, 2.1)


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_what_a_load_does_behind_its_last_byte_is_seen(seat, size):
    opener = SlowOpener(real_checkpoint_engine([Script()]), CAPTURED)
    async with seat(opener=opener, size=size) as s:
        await s.until(lambda: "rounds are captured, 12 of 36" in s.state)
        assert "Esc cancels" in s.state
        assert "0 s left" not in s.text
        opener.go.set()
        await s.idle()


async def test_escape_cancels_a_load_and_a_message_loads_again(seat):
    opener = SlowOpener(real_checkpoint_engine([Script(answer="second time")]))
    async with seat(opener=opener) as s:
        await s.until(lambda: "GB/s" in s.state)
        await s.pilot.press("escape")
        await s.until(lambda: s.app.chat.phase == "unloaded")
        assert "The load was stopped." in s.text
        opener.go.set()
        await s.send("try again")
        await s.until(lambda: "second time" in s.text)
        assert opener.num_opened == 2


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (CheckpointError("The shard x is truncated.", "Download it again."), "Download it again."),
        (RuntimeError("boom \x1b[2J"), "RuntimeError: boom ␛[2J"),
    ],
)
async def test_a_load_that_fails_is_told_and_the_screen_lives(seat, problem, words):
    def fail(progress, cancel):
        raise problem

    async with seat(opener=fail) as s:
        await s.until(lambda: s.app.chat.phase == "unloaded")
        await s.pilot.pause()
        assert words in s.text
        await s.type("kept")
        assert s.app.composer.text == "kept"


async def test_demo_model_is_announced_with_how_to_give_a_real_one(seat):
    async with seat(engine=ScriptedEngine()) as s:
        await s.idle()
        assert "demo model" in s.text
        assert "--model DIR" in s.text


@pytest.mark.parametrize(
    "script",
    [
        Script(answer=LONG, fails_after=4),
        Script(answer=LONG, crashes_after=4),
    ],
)
async def test_an_engine_that_fails_keeps_the_conversation(seat, script):
    async with seat(script, Script(answer="alive again")) as s:
        await s.idle()
        await s.send("question one")
        await s.until(lambda: s.engine.requests and not s.app.chat.is_busy)
        await s.pilot.pause()
        told = ("device was lost", "engine crashed")
        assert any(words in s.text for words in told)
        await s.send("question two")
        await s.until(lambda: "alive again" in s.text)
        await s.idle()
        saved = s.store.open(s.app.chat.session.id, write=False)
        assert [one.content for one in saved.path_messages() if one.role == "user"] == [
            "question one", "question two",
        ]  # fmt: skip


async def test_a_refused_message_goes_back_into_the_box(seat):
    refused = Script(refuses=RequestError("The prompt has 9 tokens too many.", "Shorten it."))
    async with seat(Script(answer="one"), refused, refused, Script(answer="alive again")) as s:
        await s.idle()
        await s.send("question one")
        await s.until(lambda: s.engine.requests and not s.app.chat.is_busy)
        await s.send("//too long")
        await s.until(lambda: len(s.engine.requests) == 2 and not s.app.chat.is_busy)
        await s.pilot.pause()
        assert "Shorten it" in s.text
        assert s.app.composer.text == "//too long"
        assert s.app.history.entries()[-1] == "//too long"
        s.app.composer.clear_all()
        s.app.action_run("/redo")
        await s.until(lambda: len(s.engine.requests) == 3 and not s.app.chat.is_busy)
        assert s.app.composer.text == ""
        await s.send("question two")
        await s.until(lambda: "alive again" in s.text)
        await s.idle()
        kept = ["question one", "one", "question two", "alive again"]
        assert [one.content for one in s.engine.requests[3].messages] == kept[:3]
        saved = s.store.open(s.app.chat.session.id, write=False)
        assert [one.content for one in saved.path_messages()] == kept


async def test_a_message_refused_while_the_chat_closes_is_the_draft(seat):
    async with seat(Script(refuses=RequestError("Too long."))) as s:
        await s.idle()
        drain = s.app._worker.drain
        s.app._worker.drain = list  # the screen's clock takes nothing
        s.app.chat.submit("too long")
        await s.until(lambda: bool(s.app._worker._events))
        s.app._worker.drain = drain
        s.app.chat.close()
        session = s.app.chat.session
        assert (session.path_messages(), session.draft) == ([], "too long")


async def test_one_message_is_queued_shown_taken_back_and_sent(seat):
    async with seat(SLOW, Script(answer="to the second")) as s:
        await s.idle()
        await s.send("first")
        await s.until(lambda: s.app.chat.phase == "writing")
        await s.send("second")
        s.app.tick()
        await s.pilot.pause()
        assert "queued: second" in s.text
        await s.send("third")
        assert s.app.composer.text == "third"
        s.app.composer.clear_all()
        await s.pilot.press("up")
        assert s.app.composer.text == "second"
        assert not s.app.chat.waiting.queued
        await s.pilot.press("enter", "ctrl+enter")
        await s.until(lambda: "to the second" in s.text)


async def test_answer_is_on_disk_before_it_is_shown_complete(seat, monkeypatch):
    async with seat(Script(answer="final words")) as s:
        await s.idle()
        order = []
        finish = s.app.chat.session.finish_answer
        monkeypatch.setattr(
            s.app.chat.session, "finish_answer",
            lambda *a: order.append("disk") or finish(*a),
        )  # fmt: skip
        monkeypatch.setattr(
            "app.tui.answer_view.foot_of", lambda *a, **k: order.append("screen") or []
        )
        await s.send("go")
        await s.idle()
        assert order == ["disk", "screen"]


async def test_a_full_disk_is_told_and_the_chat_goes_on(seat, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with seat(Script(answer="still talking")) as s:
        await s.idle()
        monkeypatch.setattr("app.appended.write_all", full)
        await s.send("hello")
        await s.until(lambda: "still talking" in s.text)
        await s.idle()
        assert "not on disk" in s.text.replace("\n", " ")
        monkeypatch.undo()
        await s.send("more")
        await s.idle()
        saved = SessionStore(s.store.folder).open(s.app.chat.session.id, write=False)
        assert [one.role for one in saved.path_messages()] == ["user", "assistant"] * 2


async def test_a_damaged_session_opens_with_a_notice(seat):
    async with seat() as s:
        await s.idle()
        await s.send("before the crash")
        await s.idle()
        session = s.app.chat.session
    with session.path.open("ab") as file:
        file.write(b'{"type": "mess\x00\x00')
    async with seat(resume=session.id) as s:
        await s.idle()
        assert "before the crash" in s.text
        assert "damaged line" in s.text


async def test_draft_is_on_disk_while_typing_and_comes_back(seat):
    async with seat() as s:
        await s.idle()
        await s.type("half a thou")
        await asyncio.sleep(0.7)
        s.app.tick()
        assert s.app.chat.session.draft == "half a thou"
    async with seat() as s:
        assert s.app.composer.text == "half a thou"


async def test_resizing_while_streaming_keeps_everything(seat):
    async with seat(SLOW) as s:
        await s.idle()
        await s.send("go")
        for size in ((120, 36), (40, 10), (60, 16), (200, 60), (20, 5), (80, 24)):
            await s.until(lambda: s.app.chat.is_busy)
            await s.pilot.resize_terminal(*size)
            await asyncio.sleep(0.05)
        await s.pilot.press("escape")
        await s.idle()
        assert "stopped, the text is kept" in s.text


@pytest.mark.parametrize("key", ["f1", "f4", "f6", "ctrl+r", "alt+r", "ctrl+p"])
async def test_a_sheet_that_is_asked_to_close_twice_closes_once(seat, key):
    async with seat(Script(answer="fine")) as s:
        await s.idle()
        await s.send("question")
        await s.idle()
        await s.pilot.press(key)
        sheet = s.app.screen
        assert len(s.app.screen_stack) == 2
        sheet.dismiss(None)
        sheet.dismiss(None)
        await s.pilot.pause()
        assert len(s.app.screen_stack) == 1
        await s.type("still here")
        assert "still here" in s.text


NEXT_TO_NOTHING = [(1, 1), (3, 40), (9, 2), (10, 3), (200, 1)]


@pytest.mark.parametrize(
    "keys",
    [(), ("f1",), ("f2", "f2", "f2"), ("f4",), ("shift+f5",), ("f6",), ("ctrl+r",), ("alt+r",),
     ("ctrl+p",), ("ctrl+f", "a"), ("f9",)],
)  # fmt: skip
async def test_a_window_of_next_to_nothing_ends_nothing(seat, keys):
    answer = "A volcano. `code`\n\n```py\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    async with seat(Script(answer=answer, thinking="hm"), size=(120, 36)) as s:
        await s.idle()
        await s.send("what is a volcano?")
        await s.idle()
        await s.pilot.press(*keys)
        for size in (*NEXT_TO_NOTHING, (120, 36)):
            await s.pilot.resize_terminal(*size)
        await s.pilot.press("escape", "escape")
        await s.idle()
        assert "A volcano." in s.text


@pytest.mark.parametrize("size", [(40, 10), (60, 16), (80, 24), (120, 36), (200, 60)])
async def test_stop_hint_and_input_never_go(seat, size):
    async with seat(SLOW, size=size) as s:
        await s.idle()
        await s.send("go")
        await s.until(lambda: s.app.chat.phase == "writing")
        await s.type("visible input")
        assert "Esc" in s.text
        assert "visible input" in s.text
        await s.until(lambda: "tok/s" in s.text)
        await s.pilot.press("escape")


async def test_figures_are_the_records_and_stay_when_idle(seat):
    async with seat(Script(answer="one two three four five six seven", round_s=0.01)) as s:
        await s.idle()
        assert "no answer yet" in s.app.instruments.shown
        await s.send("go")
        await s.idle()
        rates, record = s.app.chat.rates, s.app.chat.rates.record
        assert rates.num_tokens == len(record.token_ids) == 7
        shown = s.app.instruments.shown
        assert f"mean {record.decode_tok_s:.1f}" in shown
        accepted = sum(r.accepted for r in record.rounds) / len(record.rounds)
        assert f"{accepted:.2f}/3 taken" in shown
        used = record.prompt_tokens + len(record.token_ids)
        assert f"context {used}/4.1k" in shown
        saved = s.app.chat.session.id
    async with seat(resume=saved) as s:
        await s.idle()
        assert f"mean {record.decode_tok_s:.1f}" in s.app.instruments.shown


async def test_engine_notices_are_shown(seat):
    async with seat(Script(notice="The tile table is missing; a slower path runs.")) as s:
        await s.idle()
        await s.send("go")
        await s.idle()
        assert "a slower path runs" in s.text


async def test_what_is_to_know_of_a_model_is_shown_when_it_is_loaded(seat):
    info = replace(ScriptedEngine().info, notices=("Keys and values are kept in 8 bits.",))
    async with seat(engine=ScriptedEngine(info=info)) as s:
        await s.idle()
        assert "kept in 8 bits" in s.text


async def test_quitting_while_answering_keeps_what_arrived(seat):
    async with seat(SLOW) as s:
        await s.idle()
        await s.send("go")
        await s.until(lambda: "number 1 " in s.text)
        session = s.app.chat.session
    last = s.store.open(session.id, write=False).path_messages()[-1]
    assert last.state == "stopped"
    assert "number 1 " in last.content


async def test_farewell_names_title_path_tokens_and_the_command(seat):
    async with seat(Script(answer="a b c d e", round_s=0.01)) as s:
        await s.idle()
        await s.send("bye \x1b[2J")
        await s.idle()
        text = farewell(s.app.chat.session)
    session = s.app.chat.session
    assert f"qwen38 chat --resume {session.id}" in text
    assert str(session.path) in text
    assert "5 tokens" in text
    assert "tok/s" in text
    assert not FORBIDDEN & set(text)


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_answers_draw_as_text(seat, text):
    script = Script(answer=f"{text}\n\nthe end", thinking=text)
    async with seat(script, chat__show_thinking="open") as s:
        await s.idle()
        await s.paste(text)
        await s.send(" ")
        await s.idle()
        assert s.engine.requests
        assert not FORBIDDEN & set(s.text)
        assert not s.app._exit


async def test_nothing_is_kept_when_saving_is_off(seat, tmp_path):
    async with seat(keep=False) as s:
        await s.idle()
        await s.send("off the record")
        await s.idle()
    assert not list(tmp_path.rglob("*.jsonl")) or "off the record" not in "".join(
        one.read_text() for one in (tmp_path / "data").rglob("*.jsonl")
    )
