"""What ``--a11y`` says: the plain chat in whole lines, at most one of progress every few seconds.

Nothing is redrawn or dimmed and no box is drawn; who speaks, what is read and how it ended stand in
words, so that a screen reader that follows the end of the terminal misses nothing.
"""

import time

from app.report import say
from engine.sizes import size_text
from engine.types import Event, LoadProgressed, PromptProgressed, TextArrived

EVERY_SECONDS = 2.0
"""Least time between two lines of progress: more would talk over what is read."""

FIRST_LINE = (
    "Accessible form: one line after the other, nothing is redrawn. Ctrl+C stops an answer, "
    "/help lists the commands, /quit leaves."
)
PROMPT = "You: "
ANSWER = "Assistant:"
THINKING = "Thinking."


class Paced:
    """Says a line at most every `EVERY_SECONDS`, the first one only after as long."""

    def __init__(self) -> None:
        self._said_at = time.monotonic()

    def say(self, sentence: str) -> None:
        """Say it, unless something was said just now."""
        if time.monotonic() - self._said_at >= EVERY_SECONDS:
            self._said_at = time.monotonic()
            say(sentence)


class SpokenLoad:
    """Progress of a load in lines."""

    def __init__(self) -> None:
        self._paced = Paced()
        say("Loading the model.")

    def __call__(self, step: LoadProgressed) -> None:
        """Take one step."""
        read = f"{step.share:.0%} of {size_text(step.total_bytes)}"
        done = step.file if step.is_all_read else read
        self._paced.say(f"Loading: {done}.")

    def clear(self) -> None:
        """Nothing to take away."""


class SpokenReading:
    """Progress of a conversation that is read, in lines."""

    def __init__(self) -> None:
        self._paced = Paced()

    def __call__(self, step: PromptProgressed) -> None:
        """Take one step."""
        self._paced.say(f"Reading {step.num_tokens:,} of {step.num_total:,} tokens.")

    def clear(self) -> None:
        """Nothing to take away."""


class SpokenAnswer:
    """Who speaks, and what happens before the first word."""

    def __init__(self) -> None:
        self._reading = SpokenReading()
        self._channel = ""

    def before(self, event: Event) -> None:
        """Say what belongs before an event is shown."""
        match event:
            case PromptProgressed():
                self._reading(event)
            case TextArrived(_, channel) if channel != self._channel:
                self._channel = channel
                say(THINKING if channel == "thinking" else ANSWER)
            case _:
                pass
