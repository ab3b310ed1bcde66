"""Engines around an engine: one that its user cannot close, one that says a text of ours."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.types import (
    ChatEngine,
    EngineInfo,
    Event,
    Message,
    NoticeRaised,
    PromptProgressed,
    Request,
    RoundEnded,
    TextArrived,
    TurnEnded,
)


class Borrowed:
    """Another engine, which stays open (``engine.types.ChatEngine``)."""

    def __init__(self, engine: ChatEngine) -> None:
        self._engine = engine

    @property
    def info(self) -> EngineInfo:
        """What is loaded."""
        return self._engine.info

    def generate(self, request: Request, stop: threading.Event) -> Iterator[Event]:
        """Answer as the other one does."""
        return self._engine.generate(request, stop)

    def read_ahead(
        self, request: Request, stop: threading.Event
    ) -> Iterator[PromptProgressed | NoticeRaised]:
        """Read as the other one does."""
        return self._engine.read_ahead(request, stop)

    def count_tokens(self, messages: tuple[Message, ...]) -> int:
        """Number of prompt tokens."""
        return self._engine.count_tokens(messages)

    def measure_again(self) -> None:
        """Measure the read bandwidth once more."""
        self._engine.measure_again()

    def text_tokens(self, text: str) -> int:
        """Number of tokens that a text is by itself."""
        return self._engine.text_tokens(text)

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        """What each id spells by itself."""
        return self._engine.token_texts(token_ids)

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
        for event in self._engine.generate(request, stop):
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
