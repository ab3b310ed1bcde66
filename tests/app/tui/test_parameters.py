"""F4 and the line of parameters: how answers are made, for one conversation."""

from dataclasses import replace

import pytest

from app.tui.screens.fields import DRAFTER_CHOICES, choices_of
from app.tui.screens.parameters import ROWS, ParameterScreen
from engine.settings.declared import KNOWN
from engine.types import Sampling
from tests.fakes.engine import INFO, Script, ScriptedEngine

THEIRS = Sampling(0.7, 20, 0.8, 0.05, 1.5, 1.1, 0)


def engine():
    info = replace(INFO, is_demo=False, default_sampling=THEIRS)
    return ScriptedEngine([Script(answer="fine")], info)


async def fill(s, text, *keys):
    await s.pilot.press(*["full_stop" if one == "." else one for one in text], *keys)


async def asked(s):
    await s.send("question")
    await s.idle()
    return s.engine.requests[-1]


async def test_the_panel_names_the_defaults_of_the_checkpoint(seat):
    async with seat(engine=engine(), size=(120, 36)) as s:
        await s.idle()
        await s.pilot.press("f4")
        await s.pilot.pause()
        for _, label in ROWS:
            assert label in s.text
        row = next(one for one in s.text.split("\n") if "presence penalty" in one)
        assert "1.5" in row
        assert "checkpoint" in row
        row = next(one for one in s.text.split("\n") if "logit bias" in one)
        assert "empty" in row


async def test_a_value_is_used_by_the_next_message_and_shown_below(seat):
    async with seat(engine=engine(), size=(120, 36)) as s:
        await s.idle()
        assert "temp 0.7 · top-p 0.8 · top-k 20" in s.text
        await s.pilot.press("f4")
        await fill(s, "0.25", "down", "down")
        await fill(s, "5", "escape")
        s.app.tick()
        assert "temp 0.25 · top-p 0.8 · top-k 5" in s.text
        sampling = (await asked(s)).sampling
        assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.25, 5, 0.8)


async def test_a_value_out_of_bounds_is_told_and_not_taken(seat):
    async with seat(engine=engine()) as s:
        await s.idle()
        await s.pilot.press("f4")
        await fill(s, "11")
        assert "'sampling.temperature' is 11, expected 0 to 10." in s.text
        await s.pilot.press("escape")
        await s.pilot.pause()
        assert "It stays as it was" in s.text
        assert (await asked(s)).sampling.temperature == 0.7


@pytest.mark.parametrize(("typed", "left_at"), [("11", 0.7), ("/trace t.json", 0.7), ("0.3", 0.3)])
async def test_a_row_that_is_left_before_its_change_was_told_is_read_as_it_is(seat, typed, left_at):
    async with seat(engine=engine()) as s:
        await s.idle()
        await s.pilot.press("f4")
        await fill(s, "12" if left_at == 0.3 else "0.5")
        s.app.focused.value = typed
        s.app.screen.action_leave()
        await s.pilot.pause()
        assert ("It stays as it was" in s.text) == (left_at == 0.7)
        assert (await asked(s)).sampling.temperature == left_at


async def test_words_are_walked_with_left_and_right(seat):
    async with seat(engine=engine()) as s:
        await s.idle()
        await s.send("/set drafter off")
        await s.pilot.press("f4")
        await s.pilot.press(*["down"] * 12)
        assert isinstance(s.app.screen, ParameterScreen)
        assert s.app.focused.name == "draft.drafter"
        await s.pilot.press("right", "down", "left", "down")
        await fill(s, "4", "escape")
        request = await asked(s)
        assert (request.drafter, request.draft_shape, request.num_draft_tokens) == (
            "mtp", "tree", 4,
        )  # fmt: skip


async def test_control_r_resets_a_row_and_then_every_row(seat):
    async with seat(engine=engine()) as s:
        await s.idle()
        await s.pilot.press("f4")
        await fill(s, "0.1", "down")
        await fill(s, "0.2", "up", "ctrl+r")
        assert s.app._live.settings.sampling.temperature is None
        assert s.app._live.settings.sampling.top_p == 0.2
        await s.pilot.press("ctrl+r")
        assert s.app._live.settings.sampling.top_p is None
        assert "every row" in s.text
        await s.pilot.press("escape")
        assert (await asked(s)).sampling.top_p == 0.8


async def test_the_system_prompt_is_edited_in_place(seat):
    async with seat(engine=engine()) as s:
        await s.idle()
        await s.send("/system")
        await s.pilot.pause()
        assert s.app.focused.name == "system"
        await s.pilot.press(*"brief", "escape")
        request = await asked(s)
        assert [one.content for one in request.messages] == ["brief", "question"]


async def test_each_conversation_keeps_its_own(seat):
    async with seat(engine=engine()) as s:
        await s.idle()
        await s.send("/set temperature 0.1")
        await asked(s)
        first = s.app.chat.session.id
        await s.pilot.press("ctrl+n")
        await s.send("/set temperature 0.9")
        await asked(s)
        await s.send(f"/resume {first}")
        assert (await asked(s)).sampling.temperature == 0.1
    async with seat(engine=engine(), resume=first) as s:
        await s.idle()
        assert (await asked(s)).sampling.temperature == 0.1


async def test_a_session_with_a_value_that_does_not_read_still_opens(seat, tmp_path):
    async with seat(engine=engine()) as s:
        await s.idle()
        await s.send("/set temperature 0.1")
        await asked(s)
        path = s.app.chat.session.path
    path.write_text(path.read_text().replace('"sampling.temperature":"0.1"', '"x.y":"1"').replace(
        '"sampling.temperature": "0.1"', '"x.y": "1"'))  # fmt: skip
    async with seat(engine=engine(), resume=path.stem) as s:
        await s.idle()
        assert "There is no setting 'x.y'" in s.text


@pytest.mark.parametrize("name", [name for name, _ in ROWS])
def test_every_row_is_a_setting_that_changes_at_once(name):
    assert KNOWN[name].when == "live"
    words = choices_of(KNOWN[name])
    assert set(words) <= {*KNOWN[name].choices, "on", "off", ""}
    assert set(DRAFTER_CHOICES) <= set(KNOWN["draft.drafter"].choices)


async def test_a_bias_that_does_not_read_is_refused_and_the_chat_goes_on(seat):
    async with seat(Script(answer="still here")) as s:
        await s.idle()
        await s.send("/set logit_bias 5:1,x")
        assert "holds 'x', expected ID:NUMBER" in " ".join(s.text.split())
        assert s.app._live.settings.sampling.logit_bias == ""
        await s.pilot.press("ctrl+c")  # a command with a fault stays in the box
        await s.send("hello")
        await s.until(lambda: "still here" in s.text)
