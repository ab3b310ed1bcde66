"""Every key is listed, every key has a command, and the palette holds everything."""

import pytest

from app.slash import SLASH_COMMANDS, parse_slash
from app.tui.keymap import KEYS, listed
from app.tui.palette import system_commands
from app.tui.screens.help import HelpScreen
from engine.settings.declared import KNOWN
from tests.fakes.profiles import FakeMenu, Load

OF_THE_HAND = {
    *("enter", "alt+enter", "up", "ctrl+o"),  # writing a message
    *("tab", "pageup", "pagedown", "j", "home", "n"),  # moving about
    *("ctrl+c", "ctrl+p", "ctrl+l"),  # what a terminal expects, the palette, drawing anew
}
"""Keys that a line which is typed could not stand for."""


def test_every_key_but_those_of_the_hand_has_a_command():
    without = {key.keys for key in KEYS if not key.command and key.where != "conversation"}
    assert without - OF_THE_HAND == set()
    moving = {key.keys for key in KEYS if not key.command and key.where == "conversation"}
    assert moving <= OF_THE_HAND | {"enter"}


@pytest.mark.parametrize("line", sorted({key.command for key in KEYS if key.command}))
def test_a_keys_command_is_in_the_table(line):
    command, _ = parse_slash(line)
    assert command in SLASH_COMMANDS


def test_help_lists_every_key():
    assert {key.keys for where in ("anywhere", "message", "conversation") for key in listed(where)
            } == {key.keys for key in KEYS if key.label}  # fmt: skip


def test_the_palette_holds_every_command_and_every_setting():
    lines = [one.title for one in system_commands(lambda line: None)]
    assert {f"/{one.name}" for one in SLASH_COMMANDS} <= set(lines)
    for name, one in KNOWN.items():
        own = [line for line in lines if line.split(" ")[:2] == ["/set", name]]
        assert own, name
        if one.choices and one.when == "live":
            assert [line.split(" ")[2] for line in own] == list(one.choices)
    assert all(parse_slash(line) for line in lines)


async def test_help_begins_with_what_has_the_focus(seat):
    async with seat(size=(100, 30)) as s:
        await s.idle()
        for keys, first in (((), "In the message box"), (("tab",), "In the conversation")):
            await s.pilot.press(*keys, "f1")
            await s.until(lambda: isinstance(s.app.screen, HelpScreen))
            await s.pilot.pause()
            titles = ("Anywhere", "In the message box", "In the conversation")
            found = [one for one in titles if one in s.text]
            assert min(found, key=s.text.index) == first
            await s.pilot.press("escape")
            await s.pilot.pause()


@pytest.mark.parametrize(
    ("key", "words"), [("f3", "is kept and read again"), ("f4", "default again")]
)
async def test_help_over_a_sheet_is_about_the_sheet(seat, key, words):
    menu = FakeMenu({"nvfp4": Load()})
    async with seat(opener=menu.opener("nvfp4"), profiles=menu, size=(100, 36)) as s:
        await s.idle()
        await s.pilot.press(key)
        await s.pilot.pause(0.1)
        await s.pilot.press("f1")
        await s.until(lambda: isinstance(s.app.screen, HelpScreen))
        await s.pilot.pause()
        assert words in " ".join(s.text.replace("│", " ").split())
        await s.pilot.press("f1")
        await s.pilot.pause()
        assert not isinstance(s.app.screen, HelpScreen)
        assert len(s.app.screen_stack) == 2


async def test_a_setting_of_the_palette_opens_its_row(seat):
    async with seat() as s:
        await s.idle()
        await s.send("/set top_k")
        await s.pilot.pause()
        assert s.app.focused.name == "sampling.top_k"
        await s.pilot.press("escape")
        await s.send("/set model.device")
        assert "model.device is auto" in s.text
