"""Searching conversations on disk."""

import pytest

from app.sessions.search import excerpt, excerpt_of_file, find_in
from app.sessions.store import SessionStore


@pytest.fixture
def session(tmp_path):
    session = SessionStore(tmp_path).create("m", "demo", "")
    session.add_message("user", 'Is "obsidian" a\nglass? Straße 漢字')
    session.add_message("assistant", "Yes. " + "filler " * 50 + "Volcanic glass it is.")
    session.close()
    return session


@pytest.mark.parametrize(
    ("search", "shown"),
    [
        ("OBSIDIAN", '"obsidian"'),
        ('"obsidian"', '"obsidian"'),
        ("volcanic obsidian", "Volcanic glass"),
        ("漢字", "漢字"),
        ("a glass", "Is"),
    ],
)
def test_every_word_has_to_be_somewhere(session, search, shown):
    assert shown in excerpt_of_file(session.path, search)


@pytest.mark.parametrize("search", ["zebra", "obsidian zebra", "", "  ", "assistant", "content"])
def test_what_is_not_said_is_not_found(session, search):
    assert excerpt_of_file(session.path, search) == ""


def test_a_file_that_is_gone_or_damaged_holds_nothing(tmp_path):
    assert excerpt_of_file(tmp_path / "none.jsonl", "x") == ""
    (tmp_path / "bad.jsonl").write_bytes(b'\xff\xfe {"x": "volcano"')
    assert excerpt_of_file(tmp_path / "bad.jsonl", "volcano") == ""


def test_an_excerpt_is_one_bounded_line_around_the_word():
    line = excerpt("word " * 100 + "needle\n\x1b[2J " + "word " * 100, ["needle"], 40)
    assert len(line) <= 40
    assert line.startswith("…")
    assert "needle ␛[2J" in line


def test_messages_are_found_with_their_number(session):
    found = find_in(session.path_messages(), "glass")
    assert [number for number, *_ in found] == [1, 2]
