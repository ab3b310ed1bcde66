"""The full screen as a process: it comes up, and every way of dying leaves a sane terminal."""

import json
import os
import pty
import signal
import sys
import termios
from pathlib import Path

import pytest

from app.launcher import GRACE_S, RESET
from app.sessions.store import SessionStore
from app.tui.worker import CLOSE_SECONDS
from tests.app.conftest import ROOT
from tests.app.terminal import Terminal, state_of, wait_until

IN_SCREEN = r"\x1b\[\?1049h.*message"


@pytest.fixture
def chat(environment):
    def start(scripts, *arguments, limit_kb=0, **options):
        command = [sys.executable, "-m", "tests.app.driver", json.dumps(scripts), "chat"]
        if limit_kb:  # a file that would grow above it is refused, as on a full disk
            command = ["/bin/bash", "-c", f'ulimit -f {limit_kb}; exec "$@"', "bash", *command]
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


def test_a_screen_that_waits_for_a_round_is_not_killed_for_it():
    assert GRACE_S >= 2 * CLOSE_SECONDS


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


def test_a_screen_that_was_stopped_is_drawn_whole_and_reads_each_key_once(chat):
    with chat([]) as terminal:
        terminal.wait_for(f"{IN_SCREEN}.*ready")
        launcher, child = terminal.family()
        threads = Path(f"/proc/{child}/task")
        num_threads = len(list(threads.iterdir()))
        for number in (signal.SIGTSTP, signal.SIGSTOP):
            os.kill(child, number)
            wait_until(lambda: state_of(launcher) == "T")
            termios.tcsetattr(terminal.master, termios.TCSANOW, terminal.before)  # as a shell does
            for one in (child, launcher):
                os.kill(one, signal.SIGCONT)
            terminal.wait_for(r"\x1b\[\?1049h.*qwen38.*ready.*╰")
            wait_until(lambda: len(list(threads.iterdir())) == num_threads)
            terminal.type("typed")
            terminal.wait_for("typed")


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


def test_a_terminal_that_vanishes_below_a_shell_that_goes_on_takes_the_chat_with_it(chat):
    """The kernel tells the leader of the session alone, and this one tells nobody."""
    with chat([]) as terminal:
        terminal.wait_for(IN_SCREEN)
        pids = terminal.family()
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, terminal.master)
        os.close(nothing)
        wait_until(lambda: all(state_of(pid) in ("", "Z") for pid in pids[:2]))


