"""What the model reads is told where it takes long, on a terminal only, until the answer comes."""

import io
import sys

from app import streams
from app.streams import SHORT_READ_S, reading_shown
from engine.types import PromptProgressed, TextArrived

ANSWER = "A volcano is a mountain that can erupt."
LONG = {"prefill_s": 0.8}


def test_a_prompt_that_takes_long_to_read_is_told_in_front_of_the_answer(on_terminal):
    with on_terminal([LONG], "run", "hello there") as terminal:
        seen, code = terminal.exit_code()
    assert code == 0
    assert f"\rreading the prompt  6 of 6 tokens  1,000 tok/s\x1b[K\r\x1b[K{ANSWER}" in seen


def test_the_plain_chat_tells_it_as_well(on_terminal):
    with on_terminal([LONG], "chat", "--plain") as terminal:
        terminal.wait_for("you>")
        terminal.type("hello\r")
        seen = terminal.wait_for(f"{ANSWER}.*you>")
        assert (
            f"\rreading the conversation  5 of 5 tokens  1,000 tok/s\x1b[K\r\x1b[K{ANSWER}" in seen
        )
        terminal.type("/quit\r")
        assert terminal.exit_code()[1] == 0


def test_a_pipe_is_told_nothing_of_it(scripted):
    done = scripted([LONG], "run", "hello there")
    assert done.stdout.decode() == f"{ANSWER}\n"
    assert b"reading" not in done.stderr


class _Screen(io.StringIO):
    def isatty(self):
        return True


def test_what_is_read_at_once_is_worth_no_line(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(streams.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", _Screen())
    text = TextArrived("word", "answer")

    def events(at):
        now[0] = at
        yield PromptProgressed(64, 128, 0, 64.0)
        yield text

    assert list(reading_shown(events(SHORT_READ_S - 0.1), "the prompt")) == [text]
    assert sys.stderr.getvalue() == ""
    now[0] = 0.0
    assert list(reading_shown(events(SHORT_READ_S + 0.1), "the prompt")) == [text]
    assert sys.stderr.getvalue().startswith("\rreading the prompt  64 of 128 tokens  64 tok/s")
