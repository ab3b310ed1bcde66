"""Shift+F5: the answer once more, with other values than it had, as a branch beside it."""

import pytest

from app.tui.screens.retry import RetryScreen
from tests.app.tui.test_branches import THREE, again, contents, talk
from tests.app.tui.test_parameters import fill


def sampling(s, at=-1):
    return s.engine.requests[at].sampling


async def open_panel(s, *keys):
    await s.pilot.press(*keys)
    await s.until(lambda: isinstance(s.app.screen, RetryScreen))
    await s.pilot.pause()


@pytest.mark.parametrize("key", ["shift+f5", "f17"])
async def test_the_panel_begins_with_the_values_that_the_answer_had(seat, key):
    async with seat(*THREE, size=(100, 36), sampling__top_k=20) as s:
        await s.idle()
        await s.send("/set temperature 0.3")
        await talk(s, "question")
        await s.send("/set temperature 0.8")
        await open_panel(s, key)
        rows = s.text.split("\n")
        temperature = next(row for row in rows if " temperature " in row)
        assert "0.3" in temperature
        assert "its own" in temperature
        assert str(sampling(s).seed) in next(row for row in rows if " seed " in row)
        assert "system prompt" not in s.text
        await s.pilot.press("escape")
        assert len(s.engine.requests) == 1


async def test_other_values_make_a_branch_and_change_nothing_else(seat):
    async with seat(*THREE, size=(100, 36)) as s:
        await talk(s, "question")
        seed = sampling(s).seed
        await open_panel(s, "shift+f5")
        await fill(s, "0.2", "down")
        await again(s, "f5")
        assert contents(s) == ["question", "two"]
        assert "branch 2 of 2" in s.text
        assert (sampling(s).temperature, sampling(s).seed) == (0.2, seed)
        assert s.app._live.settings.sampling.temperature is None
        await again(s, "f5")
        assert sampling(s).temperature == 1.0


async def test_an_empty_seed_is_a_fresh_one(seat):
    async with seat(*THREE, size=(100, 36)) as s:
        await talk(s, "question")
        await open_panel(s, "shift+f5")
        await s.pilot.press(*["down"] * 8)
        assert s.app.focused.name == "sampling.seed"
        await s.pilot.press("end", *["backspace"] * 12)
        await again(s, "f5")
        assert sampling(s).seed != sampling(s, 0).seed


async def test_a_value_out_of_bounds_keeps_the_panel_open(seat):
    async with seat(*THREE, size=(100, 36)) as s:
        await talk(s, "question")
        await open_panel(s, "shift+f5")
        await fill(s, "11", "down", "f5")
        assert isinstance(s.app.screen, RetryScreen)
        assert s.app.focused.name == "sampling.temperature"
        assert "expected 0 to 10" in s.text
        await s.pilot.press("escape")
        assert len(s.engine.requests) == 1


async def test_values_behind_the_command_need_no_panel(seat):
    async with seat(*THREE, size=(100, 36)) as s:
        await talk(s, "first", "second")
        await s.send("/retry 2 temperature=0.5 seed=7")
        await s.until(lambda: len(s.engine.requests) == 3 and not s.app.chat.is_busy)
        assert contents(s) == ["first", "three"]
        assert (sampling(s).temperature, sampling(s).seed) == (0.5, 7)
        await s.send("/retry theme=light")
        assert "no value that an answer is made with" in s.text


async def test_shift_r_is_about_the_message_under_the_cursor(seat):
    async with seat(*THREE, size=(100, 36)) as s:
        await talk(s, "first", "second")
        await open_panel(s, "tab", "k", "k", "k", "R")
        await again(s, "ctrl+enter")
        assert contents(s) == ["first", "three"]


async def test_without_a_message_it_is_said(seat):
    async with seat(size=(100, 36)) as s:
        await s.idle()
        await s.pilot.press("shift+f5")
        assert "There is no message to answer again." in s.text
