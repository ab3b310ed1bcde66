"""An end that was asked for comes, wherever the signal lands and whatever runs then."""

import os
import select
import signal
import sys
import threading

import pytest

from app.interrupt import EndOnSignal, StopOnSignal
from engine.errors import CancelledError
from tests.app.conftest import ROOT
from tests.app.terminal import Terminal

LANDS = """
import os, signal, sys
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from tests.app.driver import main

class Finalised:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(9):
            pass

def suggest(self, buffer, document):  # a task of the prompt's own, after each key
    if document.text.endswith("message"):
        if where == "finaliser":
            Finalised()
        else:
            os.kill(os.getpid(), signal.SIGTERM)

where = sys.argv.pop(1)
AutoSuggestFromHistory.get_suggestion = suggest
main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_dying_at_the_prompt_leaves_the_terminal_sane(on_terminal, number):
    with on_terminal([], "chat", "--plain") as terminal:
        terminal.wait_for("you>")
        terminal.type("half a message")
        terminal.wait_for("message")
        launcher, child = terminal.family()
        os.kill(child if number == signal.SIGKILL else launcher, number)
        assert terminal.exit_code()[1] == 128 + number
        assert terminal.is_as_before()


@pytest.mark.parametrize("where", ["finaliser", "task"])
def test_a_signal_that_lands_in_a_finaliser_or_a_task_ends_the_prompt(environment, where, tmp_path):
    command = [sys.executable, "-c", LANDS, where, "[]", "chat", "--plain"]
    with Terminal(command, environment, ROOT) as terminal:
        terminal.wait_for("you>")
        terminal.type("half a message")
        seen, code = terminal.exit_code()
        assert code == 128 + signal.SIGTERM
        assert "Traceback" not in seen
        assert terminal.is_as_before()
    (draft,) = (tmp_path / "state" / "drafts").iterdir()
    assert draft.read_text() == "half a message"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_prompt_of_lines_ends_when_asked(on_terminal, environment, number):
    environment["TERM"] = "dumb"
    with on_terminal([], "chat", "--plain") as terminal:
        terminal.wait_for("you> ")
        os.kill(terminal.family()[0], number)
        assert terminal.exit_code()[1] == 128 + number


def test_the_end_is_learnt_of_in_the_block_around_and_stops_what_begins_behind():
    with EndOnSignal() as ends:
        assert not select.select([ends], [], [], 0)[0]
        with StopOnSignal() as first:
            os.kill(os.getpid(), signal.SIGTERM)
            assert first.stop.wait(5)
            assert ends.signal is None
        assert ends.signal == signal.SIGTERM
        assert select.select([ends], [], [], 0)[0]
        with StopOnSignal() as second:
            assert second.stop.is_set()
        with pytest.raises(SystemExit) as left:
            ends.expect_no_end()
        assert left.value.code == 128 + signal.SIGTERM


def _stopped_by(number):
    with StopOnSignal():
        os.kill(os.getpid(), number)
        raise CancelledError("Loading was stopped.")


def test_what_is_stopped_to_end_the_program_has_the_exit_code_of_the_signal(capfd):
    with pytest.raises(SystemExit) as left:
        _stopped_by(signal.SIGHUP)
    assert left.value.code == 128 + signal.SIGHUP
    assert "Cancelled: Loading was stopped." in capfd.readouterr().err
    with pytest.raises(CancelledError):
        _stopped_by(signal.SIGINT)


def test_who_asks_for_the_end_again_and_again_does_not_wait():
    with EndOnSignal() as ends:
        asks = threading.Thread(target=lambda: [ends.ask(signal.SIGTERM) for _ in range(70_000)])
        asks.start()
        asks.join(20)
        assert not asks.is_alive()


@pytest.mark.parametrize("block", [StopOnSignal, EndOnSignal])
def test_a_signal_that_is_ignored_goes_on_to_be(block):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as below nohup
    try:
        with block() as inside:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)
        assert inside.signal == signal.SIGTERM
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_amid_a_signal_waits_for_nothing_and_takes_no_end_back(monkeypatch):
    calls = []

    def amid():
        calls.append("set")
        signal.raise_signal(signal.SIGINT)

    with StopOnSignal() as inside:
        monkeypatch.setattr(inside.stop, "set", amid)  # an event's own lock is held in there
        signal.raise_signal(signal.SIGTERM)
    assert calls == ["set"]
    assert inside.exit_code == 128 + signal.SIGTERM
