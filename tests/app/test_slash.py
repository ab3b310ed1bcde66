"""One table of commands, and settings that change while the app runs."""

import pytest

from app.live import LiveSettings
from app.slash import SLASH_COMMANDS, help_text, message_text, parse_slash, typed_text
from engine.errors import RequestError, SettingsError
from engine.settings.declared import KNOWN
from engine.settings.registry import Resolved


def live():
    return LiveSettings.of({name: Resolved(one.default, "default") for name, one in KNOWN.items()})


def test_commands_are_told_from_messages():
    assert parse_slash("/set temperature 0.5")[1] == "temperature 0.5"
    assert parse_slash("  /regen ")[0].name == "redo"
    for text in ("hello", "/etc/hosts is a file", "//help", "/ and", "/Set x", ""):
        assert parse_slash(text) is None
    assert message_text("//help") == "/help"
    assert message_text("/etc/hosts") == "/etc/hosts"


def test_set_system_is_system():
    for line, argument in (
        ("/set system", ""), ("/set system be brief", "be brief"), ("/set system\na\nb", "a\nb"),
    ):  # fmt: skip
        command, found = parse_slash(line)
        assert (command.name, found) == ("system", argument)
    for line in ("/set chat.system x", "/set systemic x"):
        assert parse_slash(line)[0].name == "set"


def test_an_unknown_command_is_refused_with_the_nearest():
    with pytest.raises(RequestError, match="Did you mean 'export'"):
        parse_slash("/exprt")
    with pytest.raises(RequestError, match="takes nothing"):
        parse_slash("/new conversation")


@pytest.mark.parametrize("far", ["foo", "clear", "undo", "volcano", "list"])
def test_a_command_that_is_near_to_none_is_refused_without_a_guess(far):
    with pytest.raises(RequestError) as refused:
        parse_slash(f"/{far}")
    assert refused.value.mend == "/help lists them. Begin with // to send it as a message."


def test_every_command_is_in_the_help():
    assert all(one.usage in help_text() for one in SLASH_COMMANDS)


@pytest.mark.parametrize("cells", [40, 60, 80])
def test_the_help_fits_a_narrow_terminal_and_cuts_no_word(cells):
    text = help_text(cells)
    assert all(len(line) < cells for line in text.split("\n"))
    words = {word for one in SLASH_COMMANDS for word in f"{one.usage} {one.help}".split()}
    assert words <= set(text.split())


def test_a_live_setting_changes_and_says_so():
    settings = live()
    assert settings.set("temperature", "0.5") == "sampling.temperature is 0.5 (/set)."
    assert settings.settings.sampling.temperature == 0.5
    assert "next conversation" in settings.set("chat.system", "be brief")
    settings.set("top-k", "")
    assert settings.settings.sampling.top_k is None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("temprature", "1", "Did you mean"),
        ("temperature", "hot", "expected a number"),
        ("temperature", "11", "expected 0 to 10"),
        ("max_tokens", "١٢", "expected a whole number"),
        ("max_tokens", "1_000", "expected a whole number"),
        ("temperature", "０.５", "expected a number"),
        ("model.device", "cpu", "at the start only"),
        ("theme", "drak", "Did you mean 'dark'"),
    ],
)
def test_a_bad_change_is_refused_and_changes_nothing(name, value, words):
    settings = live()
    before = settings.settings
    with pytest.raises(SettingsError, match=words):
        settings.set(name, value)
    assert settings.settings == before


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("view", "chat.view is pane (default), one of pane, lines, off"),
        ("bell", "chat.bell is {bell} (default), one of on, off"),
        ("top_k", "sampling.top_k is empty (default), from 0 to 1,000,000"),
        ("chat.system", "chat.system is empty (default)"),
    ],
)
def test_a_setting_is_told_with_what_it_may_be(name, told):
    bell = "on" if KNOWN["chat.bell"].default else "off"
    assert live().describe(name) == told.format(bell=bell)


@pytest.mark.parametrize("message", ["hello", "/redo", "//x", "/etc/hosts", ""])
def test_what_is_typed_for_a_message_sends_that_message(message):
    assert parse_slash(typed_text(message)) is None
    assert message_text(typed_text(message)) == message