def test_a_terminal_that_vanishes_with_its_shell_leaves_the_answer_whole(environment, tmp_path):
    """The kernel tells whom a dead leader leaves behind to hang up, and to go on."""
    answer = " ".join(f"word{number}" for number in range(200))
    script = json.dumps([{"answer": answer, "round_s": 0.2}])
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        command = [sys.executable, "-m", "tests.app.driver", script, "chat"]
        os.execve("/bin/sh", ["sh", "-c", '"$@"; true', "sh", *command], environment)
    seen = b""
    while b"message" not in seen:
        seen += os.read(master, 65536)
    os.write(master, b"hello\r")
    while b"word9" not in seen:
        seen += os.read(master, 65536)
    (launcher,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (child,) = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    os.close(master)
    os.waitpid(pid, 0)
    wait_until(lambda: all(state_of(one) in ("", "Z") for one in (launcher, child)))
    assert messages_of(tmp_path)[-1].reason == "cancelled"  # "interrupted" where no end was written


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


SLOW = {"answer": " ".join(f"word{n}" for n in range(4000)), "round_s": 0.02}


def messages_of(tmp_path):
    """The current branch of the one session on disk."""
    store = SessionStore(tmp_path / "data" / "sessions")
    return store.open(store.list()[0].id, write=False).path_messages()


def test_a_kill_in_mid_answer_keeps_what_was_written_and_the_draft(chat, tmp_path):
    with chat([SLOW]) as terminal:
        terminal.wait_for(IN_SCREEN)
        terminal.type("hello there\r")
        terminal.wait_for("word20")
        terminal.type("half a thought")
        drafts = tmp_path / "state" / "drafts"
        wait_until(lambda: any("half" in one.read_text() for one in drafts.glob("*.txt")))
        wait_until(lambda: "word20" in messages_of(tmp_path)[-1].content)
        _, child = terminal.family()
        os.kill(child, signal.SIGKILL)
        seen, code = terminal.exit_code()
        assert code == 128 + signal.SIGKILL
        assert RESET in seen
        assert terminal.is_as_before()
    question, answer = messages_of(tmp_path)
    assert question.content == "hello there"
    assert answer.state == "stopped"
    with chat([], "--resume") as terminal:
        terminal.wait_for("half a thought")


def test_an_engine_that_fails_in_mid_answer_is_told_and_the_talk_goes_on(chat, tmp_path):
    broken = {"answer": "one two three four five six seven", "crashes_after": 2}
    with chat([broken, {"answer": "alive again"}]) as terminal:
        terminal.wait_for(IN_SCREEN)
        terminal.type("first\r")
        terminal.wait_for("engine crashed")
        terminal.type("second\r")
        terminal.wait_for("alive")
        terminal.type("\x11")
        assert terminal.exit_code()[1] == 0
        assert terminal.is_as_before()
    contents = [one.content for one in messages_of(tmp_path)]
    assert contents == ["first", "one two three four five six", "second", "alive again"]


def test_a_disk_that_fills_up_is_told_and_what_was_written_stays_whole(chat, tmp_path):
    long = {"answer": "word " * 3000}
    with chat([{"answer": "short"}, long, long], limit_kb=8) as terminal:
        terminal.wait_for(IN_SCREEN)
        terminal.type("first\r")
        terminal.wait_for("short")
        terminal.type("second\r")
        terminal.wait_for("not on disk: File too large")
        terminal.type("\x11")
        seen, code = terminal.exit_code()
        assert code == 1
        assert "was not saved: File too large" in seen
        assert "Traceback" not in seen
        assert terminal.is_as_before()
    kept = messages_of(tmp_path)
    assert [one.content for one in kept][:3] == ["first", "short", "second"]
    assert SessionStore(tmp_path / "data" / "sessions").survey()[1] == ""


def test_folders_that_cannot_be_written_are_told_and_the_talk_goes_on(chat, tmp_path):
    for name in ("data", "state"):
        (tmp_path / name).write_text("a file where a folder should be")
    with chat([{"answer": "It erupts."}]) as terminal:
        terminal.wait_for(IN_SCREEN)
        terminal.type("hello there\r")
        terminal.wait_for("not on disk.*first after")
        terminal.type("\x11")
        seen, code = terminal.exit_code()
        assert code == 1
        assert "was not saved" in seen
        assert "Traceback" not in seen
        assert terminal.is_as_before()


def test_two_chats_on_one_session_do_not_mix(chat, tmp_path):
    folder = tmp_path / "data" / "sessions"

    def num_answers():
        return sum(one.read_text().count('"type":"end"') for one in folder.glob("*.jsonl"))

    with chat([{"answer": "one"}]) as first:
        first.wait_for(IN_SCREEN)
        first.type("hello there\r")
        wait_until(lambda: num_answers() == 1)
        with chat([{"answer": "two"}], "--resume") as second:
            second.wait_for("open in another window")
            second.type("from the second\r")
            wait_until(lambda: len([*folder.glob("*.jsonl")]) == 2 and num_answers() == 2)
            first.type("from the first\r")
            wait_until(lambda: num_answers() == 3)
            second.type("\x11")
            assert second.exit_code()[1] == 0
        first.type("\x11")
        assert first.exit_code()[1] == 0
    store = SessionStore(folder)
    found, problem = store.survey()
    assert problem == ""
    prompts = {
        tuple(
            one.content
            for one in store.open(each.id, write=False).path_messages()
            if one.role == "user"
        )
        for each in found
    }
    assert prompts == {("hello there", "from the first"), ("hello there", "from the second")}
