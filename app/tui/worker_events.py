"""What the engine's thread tells the screen."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from engine.errors import EngineError
from engine.types import (
    EngineInfo,
    Event,
    LoadProgressed,
    NoticeRaised,
    PromptProgressed,
    RoundEnded,
    TextArrived,
)


@dataclass(frozen=True, slots=True)
class EngineOpened:
    """The model is loaded; how it spells ids and counts tokens (``engine.types.ChatEngine``)."""

    info: EngineInfo
    token_texts: Callable[[Sequence[int]], list[str]]
    text_tokens: Callable[[str], int]


@dataclass(frozen=True, slots=True)
class InfoChanged:
    """The engine measured something anew while nothing was asked of it."""

    info: EngineInfo


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """The model could not be loaded, or the load was cancelled; none is loaded now."""

    error: EngineError


@dataclass(frozen=True, slots=True)
class ReturnBegan:
    """Another model could not be loaded, and the one before it is read again."""

    error: EngineError


@dataclass(frozen=True, slots=True)
class SwitchFailed:
    """Another model could not be loaded; the one before it is there."""

    error: EngineError
    opened: EngineOpened

    @property
    def info(self) -> EngineInfo:
        """What is loaded."""
        return self.opened.info


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """The engine refused the request, or died while it answered."""

    error: EngineError


@dataclass(frozen=True, slots=True)
class ReadAheadWent:
    """A piece of a conversation was read before its next message, or there is something to say."""

    event: PromptProgressed | NoticeRaised


@dataclass(frozen=True, slots=True)
class ReadAheadEnded:
    """It is read, or as much of it as there was time for; ``error`` says why not."""

    error: EngineError | None = None


WorkerEvent = (
    LoadProgressed
    | EngineOpened
    | InfoChanged
    | OpenFailed
    | ReturnBegan
    | SwitchFailed
    | Event
    | TurnFailed
    | ReadAheadWent
    | ReadAheadEnded
)


def merged(events: Iterable[WorkerEvent]) -> list[WorkerEvent]:
    """Neighbouring texts of one channel as one, so that a paint costs the same at any rate."""
    found: list[WorkerEvent] = []
    texts: list[TextArrived] = []

    def flush() -> None:
        if texts:
            found.append(replace(texts[0], text="".join(one.text for one in texts)))
            texts.clear()

    for event in events:
        if isinstance(event, RoundEnded):
            found.append(event)
            continue
        if not isinstance(event, TextArrived) or (texts and texts[0].channel != event.channel):
            flush()
        if isinstance(event, TextArrived):
            texts.append(event)
        else:
            found.append(event)
    flush()
    return found
