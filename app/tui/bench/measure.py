"""Measures the screen: tokens a second that it costs, how late its loop is, big conversations."""

import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from textual.geometry import Region
from textual.pilot import Pilot

from app.live import LiveSettings
from app.sessions.history import PromptHistory
from app.sessions.store import SessionStore
from app.tui.answer_view import pieces_of
from app.tui.bench.answers import MESSAGE
from app.tui.bench.timed_engine import Pace, TimedEngine
from app.tui.chat import ChatApp
from app.tui.worker import SWITCH_SECONDS, EngineWorker
from engine.records import TurnRecord
from engine.settings.declared import load_settings
from engine.types import ChatEngine, Message, Request, TurnEnded

SIZE = (120, 36)
OTHER_SIZE = (90, 30)
QUESTION = "go"
POLL_S = 0.02

BARS = {
    "ratio": 0.97,
    "lag_p95_ms": 15.0,
    "open_ms": 1500.0,
    "append_ms": 15.0,
    "resize_ms": 2000.0,
}
"""A ratio is at least its bar, every time at most."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """One answer, alone and on the screen.

    ``late_p95_ms`` is how late the engine's thread took a round that its device had done, and
    ``cpu_share`` the process's, of one core.
    """

    name: str
    num_tokens: int
    run_tok_s: float
    tui_tok_s: float
    lag_p95_ms: float
    late_p95_ms: float
    cpu_share: float

    @property
    def ratio(self) -> float:
        """Tokens a second on the screen over those without it."""
        return self.tui_tok_s / self.run_tok_s

    @property
    def is_met(self) -> bool:
        """Whether both bars are."""
        return self.ratio >= BARS["ratio"] and self.lag_p95_ms <= BARS["lag_p95_ms"]


@dataclass(frozen=True, slots=True)
class Grown:
    """A conversation of ``num_messages``: milliseconds to open it, to append, to resize."""

    num_messages: int
    open_ms: float
    append_ms: float
    resize_ms: float

    @property
    def is_met(self) -> bool:
        """Whether all bars are."""
        return all(
            getattr(self, name) <= BARS[name] for name in ("open_ms", "append_ms", "resize_ms")
        )


def stream(name: str, text: str, pace: Pace) -> Streamed:
    """Let an engine say ``text`` to nobody, then to the screen."""
    alone = _answer(TimedEngine(text, pace))
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)  # as the chat does
    try:
        return asyncio.run(_stream(name, text, pace, alone))
    finally:
        sys.setswitchinterval(before)


def _answer(engine: ChatEngine) -> TurnRecord:
    """What ``qwen38 run`` does: take the events in the engine's own thread."""
    request = Request(messages=(Message("user", QUESTION),))
    for event in engine.generate(request, threading.Event()):
        if isinstance(event, TurnEnded):
            return event.record
    raise RuntimeError("the engine ended without a record")


async def _stream(name: str, text: str, pace: Pace, alone: TurnRecord) -> Streamed:
    async with _screen(TimedEngine(text, pace)) as (app, _, _):
        cpu_s, began_s = time.process_time(), time.perf_counter()
        app.chat.submit(QUESTION)
        while app.chat.rates is None or app.chat.rates.record is None:
            await asyncio.sleep(POLL_S)
        record = app.chat.rates.record
        share = (time.process_time() - cpu_s) / (time.perf_counter() - began_s)
        lag_ms = app.instruments.gauges.lag_p95_ms or 0.0
    if record.token_ids != alone.token_ids:
        raise RuntimeError("the screen took other tokens than the bare loop")
    late_ms = quantiles([one.ms["host"] for one in record.rounds], n=20)[-1]
    rates = (alone.decode_tok_s, record.decode_tok_s)
    return Streamed(name, len(record.token_ids), *rates, lag_ms, late_ms, share)


def grow(num_messages: int) -> Grown:
    """Open a conversation from disk, add an answer to it, and change the terminal's size."""
    return asyncio.run(_grow(num_messages))


async def _grow(num_messages: int) -> Grown:
    async with _screen(TimedEngine(MESSAGE, Pace())) as (app, pilot, store):
        session_id = _written(store, num_messages)
        transcript = app.transcript
        open_ms = _timed(app, lambda: app.chat.resume(session_id))
        entry = app.chat.session.path_messages()[-1]
        append_ms = _timed(app, lambda: transcript.append(*pieces_of(entry, "m", "", "live")))
        began_s = time.perf_counter()
        await pilot.resize_terminal(*OTHER_SIZE)
        resize_ms = (time.perf_counter() - began_s) * 1e3
    return Grown(num_messages, open_ms, append_ms, resize_ms)


def _written(store: SessionStore, num_messages: int) -> str:
    """The id of a conversation on disk."""
    session = store.create("timed", "none", "")
    for number in range(num_messages // 2):
        session.add_message("user", f"question {number}")
        session.add_message("assistant", f"Answer {number}\n\n{MESSAGE}")
    session.close()
    return session.id


def _timed(app: ChatApp, act: Callable[[], object]) -> float:
    """Milliseconds of an act and of drawing the conversation after it."""
    began_s = time.perf_counter()
    act()
    app.transcript.render_lines(Region(0, 0, *app.transcript.size))
    return (time.perf_counter() - began_s) * 1e3


@asynccontextmanager
async def _screen(engine: ChatEngine) -> AsyncGenerator[tuple[ChatApp, Pilot[None], SessionStore]]:
    """The real app on a terminal that nobody sees, with nothing of the person's own."""
    with tempfile.TemporaryDirectory(prefix="qwen38-bench-") as name:
        folder = Path(name)
        nowhere = {f"paths.{one}": name for one in ("config", "data", "state")}
        _, sources = load_settings(nowhere)
        store = SessionStore(folder / "sessions", folder / "drafts")
        worker = EngineWorker(lambda _progress, _cancel: engine)
        history = PromptHistory(folder / "history.jsonl")
        app = ChatApp(LiveSettings.of(sources), store, history, worker)
        try:
            async with app.run_test(size=SIZE) as pilot:
                while app.chat.phase != "idle":
                    await asyncio.sleep(POLL_S)
                yield app, pilot, store
        finally:
            worker.close()
            app.chat.close()
