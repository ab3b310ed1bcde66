"""The full screen as a process: it comes up, and every way of dying leaves a sane terminal."""

import json
import os
import pty
import signal
import sys
from pathlib import Path

import pytest

from app.launcher import GRACE_S, RESET
from tests.app.conftest import ROOT
from tests.app.terminal import Terminal, state_of, wait_until

IN_SCREEN = r"\x1b\[\?1049h.*message"


@pytest.fixture
def chat(environment):
    def start(scripts, *arguments, **options):
        command = [sys.executable, "-m", "tests.app.driver", json.dumps(scripts), "chat"]
        return Terminal([*command, *arguments], environment, ROOT, **options)

    return start


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_it_in_order(chat, number):
    with chat([]) as terminal:
        terminal.wait_for(IN_SCREEN)
        launcher, child = terminal.family()
        os.kill(launcher, number)
        seen, code = terminal.exit_code()
        assert code == 128 + number
        assert "\x1b[?1049l" in seen
        assert "\x1b[?25h" in seen
        assert terminal.is_as_before()
        assert state_of(child) == ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_screen_is_cleaned_up(chat, number):
    with chat([]) as terminal:
        terminal.wait_for(IN_SCREEN)
        _, child = terminal.family()
        os.kill(child, number)
        seen, code = terminal.exit_code()
        assert code == 128 + number
        assert RESET in seen
        assert terminal.is_as_before()


def test_a_terminal_that_vanishes_takes_the_chat_with_it(environment):
    """The launcher leads the session here, as below a terminal multiplexer."""
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        arguments = [sys.executable, "-m", "tests.app.driver", "[]", "chat"]
        os.execve(sys.executable, arguments, environment)
    seen = b""
    while b"message" not in seen:
        seen += os.read(master, 65536)
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.close(master)
    wait_until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, timeout=GRACE_S + 10)
    assert state_of(child) == ""


def test_a_talk_on_the_screen_is_kept(chat, qwen38):
    with chat([{"answer": "It erupts."}]) as terminal:
        terminal.wait_for(IN_SCREEN)
        terminal.type("hello there\r")
        terminal.wait_for("It erupts")
        terminal.type("\x11")
        seen, code = terminal.exit_code()
        assert code == 0
        assert "--resume" in seen
        assert terminal.is_as_before()
    listed = json.loads(qwen38("sessions", "list", "--json").stdout)
    assert [(one["title"], one["num_messages"]) for one in listed] == [("hello there", 2)]


def test_a_bug_in_the_screen_ends_in_one_sentence_and_a_log(environment, tmp_path):
    broken = (
        "from app.tui.chat import ChatApp\n"
        "def tick(self): raise RuntimeError('a planted bug')\n"
        "ChatApp.tick = tick\n"
        "import sys; sys.argv = ['driver', '[]', 'chat']\n"
        "from tests.app.driver import main; main()\n"
    )
    with Terminal([sys.executable, "-c", broken], environment, ROOT) as terminal:
        seen, code = terminal.exit_code()
        assert code == 1
        assert "Something broke: RuntimeError: a planted bug" in seen
        assert "Traceback" not in seen
        assert terminal.is_as_before()
