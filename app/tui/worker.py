"""The one bridge between the engine's blocking loop and the screen.

One thread owns the engine: it opens it, answers one request after the other, and changes it for
another one. What happens goes into a deque that costs the engine 40 ns an event; the screen drains
it by the clock. No call into the interface is ever made from this thread.
"""

import contextlib
import ctypes
import gc
import queue
import sys
import threading
from collections import deque

from app.tui.worker_events import (
    EngineOpened,
    InfoChanged,
    OpenFailed,
    ReadAheadEnded,
    ReadAheadWent,
    ReturnBegan,
    SwitchFailed,
    TurnFailed,
    WorkerEvent,
)
from app.tui.worker_jobs import Job, Load, OpenEngine, ReadAhead
from engine.errors import CancelledError, EngineError
from engine.types import ChatEngine, Request

SWITCH_SECONDS = 0.00002
"""Interval of the interpreter lock while the chat runs: by so much a paint can hold the engine's
thread back at every wait of a round. The 27B's shape in NVFP4 on an H200, 157 tokens a second
without a screen, has 0.89 of them at 500 us, 0.92 at 100, 0.96 at 50 and 0.98 at 20
(``scripts/sweep_ui.py``)."""

_PR_SET_TIMERSLACK = 29
TIMER_SLACK_NS = 1000

PAUSE_SECONDS = 3.0
"""Without a request for so long the machine is measured again: what it reads follows its load."""

MEASURED_A_PAUSE = 3
"""Times that one pause is used; each keeps a message that comes just then waiting for 0.2 s."""

CLOSE_SECONDS = 5.0
"""How long leaving waits for the round in progress; the thread dies with the process anyway."""


