"""Branches through the real app: write anew, answer again, walk, and see where one is."""

import pytest

from app.tui.screens.branches import BranchScreen
from engine.errors import RequestError
from tests.fakes.engine import Script


async def talk(s, *prompts):
    await s.idle()
    for prompt in prompts:
        await s.send(prompt)
        await s.until(lambda: s.engine.requests and not s.app.chat.is_busy)
        await s.idle()


async def again(s, *keys):
    """Press keys that begin an answer, and wait for its end."""
    before = len(s.engine.requests)
    await s.pilot.press(*keys)
    await s.until(lambda: len(s.engine.requests) > before and not s.app.chat.is_busy)
    await s.idle()


def contents(s):
    return [one.content for one in s.app.chat.session.path_messages()]


THREE = (Script(answer="one"), Script(answer="two"), Script(answer="three"))


async def test_e_writes_a_message_anew_beside_the_old_one(seat):
    async with seat(*THREE) as s:
        await talk(s, "first", "second")
        await s.type("half a thought")
        await s.pilot.press("tab", "k", "k", "k", "k", "e")
        assert s.app.composer.text == "first"
        assert "written anew" in s.text
        await s.type(", but better")
        await again(s, "enter")
        assert contents(s) == ["first, but better", "three"]
        assert s.app.composer.text == "half a thought"
        assert "branch 2 of 2" in s.text
        assert "you · 2 of 2" in s.text
        assert s.app.history.entries()[-2:] == ["half a thought", "first, but better"]


async def test_escape_gives_up_and_the_box_has_its_text_again(seat):
    async with seat(*THREE) as s:
        await talk(s, "first")
        await s.type("half a thought")
        await s.pilot.press("tab", "e")
        assert s.app.composer.text == "first"
        await s.pilot.press("escape")
        assert s.app.composer.text == "half a thought"
        assert "written anew" not in s.text
        assert contents(s) == ["first", "one"]


async def test_an_answer_written_anew_is_what_the_next_message_follows(seat):
    async with seat(*THREE) as s:
        await talk(s, "first")
        await s.pilot.press("tab", "k", "e")
        assert s.app.composer.text == "one"
        await s.type(" and a half")
        await s.pilot.press("enter")
        await s.idle()
        assert contents(s) == ["first", "one and a half"]
        await talk(s, "second")
        asked = [one.content for one in s.engine.requests[-1].messages]
        assert asked == ["first", "one and a half", "second"]


async def test_brackets_walk_between_the_messages_beside_each_other(seat):
    async with seat(*THREE) as s:
        await talk(s, "question")
        for _ in range(2):
            await again(s, "f5")
        assert contents(s) == ["question", "three"]
        await s.pilot.press("tab", "[")
        assert contents(s) == ["question", "two"]
        await s.pilot.press("[")
        assert contents(s) == ["question", "one"]
        assert s.app.transcript.cursor.message_id == s.app.chat.session.leaf
        await s.pilot.press("[")
        assert contents(s) == ["question", "three"]
        await s.pilot.press("]")
        assert contents(s) == ["question", "one"]
        s.app.tick()
        await s.pilot.pause()
        assert "branch 1 of 3" in s.text
        await s.pilot.press("escape")
        await s.send("/branch 2")
        assert contents(s) == ["question", "two"]
        await s.send("/branch 9")
        assert "There is no branch 9; there are 3." in s.text


async def test_brackets_say_when_there_is_nothing_beside(seat):
    async with seat(*THREE) as s:
        await talk(s, "question")
        await s.pilot.press("tab", "]")
        await s.pilot.pause()
        assert "No message here has another beside it." in s.text


async def test_r_answers_again_from_where_the_cursor_is(seat):
    async with seat(*THREE) as s:
        await talk(s, "first", "second")
        await again(s, "tab", "k", "k", "k", "r")
        assert contents(s) == ["first", "three"]
        assert [one.content for one in s.engine.requests[-1].messages] == ["first"]


async def test_f6_lists_the_branches_and_goes_to_one(seat):
    async with seat(*THREE) as s:
        await talk(s, "first")
        await again(s, "f5")
        await s.pilot.press("f6")
        await s.pilot.pause()
        assert isinstance(s.app.screen, BranchScreen)
        assert "answer: one" in s.text
        assert "answer: two" in s.text
        await s.pilot.press("up", "enter")
        await s.until(lambda: contents(s) == ["first", "one"])


async def test_f6_without_a_message_says_so(seat):
    async with seat() as s:
        await s.idle()
        await s.pilot.press("f6")
        assert "no message yet" in s.state


async def test_a_refused_turn_leaves_no_branch(seat):
    refused = Script(refuses=RequestError("Too long."))
    async with seat(Script(answer="one"), refused, refused) as s:
        await talk(s, "first")
        await s.send("too long")
        await s.until(lambda: len(s.engine.requests) == 2 and not s.app.chat.is_busy)
        s.app.composer.clear_all()
        await s.pilot.press("f5")
        await s.until(lambda: len(s.engine.requests) == 3 and not s.app.chat.is_busy)
        assert [one.content for one in s.app.chat.session.tree().leaves()] == ["one"]


async def test_a_refused_turn_takes_its_message_back_and_leaves_notices(seat):
    refused = Script(refuses=RequestError("Too long."))
    async with seat(Script(answer="one"), refused, size=(100, 36)) as s:
        await talk(s, "first")
        s.app.action_run("/set max_tokens 77")
        await s.send("too long")
        await s.until(lambda: "Too long." in s.text)
        s.app.tick()
        await s.pilot.pause()
        assert "sampling.max_tokens is 77" in s.text
        assert s.text.count("too long") == 1
        assert s.app.composer.text == "too long"
        assert contents(s) == ["first", "one"]


async def test_what_was_written_anew_and_given_up_is_in_the_history(seat):
    async with seat(*THREE) as s:
        await talk(s, "first")
        await s.type("unsent")
        s.app.action_run("/edit 1")
        await s.pilot.pause()
        await s.type(" but not so")
        s.app.action_run("/edit 1")
        await s.pilot.pause()
        assert s.app.history.entries()[-1] == "first but not so"
        await s.type(" with more")
        await s.pilot.press("escape")
        assert s.app.composer.text == "unsent"
        assert s.app.history.entries()[-1] == "first with more"


@pytest.mark.parametrize("line", ["/edit 7", "/redo 7"])
async def test_a_message_that_is_not_there_is_said(seat, line):
    async with seat(*THREE) as s:
        await talk(s, "first")
        await s.send(line)
        assert "There is no message 7 of yours from the end." in s.text
        assert contents(s) == ["first", "one"]


async def test_branches_survive_a_restart(seat):
    async with seat(*THREE) as s:
        await talk(s, "first")
        await again(s, "f5")
        session = s.app.chat.session.id
    async with seat(*THREE, resume=session) as s:
        await s.idle()
        assert contents(s) == ["first", "two"]
        await s.pilot.press("tab", "[")
        assert contents(s) == ["first", "one"]
