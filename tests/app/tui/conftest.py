"""The chat under test: a scripted engine, folders of its own, and a clock that tests may hold."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from textual.events import Paste
from textual.pilot import Pilot

from app.live import LiveSettings
from app.sessions.history import PromptHistory
from app.sessions.store import SessionStore
from app.trace.record import Recorder
from app.tui.chat import ChatApp
from app.tui.clock import Clock
from app.tui.instruments.gauges import Gauges
from app.tui.own_keys import OwnKey
from app.tui.worker import EngineWorker
from engine.settings.load import load_settings
from tests.fakes.engine import Script, ScriptedEngine, real_checkpoint_engine
from tests.fakes.profiles import FakeMenu, Load
from tests.tries import PATIENCE_S


@dataclass
class Seat:
    """One app with everything around it."""

    app: ChatApp
    engine: ScriptedEngine
    store: SessionStore
    pilot: Pilot[None]

    async def type(self, text: str) -> None:
        self.app.composer.insert(text)
        await self.pilot.pause()

    async def send(self, text: str) -> None:
        await self.type(text)
        await self.pilot.press("enter")

    async def paste(self, text: str) -> None:
        self.app.composer.post_message(Paste(text))
        await self.pilot.pause()

    async def until(self, ready: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
        end = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > end:
                raise TimeoutError(self.text)
            await asyncio.sleep(0.02)

    async def idle(self) -> None:
        await self.until(lambda: self.app.chat.phase == "idle" and not self.app.chat.is_busy)
        self.app.tick()
        await self.pilot.pause()

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in screen_rows(self.app))

    @property
    def unwrapped(self) -> str:
        """The text without spaces and the ends of lines, which may stand within a long name."""
        return re.sub(r"[\s▌│]", "", self.text)

    @property
    def state(self) -> str:
        return self.app._frame.state.shown


def screen_rows(app: ChatApp) -> list[str]:
    width, height = app.size
    del height
    return [
        "".join(segment.text for segment in strip)[:width]
        for strip in app.screen._compositor.render_strips()
    ]


class Opener:
    """Opens a scripted engine, for the worker."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self.engine = engine
        self.num_opened = 0

    def __call__(self, progress, cancel):
        self.num_opened += 1
        return self.engine


@pytest.fixture
def seat(tmp_path: Path) -> Callable[..., object]:
    """A factory: ``async with seat(scripts...) as s``."""

    @asynccontextmanager
    async def open_seat(
        *scripts: Script,
        size: tuple[int, int] = (80, 24),
        engine: ScriptedEngine | None = None,
        opener=None,
        clock: Clock | None = None,
        resume: str = "",
        keep: bool = True,
        recorder: Recorder | None = None,
        prompts: Sequence[str] = (),
        folder: Path = tmp_path,
        profiles=None,
        gauges: Gauges | None = None,
        own_keys: Sequence[OwnKey] = (),
        **changed: object,
    ) -> AsyncIterator[Seat]:
        engine = engine or real_checkpoint_engine(list(scripts) or [Script()])
        paths = {f"paths.{name}": str(folder / name) for name in ("config", "data", "state")}
        named = {name.replace("__", "."): value for name, value in changed.items()}
        _, sources = load_settings({**paths, **named})
        store = SessionStore(folder / "data", folder / "drafts", keep=keep)
        session = store.open(resume) if resume else None
        worker = EngineWorker(opener or Opener(engine))
        history = PromptHistory(folder / "state" / "history.jsonl")
        app = ChatApp(
            LiveSettings.of(sources), store, history, worker, session, clock, recorder, prompts,
            profiles=profiles,
            gauges=gauges,
            own_keys=own_keys,
        )  # fmt: skip
        try:
            async with app.run_test(size=size) as pilot:
                await pilot.pause()
                yield Seat(app, engine, store, pilot)
        finally:
            worker.close()
            app.chat.close()
            store.close()

    return open_seat


@pytest.fixture
def chat(seat: Callable[..., object]) -> Callable[..., tuple[object, dict[str, Load]]]:
    """A factory of a seat that has the profile nvfp4 open, and of the others to go to."""

    def open_chat(*, first=None, beside=True, size=(80, 24), broken=None, **others):
        loads = {"nvfp4": Load(script=first or Script(answer="four bits")), **others}
        menu = FakeMenu(loads, beside, broken or {})
        return seat(opener=menu.opener("nvfp4"), profiles=menu, size=size), loads

    return open_chat