class EngineWorker:
    """Runs the engine in a thread of its own.

    Args:
        open_engine: opens the engine; called in the thread.
    """

    def __init__(self, open_engine: OpenEngine) -> None:
        self._open_engine = open_engine
        self._events: deque[WorkerEvent] = deque()
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._ahead: ReadAhead | None = None
        self._load = Load(open_engine)
        self._thread: threading.Thread | None = None
        # of the thread alone
        self._engine: ChatEngine | None = None
        self._opener: OpenEngine | None = None
        self._kept: tuple[ChatEngine, OpenEngine] | None = None

    def start(self) -> None:
        """Begin to load, also again after a load that failed."""
        self._enqueue(Load(self._open_engine))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
            self._thread.start()

    def switch(self, open_engine: OpenEngine, *, beside: bool = False, keeps: bool = False) -> None:
        """Open another engine in place of this one, after the answer in progress.

        A load that still runs is given up for it. When the new engine does not open, the one before
        it stays, or is opened again.

        Args:
            open_engine: opens the other one.
            beside: both fit into memory, so that the old one is let go of last.
            keeps: with ``beside``, the old one stays with all that it holds until `go_back`.
        """
        self._supersede(Load(open_engine, beside, keeps=keeps and beside))

    def go_back(self, open_engine: OpenEngine) -> None:
        """Return from a visit: to the engine that was kept, else to one that is opened again."""
        self._open_engine = open_engine
        self._supersede(Load(open_engine, returns=True))

    def ask(self, request: Request) -> None:
        """Answer a request once the one before it has ended; what is read ahead ends now."""
        self.stop_reading_ahead()
        self._stop.clear()
        self._jobs.put(request)

    def stop(self) -> None:
        """End the answer in progress within a round; what was generated stays."""
        self._stop.set()

    def read_ahead(self, request: Request) -> None:
        """Read a conversation before its next message; anything else that is wanted stops it."""
        self._ahead = ReadAhead(request)
        self._jobs.put(self._ahead)

    def stop_reading_ahead(self) -> None:
        """Leave the rest of it for the next message."""
        if self._ahead is not None:
            self._ahead.stop.set()

    def cancel_load(self) -> None:
        """Give up loading."""
        self._load.cancel.set()

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
        self.stop_reading_ahead()
        self._load.cancel.set()
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _supersede(self, load: Load) -> None:
        self._load.is_superseded = True
        self._load.cancel.set()
        self.stop_reading_ahead()
        self._enqueue(load)

    def _enqueue(self, load: Load) -> None:
        self._load = load
        self._jobs.put(load)

    # the engine's thread

    def _run(self) -> None:
        _wake_on_time()
        while (job := self._next_job()) is not None:
            if isinstance(job, Request):
                self._answer(job)
            elif isinstance(job, ReadAhead):
                self._read_ahead(job)
            elif not job.is_superseded:
                self._change(job)
        self._let_go()
        self._let_go_of_kept()

    def _next_job(self) -> Job:
        for _ in range(MEASURED_A_PAUSE if self._engine is not None else 0):
            with contextlib.suppress(queue.Empty):
                return self._jobs.get(timeout=PAUSE_SECONDS)
            self._measure()
        return self._jobs.get()

    def _measure(self) -> None:
        engine = self._engine
        assert engine is not None
        before = engine.info
        engine.measure_again()
        if engine.info != before:
            self._events.append(InfoChanged(engine.info))

    def _change(self, load: Load) -> None:
        """Open what was asked for; failing that, have again what was there."""
        if load.returns and self._kept is not None:
            self._let_go()
            (self._engine, self._opener), self._kept = self._kept, None
            self._events.append(_here_to_stay(self._engine))
            return
        if not load.beside:
            self._let_go()
        engine, error = self._opened(load.opener, load.cancel)
        if engine is None:
            self._return(load, error)
            return
        if load.keeps and self._engine is not None and self._opener is not None:
            self._kept = (self._engine, self._opener)
        else:
            self._let_go()
            self._let_go_of_kept()
        self._engine, self._opener = engine, load.opener
        self._open_engine = load.opener
        self._events.append(_here_to_stay(engine))

    def _return(self, load: Load, error: EngineError) -> None:
        if load.is_superseded:
            return
        if self._engine is None and self._opener not in (None, load.opener):
            self._events.append(ReturnBegan(error))
            load.cancel.clear()  # a second wish to stop gives the return up as well
            self._engine, second = self._opened(self._opener, load.cancel)
            error = error if self._engine is not None else second
        if self._engine is not None:
            self._events.append(SwitchFailed(error, _here_to_stay(self._engine)))
        else:
            self._events.append(OpenFailed(error))

    def _opened(
        self, opener: OpenEngine, cancel: threading.Event
    ) -> tuple[ChatEngine | None, EngineError]:
        """The engine, or None and why there is none."""
        try:
            engine = opener(self._events.append, cancel)
        except EngineError as error:
            return None, _alone(error)
        except Exception as error:  # noqa: BLE001  (this is where a failure becomes a message)
            return None, _unexpected(error)
        stopped = CancelledError("The load was stopped.")
        if cancel.is_set():
            engine.close()
            return None, stopped
        return engine, stopped

    def _let_go(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            _close(engine)

    def _let_go_of_kept(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            _close(kept[0])

    def _answer(self, request: Request) -> None:
        engine = self._engine
        if engine is None:
            error = EngineError("No model is loaded.", "Choose a profile with F3.")
            self._events.append(TurnFailed(error))
            return
        try:
            for event in engine.generate(request, self._stop):
                self._events.append(event)
        except EngineError as error:
            self._events.append(TurnFailed(error))
        except Exception as error:  # noqa: BLE001  (this is where a failure becomes a message)
            self._events.append(TurnFailed(_unexpected(error)))

    def _read_ahead(self, job: ReadAhead) -> None:
        engine, error = self._engine, None
        if engine is not None and not job.stop.is_set():
            try:
                for event in engine.read_ahead(job.request, job.stop):
                    self._events.append(ReadAheadWent(event))
            except EngineError as problem:
                error = _alone(problem)
            except Exception as problem:  # noqa: BLE001  (this is where a failure becomes a message)
                error = _unexpected(problem)
        self._events.append(ReadAheadEnded(error))


def _wake_on_time() -> None:
    """Have the kernel wake this thread within a microsecond, and not within 50, where it can.

    A wait for the interpreter lock is timed: while another thread computed, it took 50 us with this
    and 110 us without on two x86 cores.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, TIMER_SLACK_NS)


def _unexpected(error: Exception) -> EngineError:
    return EngineError(
        f"The engine failed: {type(error).__name__}: {error}",
        "The conversation is kept; the same message can be sent again.",
    )


def _here_to_stay(engine: ChatEngine) -> EngineOpened:
    """What is known of an engine that stays.

    A full collection of garbage would look at all that it and the screen are made of, and stop both
    for a tenth of a second or more in the middle of an answer: what is there now is left out.
    """
    gc.freeze()
    return EngineOpened(engine.info, engine.token_texts, engine.text_tokens)


def _close(engine: ChatEngine) -> None:
    """Let go of an engine: its layers and graphs refer to each other, the collector frees them."""
    gc.unfreeze()
    engine.close()


def _alone(error: EngineError) -> EngineError:
    """The error without its frames, which hold what was loaded so far."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error
