"""Settings: each source wins over the weaker ones; what does not read is refused by name."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import SettingsError
from engine.settings.declared import KNOWN
from engine.settings.load import load_settings
from engine.settings.registry import (
    Resolved,
    declared_settings,
    names_from_environment,
    parse,
    resolve,
    setting,
)
from engine.settings.user_file import read_user_file


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch, tmp_path):
    for one in KNOWN.values():
        monkeypatch.delenv(one.env, raising=False)
    monkeypatch.setenv("QWEN38_PATHS_CONFIG", str(tmp_path))


def test_every_setting_has_a_help_text_and_an_environment_name_of_ours():
    for one in KNOWN.values():
        assert one.help
        assert one.env.startswith("QWEN38_")


def test_the_stronger_source_wins_and_is_named(monkeypatch, tmp_path):
    (tmp_path / "settings.toml").write_text("[draft]\ntokens = 4\n[chat]\nfps = 5\n")
    monkeypatch.setenv("QWEN38_DRAFT_TOKENS", "5")
    settings, sources = load_settings({"draft.drafter": "off"}, {"draft.tokens": 2})
    assert (settings.draft.tokens, sources["draft.tokens"].source) == (5, "environment")
    assert (settings.draft.drafter, sources["draft.drafter"].source) == ("off", "command line")
    assert (settings.chat.fps, sources["chat.fps"].source) == (
        5,
        f"user file {tmp_path / 'settings.toml'}",
    )
    assert sources["chat.theme"] == Resolved("dark", "default")


def test_an_unknown_name_is_refused_with_the_nearest_one(tmp_path):
    (tmp_path / "settings.toml").write_text("[draft]\ntoken = 4\n")
    with pytest.raises(SettingsError, match=r"no setting 'draft\.token'.*'draft\.tokens'"):
        load_settings()


def test_a_bias_that_does_not_read_is_refused_where_it_is_set(monkeypatch):
    with pytest.raises(SettingsError, match="^command line: 'sampling.logit_bias' holds 'x'.*ID:N"):
        load_settings({"sampling.logit_bias": "5:1,x"})
    monkeypatch.setenv("QWEN38_SAMPLING_LOGIT_BIAS", "5:1,5:2")
    with pytest.raises(SettingsError, match="^environment: .* names the id 5 twice"):
        load_settings()


def test_an_unknown_variable_is_refused_with_the_nearest_one(monkeypatch):
    monkeypatch.setenv("QWEN38_CHAT_THEEM", "light")
    with pytest.raises(SettingsError, match="QWEN38_CHAT_THEEM.*QWEN38_CHAT_THEME"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "raw", "wanted"),
    [
        ("draft.tokens", "three", "a whole number"),
        ("draft.tokens", "32", "1 to 31 tokens"),
        ("draft.tokens", True, "a whole number"),
        ("sampling.temperature", "nan", "a number"),
        ("sampling.top_p", 1.5, "0 to 1"),
        ("chat.mouse", "maybe", "on or off"),
        ("chat.theme", "drak", "Did you mean 'dark'"),
        ("sampling.seed", -1, "0 to 9,223,372,036,854,775,807"),
        ("sampling.repetition_penalty", 0, "0.01 to 10"),
        ("model.context_tokens", 9, "64 to 1,000,000 tokens"),
        # an id of its own: as text it has more digits than Python writes
        pytest.param("model.context_tokens", 1 << 99_999, "too long to show", id="huge"),
        ("model.dir", "a\0b", "a path"),
        ("model.dir", "~nobody-of-that-name/x", "a path"),
    ],
)
def test_a_value_that_does_not_read_is_refused_in_a_sentence(name, raw, wanted):
    with pytest.raises(SettingsError, match=wanted) as refused:
        parse(KNOWN[name], raw, "environment")
    assert name in str(refused.value)
    assert "environment" in str(refused.value)


@pytest.mark.parametrize(("raw", "value"), [("yes", True), ("0", False), ("ON", True)])
def test_switches_read_the_usual_words(raw, value):
    assert parse(KNOWN["chat.mouse"], raw, "environment") is value


def test_an_empty_optional_value_means_none():
    assert parse(KNOWN["model.dir"], "", "environment") is None


def test_a_home_folder_is_expanded():
    assert parse(KNOWN["model.dir"], "~/x", "environment") == Path("~/x").expanduser()


@given(st.integers(1, 31))
def test_a_value_in_bounds_reads_back_as_itself(tokens):
    assert parse(KNOWN["draft.tokens"], str(tokens), "environment") == tokens


def test_a_second_declaration_of_an_environment_name_is_an_error():
    @dataclass(frozen=True)
    class One:
        more_a: int = setting(1, "a")

    @dataclass(frozen=True)
    class OneMore:
        a: int = setting(1, "a")

    @dataclass(frozen=True)
    class Root:
        one: One = field(default_factory=One)
        one_more: OneMore = field(default_factory=OneMore)

    Root.__annotations__ = {"one": One, "one_more": OneMore}
    with pytest.raises(SettingsError, match=r"QWEN38_ONE_MORE_A\) is declared twice"):
        declared_settings(Root)


def test_a_pipe_in_the_place_of_the_settings_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "settings.toml")
    with pytest.raises(SettingsError, match=r"settings\.toml is no plain file"):
        read_user_file(tmp_path / "settings.toml")


def test_settings_of_gigabytes_are_refused_at_once(tmp_path):
    (tmp_path / "settings.toml").touch()
    os.truncate(tmp_path / "settings.toml", 3 << 30)
    with pytest.raises(SettingsError, match=r"longer than 4\.2 MB"):
        read_user_file(tmp_path / "settings.toml")


def test_the_mark_that_some_editors_begin_a_file_with_is_no_part_of_it(tmp_path):
    (tmp_path / "settings.toml").write_text("[chat]\r\nfps = 7\r\n", encoding="utf-8-sig")
    assert read_user_file(tmp_path / "settings.toml") == {"chat.fps": 7}


def test_a_damaged_user_file_is_named(tmp_path):
    (tmp_path / "settings.toml").write_text("[chat\n")
    with pytest.raises(SettingsError, match="does not read"):
        load_settings()


@pytest.mark.parametrize("text", ["a=" + "[" * 100_000, "a = " + "9" * 5000, "a = '\udcff'"])
def test_a_user_file_that_breaks_its_reader_is_refused(tmp_path, text):
    (tmp_path / "settings.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(SettingsError, match="does not read"):
        read_user_file(tmp_path / "settings.toml")


def test_a_value_outside_a_section_is_refused(tmp_path):
    (tmp_path / "settings.toml").write_text("theme = 'dark'\n")
    with pytest.raises(SettingsError, match="outside a section"):
        read_user_file(tmp_path / "settings.toml")


def test_variables_map_to_setting_names():
    assert names_from_environment(KNOWN, {"QWEN38_CHAT_FPS": "3"}) == {"chat.fps": "3"}


def test_defaults_stand_where_nobody_speaks():
    assert resolve(KNOWN, [])["draft.tokens"] == Resolved(None, "default")
