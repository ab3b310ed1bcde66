"""The environment: folders that a person or another program named."""

from pathlib import Path

from engine.settings.environment import expanded


def test_a_home_that_is_nobodys_stays_as_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expanded("~/x") == tmp_path / "x"
    assert expanded("~nobody-of-this-name/x") == Path("~nobody-of-this-name/x")
