"""Which program takes the clipboard's new text, where there is one."""

import stat

import pytest

from app import clipboard


@pytest.fixture
def desktop(tmp_path, monkeypatch):
    """A desktop of this machine whose clipboard is a file."""
    kept = tmp_path / "clipboard"
    tool = tmp_path / "bin" / "wl-copy"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\ncat > {kept}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    for name in ("SSH_TTY", "SSH_CONNECTION", "TMUX"):
        monkeypatch.delenv(name, raising=False)
    return kept


def test_a_desktop_takes_any_length_and_is_named(desktop):
    assert clipboard.copy_native("x" * 300_000) == "wl-copy"
    assert desktop.read_text() == "x" * 300_000
    assert clipboard.how_copied("a\nb", "wl-copy") == "copied 2 lines to the clipboard by wl-copy"


def test_over_ssh_the_desktop_is_not_asked(desktop, monkeypatch):
    monkeypatch.setenv("SSH_TTY", "/dev/pts/1")
    assert clipboard.copy_native("x") == ""
    assert not desktop.exists()


def test_a_tool_that_fails_leaves_it_to_the_terminal(desktop, tmp_path):
    (tmp_path / "bin" / "wl-copy").write_text("#!/bin/sh\nexit 3\n")
    assert clipboard.copy_native("x") == ""


def test_what_is_said_of_it_has_room_in_80_columns(monkeypatch):
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")
    said = clipboard.how_copied("x\n" * 1000)
    assert said == "copied 1,001 lines by OSC 52 through tmux or screen (set-clipboard on)"
    assert len(said) < 78
