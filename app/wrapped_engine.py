"""An engine around an engine: what a class below does not change is done by the other one."""

import threading
from collections.abc import Iterator, Sequence

from engine.types import (
    ChatEngine,
    EngineInfo,
    Event,
    Message,
    NoticeRaised,
    PromptProgressed,
    Request,
)


class WrappedEngine:
    """Another engine's face (``engine.types.ChatEngine``)."""

    def __init__(self, engine: ChatEngine) -> None:
        self.engine = engine

    @property
    def info(self) -> EngineInfo:
        """What is loaded."""
        return self.engine.info

    def generate(self, request: Request, stop: threading.Event) -> Iterator[Event]:
        """Answer as the other one does."""
        return self.engine.generate(request, stop)

    def read_ahead(
        self, request: Request, stop: threading.Event
    ) -> Iterator[PromptProgressed | NoticeRaised]:
        """Read as the other one does."""
        return self.engine.read_ahead(request, stop)

    def count_tokens(self, messages: tuple[Message, ...]) -> int:
        """Number of prompt tokens."""
        return self.engine.count_tokens(messages)

    def measure_again(self) -> None:
        """Measure the read bandwidth once more."""
        self.engine.measure_again()

    def text_tokens(self, text: str) -> int:
        """Number of tokens that a text is by itself."""
        return self.engine.text_tokens(text)

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        """What each id spells by itself."""
        return self.engine.token_texts(token_ids)

    def close(self) -> None:
        """Free what the engine holds."""
        self.engine.close()
