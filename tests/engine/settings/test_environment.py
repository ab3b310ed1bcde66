"""The environment: folders that a person or another program named."""

from pathlib import Path

import pytest

from engine.settings import environment
from engine.settings.environment import expanded


def test_a_home_that_is_nobodys_stays_as_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expanded("~/x") == tmp_path / "x"
    assert expanded("~nobody-of-this-name/x") == Path("~nobody-of-this-name/x")


@pytest.fixture
def programs(monkeypatch, tmp_path):
    """Makes programs that are on this machine, and no others."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("VISUAL", "EDITOR", "PAGER"):
        monkeypatch.delenv(name, raising=False)

    def make(*names):
        for name in names:
            (tmp_path / name).touch(mode=0o755)

    return make


def test_an_editor_and_a_pager_that_were_named_are_taken(monkeypatch, programs):
    programs("nano", "less")
    monkeypatch.setenv("EDITOR", "ed -v")
    monkeypatch.setenv("PAGER", "cat")
    assert (environment.editor(), environment.pager()) == ("ed -v", "cat")
    monkeypatch.setenv("VISUAL", "gvim -f")
    assert environment.editor() == "gvim -f"


def test_without_names_the_first_that_is_here_is_taken(programs):
    assert (environment.editor(), environment.pager()) == ("", "")
    programs("emacs", "vi", "more")
    assert (environment.editor(), environment.pager()) == ("vi", "more")
    programs("nano", "less")
    assert (environment.editor(), environment.pager()) == ("nano", "less")
