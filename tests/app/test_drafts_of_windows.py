"""Two windows with new conversations: each has a draft of its own, and none is lost."""

import os

import pytest

from app.sessions.drafts import read_draft, write_draft
from app.sessions.store import SessionStore


@pytest.fixture
def window(tmp_path):
    """Begin what another process would: a store of its own."""
    return lambda: SessionStore(tmp_path / "sessions", tmp_path / "drafts")


def new_in(store):
    return store.create("m", "demo", "")


def test_each_window_keeps_its_own_draft(window):
    first, second = new_in(window()), new_in(window())
    first.draft, second.draft = "one", "two"
    assert (first.draft, second.draft) == ("one", "two")
    second.draft = ""
    assert first.draft == "one"
    first.draft = ""
    second.draft = "three"
    assert (first.draft, second.draft) == ("", "three")


def test_what_windows_left_is_taken_up_newest_first(window, tmp_path):
    stores = [window() for _ in range(3)]
    for store, text in zip(stores, ("one", "two", "three"), strict=True):
        new_in(store).draft = text
    os.utime(tmp_path / "drafts" / "new-2.txt", (1, 1))
    assert new_in(window()).draft == ""  # they are all in use
    for store in stores[:2]:
        store.close()
    later = [window() for _ in range(3)]
    assert [new_in(one).draft for one in later] == ["one", "two", ""]
    new_in(later[2]).draft = "four"
    assert [new_in(one).draft for one in (*later, stores[2])] == ["one", "two", "four", "three"]


def test_a_window_that_types_nothing_makes_nothing(window, tmp_path):
    assert new_in(window()).draft == ""
    new_in(window()).draft = ""
    assert not (tmp_path / "drafts").exists()


def test_a_draft_moves_with_the_first_message(window, tmp_path):
    session = new_in(window())
    session.draft = "half"
    session.add_message("user", "whole")
    session.draft = "next"
    assert [one.name for one in sorted((tmp_path / "drafts").glob("*.txt"))] == [
        f"{session.id}.txt"
    ]


def test_of_a_write_that_was_killed_nothing_stays(window, tmp_path):
    path = tmp_path / "drafts" / "one.txt"
    write_draft(path, "before")
    (tmp_path / "drafts" / ".one.txt.half").write_text("aft")
    assert read_draft(path) == "before"
    write_draft(path, "after")
    assert read_draft(path) == "after"
    assert [one.name for one in path.parent.iterdir()] == ["one.txt"]
    (tmp_path / "drafts" / ".one.txt.half").write_text("aft")
    write_draft(path, "")
    assert list(path.parent.iterdir()) == []
