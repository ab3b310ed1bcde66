"""Engines around an engine: one that its user cannot close, one that says a text of ours."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.wrapped_engine import WrappedEngine
from engine.types import (
    ChatEngine,
    Event,
    Request,
    RoundEnded,
    TextArrived,
    TurnEnded,
)


class Borrowed(WrappedEngine):
    """Another engine, which stays open."""

    def close(self) -> None:
        """Leave it to whoever lent it."""


class Worded(Borrowed):
    """Another engine's rounds, whose tokens spell ``words`` one after the other.

    Random weights choose ids that spell nothing, and a screen without text costs nothing.
    """

    def __init__(self, engine: ChatEngine, words: Sequence[str]) -> None:
        super().__init__(engine)
        self._words = words

    def generate(self, request: Request, stop: threading.Event) -> Iterator[Event]:
        """Answer with the words, a token each."""
        num_said = 0
        for event in self.engine.generate(request, stop):
            match event:
                case TextArrived():
                    continue
                case RoundEnded(record):
                    count = len(record.token_ids)
                    for text in self._words[num_said : num_said + count]:
                        yield TextArrived(text, "answer")
                    num_said += count
                    yield event
                case TurnEnded(record):
                    words = self._words[:num_said]
                    yield TurnEnded(
                        replace(record, text="".join(words), reasoning="", token_chars=())
                    )
                case _:
                    yield event
