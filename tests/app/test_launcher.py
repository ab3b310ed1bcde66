"""However the child dies: the terminal is as it was, and the exit code tells."""

import os
import signal
import sys

import pytest

from app.launcher import RESET
from tests.app.conftest import ROOT
from tests.app.terminal import Terminal, state_of, wait_until

DIRTY = "\x1b[?1049h\x1b[?1003h\x1b[?2004h\x1b[?25l"

CHILD = """
import os, signal, sys, termios, time, tty
from app import launcher
from app.launcher import supervise

if sys.argv[1] == "deaf":
    launcher.GRACE_S = 1.0

def dirty():
    tty.setraw(0)
    os.write(1, b"\\x1b[?1049h\\x1b[?1003h\\x1b[?2004h\\x1b[?25l")

def wait():
    os.write(1, b"ready\\r\\n")
    time.sleep(60)

def raw_then_wait():
    dirty()
    wait()
    return 0

def raw_then_exit():
    dirty()
    os._exit(3)

def clean():
    return 7

def deaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    wait()
    return 0

def crash():
    dirty()
    os.kill(os.getpid(), signal.SIGSEGV)

def count_interrupts():
    got = []
    signal.signal(signal.SIGINT, lambda *_: got.append("I"))
    signal.signal(signal.SIGWINCH, lambda *_: got.append("W"))
    os.write(1, b"ready\\r\\n")
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        time.sleep(0.05)
    os.write(1, ("got " + "".join(sorted(got)) + "\\r\\n").encode())
    return 0

sys.exit(supervise(globals()[sys.argv[1]]))
"""


@pytest.fixture
def launched(environment):
    def start(name):
        return Terminal([sys.executable, "-c", CHILD, name], environment, ROOT)

    return start


def test_a_clean_end_passes_its_code_and_writes_nothing(launched):
    with launched("clean") as terminal:
        seen, code = terminal.exit_code()
        assert code == 7
        assert "\x1b" not in seen
        assert terminal.is_as_before()


@pytest.mark.parametrize(("name", "code"), [("raw_then_exit", 3), ("crash", 128 + signal.SIGSEGV)])
def test_a_sudden_end_is_cleaned_up(launched, name, code):
    with launched(name) as terminal:
        seen, found = terminal.exit_code()
        assert found == code
        assert RESET in seen.split(DIRTY)[1]
        assert terminal.is_as_before()


def test_a_killed_child_is_cleaned_up_and_told(launched):
    with launched("raw_then_wait") as terminal:
        terminal.wait_for("ready")
        _, child = terminal.family()
        os.kill(child, signal.SIGKILL)
        seen, code = terminal.exit_code()
        assert code == 128 + signal.SIGKILL
        assert RESET in seen
        assert "ended by SIGKILL" in seen
        assert "--resume" in seen
        assert terminal.is_as_before()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_signals_to_the_parent_reach_the_child(launched, number):
    with launched("raw_then_wait") as terminal:
        terminal.wait_for("ready")
        parent, child = terminal.family()
        os.kill(parent, number)
        seen, code = terminal.exit_code()
        # Python turns SIGINT into KeyboardInterrupt and ends itself by that signal.
        assert code == 128 + number
        assert RESET in seen
        assert terminal.is_as_before()
        assert state_of(child) == ""


def test_keys_and_window_changes_reach_the_child_once(launched):
    with launched("count_interrupts") as terminal:
        terminal.wait_for("ready")
        terminal.type("\x03")
        terminal.resize(100, 30)
        assert "got IW\r" in terminal.wait_for("got [IW]*\r")
        assert terminal.exit_code()[1] == 0


def test_the_child_does_not_outlive_a_killed_parent(launched):
    with launched("raw_then_wait") as terminal:
        terminal.wait_for("ready")
        parent, child = terminal.family()
        os.kill(parent, signal.SIGKILL)
        wait_until(lambda: state_of(child) in ("", "Z"))


def test_parent_and_child_stop_and_go_on_together(launched):
    with launched("raw_then_wait") as terminal:
        terminal.wait_for("ready")
        parent, child = terminal.family()
        os.kill(child, signal.SIGSTOP)
        wait_until(lambda: state_of(parent) == "T")
        assert state_of(child) == "T"
        os.kill(parent, signal.SIGCONT)
        wait_until(lambda: state_of(child) == "S")
        os.kill(parent, signal.SIGTERM)
        assert terminal.exit_code()[1] == 128 + signal.SIGTERM


def test_without_a_terminal_it_only_passes_the_code_on(environment):
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", CHILD, "clean"],
        env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (7, b"", b"")


def test_a_child_that_does_not_end_when_asked_is_killed(launched):
    with launched("deaf") as terminal:
        terminal.wait_for("ready")
        launcher, child = terminal.family()
        os.kill(launcher, signal.SIGTERM)
        _, code = terminal.exit_code()
        assert code == 128 + signal.SIGKILL
        assert state_of(child) == ""
