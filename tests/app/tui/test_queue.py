"""What is not sent yet: queued, dropped, sent at once, searched, expanded, never lost."""

from textual import events

from app.tui.clock import Clock
from app.tui.screens.history import HistoryScreen
from tests.app.tui.hostile import FORBIDDEN, HOSTILE
from tests.app.tui.test_states import SLOW
from tests.fakes.engine import Script


async def writing(s):
    await s.idle()
    await s.send("first")
    await s.until(lambda: s.app.chat.phase == "writing")


def sent(s):
    return [one.messages[-1].content for one in s.engine.requests]


async def test_a_stopped_answer_gives_the_queued_message_back_unsent(seat):
    async with seat(SLOW, Script()) as s:
        await writing(s)
        await s.send("second")
        await s.pilot.press("escape")
        await s.idle()
        assert s.app.composer.text == "second"
        assert sent(s) == ["first"]


async def test_a_stopped_answer_leaves_the_queue_while_something_is_typed(seat):
    async with seat(SLOW, Script()) as s:
        await writing(s)
        await s.send("second")
        await s.type("third")
        await s.pilot.press("escape")
        await s.idle()
        assert (s.app.composer.text, s.app.chat.waiting.queued) == ("third", "second")


async def test_del_drops_the_queued_message_into_the_history(seat):
    async with seat(SLOW) as s:
        await writing(s)
        await s.send("second")
        s.app.tick()
        await s.pilot.press("delete")
        assert s.app.chat.waiting.queued == ""
        await s.pilot.press("up")
        assert s.app.composer.text == "second"
        await s.pilot.press("escape")


async def test_control_enter_stops_the_answer_and_sends(seat):
    async with seat(SLOW, Script(answer="to the point")) as s:
        await writing(s)
        await s.type("second")
        await s.pilot.press("ctrl+enter")
        await s.until(lambda: "to the point" in s.text)
        assert sent(s) == ["first", "second"]


async def test_now_sends_the_queued_message_and_says_when_there_is_none(seat):
    async with seat(SLOW, Script(answer="to the point")) as s:
        await writing(s)
        await s.send("second")
        await s.send("/now")
        await s.until(lambda: "to the point" in s.text)
        await s.idle()
        assert sent(s) == ["first", "second"]
        await s.send("/now")
        assert "nothing is queued" in s.state


async def test_a_queued_message_is_on_disk_and_the_next_start_has_it(seat):
    async with seat(SLOW) as s:
        await writing(s)
        await s.send("second")
        await s.type("third")
        s.app._desk.keep()
        assert s.app.chat.session.draft == "second\nthird"
        session = s.app.chat.session.id
    async with seat(resume=session) as s:
        assert s.app.composer.text == "second\nthird"


async def test_alt_r_searches_earlier_prompts(seat):
    async with seat() as s:
        await s.idle()
        for prompt in ("about lava", "about basalt", "about ash"):
            await s.send(prompt)
            await s.idle()
        await s.type("unsent")
        await s.pilot.press("alt+r")
        await s.pilot.pause()
        assert isinstance(s.app.screen, HistoryScreen)
        assert "about basalt" in s.text
        await s.pilot.press(*"lava", "enter")
        await s.pilot.pause()
        assert s.app.composer.text == "about lava"
        assert s.app.history.entries()[-1] == "unsent"
        s.app.action_run("/history basalt")
        await s.pilot.pause()
        await s.pilot.press("enter")
        await s.pilot.pause()
        assert s.app.composer.text == "about basalt"


async def test_hostile_prompts_in_the_search_draw_as_text(seat):
    async with seat(size=(120, 36)) as s:
        await s.idle()
        for text in HOSTILE:
            s.app.history.add(text)
        await s.pilot.press("alt+r")
        await s.pilot.pause()
        assert not FORBIDDEN & set(s.text)
        await s.pilot.press("escape")


async def test_control_o_shows_a_paste_in_full(seat):
    text = "\n".join(f"line {n}" for n in range(20))
    async with seat() as s:
        await s.paste(text)
        assert "[pasted text" in s.app.composer.text
        await s.pilot.press("ctrl+o")
        assert s.app.composer.text == text
        s.app.composer.clear_all()
        await s.paste("x" * 200_000)
        await s.pilot.press("ctrl+o")
        await s.pilot.pause()
        assert "[pasted text" in s.app.composer.text
        assert "Ctrl+G opens it" in s.state


async def test_keys_behind_enter_are_of_the_next_message(seat):
    async with seat(SLOW, Script()) as s:
        await s.idle()
        keys = ["first", "enter", "second", "enter", "third"]
        for word in keys:
            for key in [word] if word == "enter" else word:
                s.app.composer.post_message(events.Key(key, "\r" if key == "enter" else key))
        await s.until(lambda: s.app.chat.phase == "writing")
        await s.pilot.pause()
        assert sent(s) == ["first"]
        assert (s.app.chat.waiting.queued, s.app.composer.text) == ("second", "third")
        s.app.composer.post_message(events.Key("enter", "\r"))
        s.app.composer.post_message(events.Key("4", "4"))
        await s.pilot.pause()
        assert (s.app.chat.waiting.queued, s.app.composer.text) == ("second", "third\n4")


async def test_what_a_second_press_does_is_said_only_while_it_does(seat):
    seconds = [100.0]
    async with seat(clock=Clock(seconds=lambda: seconds[0])) as s:
        await s.idle()
        await s.pilot.press("ctrl+c")
        assert "again quits" in s.state
        seconds[0] += 2
        s.app.tick()
        assert "again quits" not in s.state


async def test_a_command_that_has_to_wait_stays_in_the_box(seat):
    async with seat(SLOW) as s:
        await writing(s)
        for line in ("/new", "/redo", "/branch next", "/sessions", "/compare fp8"):
            await s.send(line)
            await s.pilot.pause()
            assert s.app.composer.text == line
            assert "Esc stops it" in s.state
            s.app.composer.clear_all()
        await s.send("/redo")
        await s.pilot.press("escape")
        await s.idle()
        await s.pilot.press("enter")
        await s.until(lambda: len(s.engine.requests) == 2)
        assert s.app.composer.text == ""


async def test_a_command_with_a_fault_stays_to_be_mended(seat):
    async with seat() as s:
        await s.idle()
        await s.send("/set temprature 0.5")
        await s.pilot.pause()
        assert "There is no setting" in s.text
        assert s.app.composer.text == "/set temprature 0.5"
        assert s.app.history.entries() == []


async def test_control_enter_runs_a_command_as_enter_does(seat):
    async with seat() as s:
        await s.idle()
        await s.type("/rename the sea")
        await s.pilot.press("ctrl+enter")
        await s.pilot.pause()
        assert s.app.chat.session.title == "the sea"
        assert s.engine.requests == []


async def test_a_very_long_text_that_is_cleared_comes_back_with_up(seat):
    async with seat() as s:
        await s.idle()
        await s.paste("word\n" * 50_000)
        await s.pilot.press("ctrl+c")
        assert s.app.composer.text == ""
        await s.pilot.press("up")
        assert s.app.composer.full_text == "word\n" * 50_000
        assert not s.app.history.path.exists()
