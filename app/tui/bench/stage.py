"""One answer of an engine, to nobody or on the real screen, with nothing of the person's own."""

import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

from app.live import LiveSettings
from app.opening import request_of
from app.sessions.history import PromptHistory
from app.sessions.store import SessionStore
from app.tui.bench.borrowed import Borrowed
from app.tui.chat import ChatApp
from app.tui.worker import SWITCH_SECONDS, EngineWorker
from engine.records import TurnRecord
from engine.settings.load import load_settings
from engine.types import ChatEngine, Message, TurnEnded

SIZE = (120, 36)
POLL_S = 0.02

Asked = Mapping[str, object]
"""Settings by full name; no other ones are read."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer on the screen.

    ``lag_p95_ms`` is the event loop's, ``cpu_share`` the process's, of one core.
    """

    record: TurnRecord
    lag_p95_ms: float
    cpu_share: float


def answer_alone(engine: ChatEngine, prompt: str, asked: Asked) -> TurnRecord:
    """What ``qwen38 run`` does: take the events in the thread that computes."""
    with tempfile.TemporaryDirectory(prefix="qwen38-bench-") as name:
        settings, _ = load_settings({**asked, **_nowhere(name)})
    request = request_of(settings, engine.info, (Message("user", prompt),))
    for event in engine.generate(request, threading.Event()):
        if isinstance(event, TurnEnded):
            return event.record
    raise RuntimeError("the engine ended without a record")


def answer_on_screen(engine: ChatEngine, prompt: str, asked: Asked) -> Shown:
    """What ``qwen38 chat`` does, in a new conversation."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)  # as the chat does
    try:
        return asyncio.run(_answer_on_screen(engine, prompt, asked))
    finally:
        sys.setswitchinterval(before)


async def _answer_on_screen(engine: ChatEngine, prompt: str, asked: Asked) -> Shown:
    async with screen(engine, asked) as (app, _, _):
        cpu_s, began_s = time.process_time(), time.perf_counter()
        app.chat.submit(prompt)
        while app.chat.is_busy:
            await asyncio.sleep(POLL_S)
        rates = app.chat.rates
        if rates is None or rates.record is None:
            raise RuntimeError("the engine ended without a record")
        share = (time.process_time() - cpu_s) / (time.perf_counter() - began_s)
        return Shown(rates.record, app.instruments.gauges.lag_p95_ms or 0.0, share)


@asynccontextmanager
async def screen(
    engine: ChatEngine, asked: Asked | None = None
) -> AsyncGenerator[tuple[ChatApp, Pilot[None], SessionStore]]:
    """The real app on a terminal that nobody sees, ready to be asked; the engine stays open."""
    with tempfile.TemporaryDirectory(prefix="qwen38-bench-") as name:
        folder = Path(name)
        _, sources = load_settings({**(asked or {}), **_nowhere(name)})
        store = SessionStore(folder / "sessions", folder / "drafts")
        worker = EngineWorker(lambda _progress, _cancel: Borrowed(engine))
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


def _nowhere(folder: str) -> dict[str, object]:
    return {f"paths.{one}": folder for one in ("config", "data", "state")}
