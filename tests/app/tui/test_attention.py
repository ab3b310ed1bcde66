"""The terminal's title and the bell: what a person sees and hears who looks elsewhere."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from app.tui.attention import GIVE_BACK, KEEP, Attention
from app.tui.clock import Clock
from app.tui.theme import DARK, get_look
from tests.app.tui.hostile import FORBIDDEN, HOSTILE
from tests.fakes.engine import INFO, Script


@pytest.fixture
def written(monkeypatch):
    """What goes to the terminal as a control sequence."""
    found = []
    monkeypatch.setattr(
        "app.tui.themed.ThemedApp.write_control", lambda self, text: found.append(text)
    )
    return found


def title(text):
    return f"\x1b]2;{text}\x07"


async def test_a_long_answer_rings_only_for_a_person_who_is_elsewhere(seat, monkeypatch):
    now = [0.0]
    rung = []
    async with seat(Script(answer="a b c d", round_s=0.05), clock=Clock(lambda: now[0])) as s:
        monkeypatch.setattr(s.app, "bell", lambda: rung.append(now[0]))
        await s.idle()
        for focused, seconds, rings in ((True, 60, 0), (False, 3, 0), (False, 60, 1)):
            s.app.app_focus = focused
            s.app.chat.submit("go")
            now[0] += seconds
            await s.idle()
            assert len(rung) == rings, (focused, seconds)


async def test_the_title_says_what_is_loaded_and_what_goes_on(seat, written):
    slow = Script(answer=" ".join("word" for _ in range(100)), round_s=0.02)
    async with seat(slow) as s:
        await s.idle()
        await s.send("go")
        await s.until(lambda: s.app.chat.phase == "writing")
        s.app.tick()
        await s.pilot.press("escape")
        await s.idle()
    assert written[0].startswith(KEEP)
    assert title("qwen38 · Qwen3.8-27B · demo · writing") in written
    assert written[-2:] == [title("qwen38 · Qwen3.8-27B · demo · ready"), GIVE_BACK]
    assert sum(KEEP in one for one in written) == 1


async def test_a_long_answer_stands_in_the_title_until_one_looks(seat, written):
    now = [0.0]
    async with seat(Script(answer="a b c d", round_s=0.05), clock=Clock(lambda: now[0])) as s:
        await s.idle()
        s.app.app_focus = False
        s.app.chat.submit("go")
        now[0] += 60
        await s.idle()
        assert written[-1].endswith("answer ready\x07")
        s.app.app_focus = True
        s.app.tick()
        assert written[-1].endswith(" ready\x07")
        assert "answer ready" not in written[-1]


async def test_the_title_is_left_alone_when_it_is_off(seat, written):
    async with seat(chat__title=False) as s:
        await s.idle()
        assert written == []
        await s.send("/set chat.title on")
        s.app.tick()
        assert written[0].startswith(KEEP)
        await s.send("/set chat.title off")
        s.app.tick()
        assert written[-1] == GIVE_BACK


@pytest.mark.parametrize("text", HOSTILE)
def test_a_name_from_a_file_ends_no_title(text):
    info = replace(INFO, model=text, profile=text)
    app = SimpleNamespace(look=get_look(DARK))
    chat = SimpleNamespace(info=info, phase="idle")
    shown = Attention(app, chat, None, None).title
    assert shown.startswith("qwen38 · ")
    assert not (FORBIDDEN | {"\n", "\t"}) & set(shown)
