"""Keys of the person's own: read, refused in a sentence, shown and obeyed."""

import pytest

from app.tui.own_keys import OwnKey, read_own_keys
from app.tui.screens.help import HelpScreen
from engine.errors import SettingsError


def written(folder, text):
    (folder / "keys.toml").write_text(text)
    return folder


def test_no_file_is_no_key(tmp_path):
    assert read_own_keys(tmp_path) == ()


def test_a_key_is_named_as_a_person_writes_it(tmp_path):
    text = 'F10 = "/redo"\n"Shift+Ctrl+B" = "/set temperature 0"\n"alt+up" = "/branch previous"\n'
    assert read_own_keys(written(tmp_path, text)) == (
        OwnKey("f10", "/redo"),
        OwnKey("ctrl+shift+b", "/set temperature 0"),
        OwnKey("alt+up", "/branch previous"),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('x = "/redo"', "'x' is no key that can be given"),
        ('"shift+a" = "/redo"', "'shift+a' is no key that can be given"),
        ('"hyper+a" = "/redo"', "'hyper+a' is no key"),
        ('f99 = "/redo"', "'f99' is no key"),
        ('f5 = "/new"', "'f5' is a key of the chat. F1 lists those"),
        ('"ctrl+j" = "/new"', "'ctrl+j' is a key of the chat"),
        ('"alt+n" = "/redo"\n"Alt+N" = "/new"', "'Alt+N' and 'alt+n' are one key"),
        ('"alt+shift+b" = "/redo"\n"shift+alt+b" = "/redo"', "are one key"),
        ("f10 = 7", "'f10' is 7. Write a command"),
        ('f10 = "hello"', "'f10' is 'hello', which is no command"),
        ('f10 = "/redoo"', "There is no command /redoo. Did you mean 'redo'?"),
        ('f10 = "/new x"', "/new takes nothing behind it"),
        ("f10 = ", "keys.toml does not read"),
    ],
)
def test_what_does_not_read_is_refused_in_a_sentence(tmp_path, text, said):
    with pytest.raises(SettingsError) as refused:
        read_own_keys(written(tmp_path, text))
    assert said in str(refused.value)
    assert "keys.toml" in str(refused.value)


async def test_a_key_of_ones_own_runs_its_line_while_one_writes(seat):
    keys = (OwnKey("ctrl+k", "/set temperature 0.25"), OwnKey("f10", "/rename it's (a, b) \\ sea"))
    async with seat(own_keys=keys, size=(100, 36)) as s:
        await s.idle()
        await s.type("kept")
        await s.pilot.press("ctrl+k", "f10")
        await s.pilot.pause()
        assert "sampling.temperature is 0.25" in s.text
        assert s.app.chat.session.title == "it's (a, b) \\ sea"
        assert s.app.composer.text == "kept"
        await s.pilot.press("f1")
        await s.pilot.pause()
        assert isinstance(s.app.screen, HelpScreen)
        await s.pilot.press("end")
        await s.pilot.press("f10")
        assert isinstance(s.app.screen, HelpScreen)


async def test_help_lists_keys_of_ones_own(seat):
    async with seat(own_keys=(OwnKey("f10", "/redo"),), size=(100, 180)) as s:
        await s.pilot.press("f1")
        await s.pilot.pause()
        rows = s.text.split("Your own keys")[1]
        assert "keys.toml" in rows
        assert "f10" in rows
        assert "/redo" in rows
