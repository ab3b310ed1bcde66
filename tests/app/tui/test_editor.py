"""The person's own programs, where there are none."""

import pytest

from app.tui.editor import edit_outside, read_outside


@pytest.fixture
def _nothing_here(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("VISUAL", "EDITOR", "PAGER"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("_nothing_here")
def test_without_an_editor_or_a_pager_a_sentence_says_what_to_set():
    assert edit_outside(None, "kept") == ("kept", "no editor was found: set EDITOR to one")
    assert read_outside(None, "x") == "no pager was found: set PAGER to one"
