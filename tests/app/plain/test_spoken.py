"""--a11y: what a screen reader gets to read."""

import json
import sys

import pytest

from app.plain import spoken
from app.plain.spoken import Paced, SpokenAnswer, SpokenLoad
from engine.types import LoadProgressed, PromptProgressed, TextArrived
from tests.app.conftest import ROOT
from tests.app.terminal import Terminal


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(spoken.time, "monotonic", lambda: now[0])
    return now


def test_on_a_terminal_lines_follow_each_other_and_nothing_is_redrawn(environment):
    scripts = [{"thinking": "Hm.", "answer": "A **mountain**.", "prefill_s": 0.05}]
    command = [sys.executable, "-m", "tests.app.driver", json.dumps(scripts), "chat", "--a11y"]
    with Terminal(command, environment, ROOT) as terminal:
        seen = terminal.wait_for("You: ")
        terminal.type("what is a volcano?\n")
        seen += terminal.wait_for(r"A \*\*mountain\*\*\.")
        seen += terminal.wait_for("You: ")
        terminal.type("/quit\n")
        seen += terminal.wait_for(r"<<exit \d+>>")
    assert "\x1b" not in seen
    assert "\r" not in seen.replace("\r\n", "")
    lines = [one.strip() for one in seen.replace("\r\n", "\n").split("\n")]
    assert lines[0].startswith("Accessible form")
    assert "Loading the model." in lines
    assert lines.index("Thinking.") < lines.index("Assistant:")
    assert "exit 0" in seen
    assert not any(sign in seen for sign in "│─╭╰●▸█")


def test_a_line_that_was_typed_ahead_stands_behind_its_prompt(environment):
    scripts = [{"answer": "First words.", "prefill_s": 0.5}, {"answer": "Second words."}]
    command = [sys.executable, "-m", "tests.app.driver", json.dumps(scripts), "chat", "--a11y"]
    with Terminal(command, environment, ROOT) as terminal:
        terminal.wait_for("You: ")
        terminal.type("one\n")
        terminal.wait_for("one\r\n")
        terminal.type("two\n")
        seen = terminal.wait_for(r"Second words\.")
        terminal.wait_for("You: ")
        terminal.type("/quit\n")
        terminal.wait_for(r"<<exit \d+>>")
    lines = seen.replace("\r\n", "\n").split("\n")
    assert "You: two" in lines
    assert lines.count("Assistant:") == 2


def test_progress_is_said_at_most_every_two_seconds(clock, capfd):
    progress = SpokenLoad()
    for _ in range(50):
        clock[0] += 0.1
        progress(LoadProgressed("model.safetensors", 5 * 10**9, 10**10, 2.0))
    said = capfd.readouterr().err.splitlines()
    assert said[0].endswith("Loading the model.")
    assert len(said) == 3
    assert said[1].endswith("Loading: 50% of 10.0 GB.")
    clock[0] += 5.0
    progress(LoadProgressed("rounds are captured, 3 of 36", 10**10, 10**10, 2.0))
    assert capfd.readouterr().err.endswith("Loading: rounds are captured, 3 of 36.\n")


def test_a_long_prompt_is_told_while_it_is_read(clock, capfd):
    answer = SpokenAnswer()
    for done in range(0, 4000, 100):
        clock[0] += 0.1
        answer.before(PromptProgressed(done, 4000, 0, 1000.0))
    answer.before(TextArrived("x", "thinking"))
    answer.before(TextArrived("y", "answer"))
    answer.before(TextArrived("z", "answer"))
    said = capfd.readouterr().err.splitlines()
    assert [one.split(" ")[0] for one in said] == ["Reading", "Thinking.", "Assistant:"]
    assert "of 4,000 tokens." in said[0]


def test_the_first_line_waits(clock, capfd):
    Paced().say("at once")
    assert not capfd.readouterr().err
