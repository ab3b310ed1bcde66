"""The one bridge between the engine's blocking loop and the screen.

One thread owns the engine: it opens it, then answers one request after the other. What happens
goes into a deque that costs the engine 40 ns an event; the screen drains it by the clock. No call
into the interface is ever made from this thread.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from engine.errors import CancelledError, EngineError
from engine.types import (
    ChatEngine,
    EngineInfo,
    Event,
    LoadProgressed,
    Request,
    RoundEnded,
    TextArrived,
)

OpenEngine = Callable[[Callable[[LoadProgressed], None], threading.Event], ChatEngine]
"""Opens the engine: reports progress, and gives up soon after the event is set."""

SWITCH_SECONDS = 0.0005
"""Interval of the interpreter lock while the chat runs: at the default of 5 ms a paint can hold the
engine's thread back by as much at every wait (measured: 98 against 107 tokens a second)."""

CLOSE_SECONDS = 5.0
"""How long leaving waits for the round in progress; the thread dies with the process anyway."""


@dataclass(frozen=True, slots=True)
class EngineOpened:
    """The model is loaded; ``token_texts`` spells ids (``engine.types.ChatEngine``)."""

    info: EngineInfo
    token_texts: Callable[[Sequence[int]], list[str]]


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """The model could not be loaded, or the load was cancelled."""

    error: EngineError


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """The engine refused the request, or died while it answered."""

    error: EngineError


WorkerEvent = LoadProgressed | EngineOpened | OpenFailed | Event | TurnFailed


class EngineWorker:
    """Runs the engine in a thread of its own.

    Args:
        open_engine: opens the engine; called in the thread.
    """

    def __init__(self, open_engine: OpenEngine) -> None:
        self._open_engine = open_engine
        self._events: deque[WorkerEvent] = deque()
        self._jobs: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._cancel_load = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to load, also again after a load that failed."""
        self._cancel_load = threading.Event()
        self._jobs = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def ask(self, request: Request) -> None:
        """Answer a request once the one before it has ended."""
        self._stop.clear()
        self._jobs.put(request)

    def stop(self) -> None:
        """End the answer in progress within a round; what was generated stays."""
        self._stop.set()

    def cancel_load(self) -> None:
        """Give up loading."""
        self._cancel_load.set()

    def drain(self) -> list[WorkerEvent]:
        """Everything that happened since the last call, oldest first."""
        found: list[WorkerEvent] = []
        events = self._events
        while events:
            found.append(events.popleft())
        return found

    def close(self) -> None:
        """Stop whatever runs and let the engine free its memory."""
        self._stop.set()
        self._cancel_load.set()
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        jobs = self._jobs
        try:
            engine = self._open_engine(self._events.append, self._cancel_load)
        except EngineError as error:
            self._events.append(OpenFailed(error))
            return
        except Exception as error:  # noqa: BLE001  (this is where a failure becomes a message)
            self._events.append(OpenFailed(_unexpected(error)))
            return
        if self._cancel_load.is_set():
            engine.close()
            self._events.append(OpenFailed(CancelledError("The load was stopped.")))
            return
        self._events.append(EngineOpened(engine.info, engine.token_texts))
        while (request := jobs.get()) is not None:
            self._answer(engine, request)
        engine.close()

    def _answer(self, engine: ChatEngine, request: Request) -> None:
        try:
            for event in engine.generate(request, self._stop):
                self._events.append(event)
        except EngineError as error:
            self._events.append(TurnFailed(error))
        except Exception as error:  # noqa: BLE001  (this is where a failure becomes a message)
            self._events.append(TurnFailed(_unexpected(error)))


def _unexpected(error: Exception) -> EngineError:
    return EngineError(
        f"The engine failed: {type(error).__name__}: {error}",
        "The conversation is kept; the same message can be sent again.",
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
