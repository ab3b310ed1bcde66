"""Measures the screen: tokens a second that it costs, how late its loop is, big conversations."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import fmean, quantiles
from typing import Any

from textual.geometry import Region

from app.sessions.store import SessionStore
from app.tui.answer_view import pieces_of
from app.tui.bench.answers import MESSAGE
from app.tui.bench.stage import Asked, Shown, answer_alone, answer_on_screen, screen
from app.tui.bench.timed_engine import Pace, TimedEngine
from app.tui.chat import ChatApp
from engine.records import TurnRecord
from engine.types import ChatEngine

OTHER_SIZE = (90, 30)
QUESTION = "go"

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

    Attributes:
        name: of the answer.
        num_tokens: of each pass.
        pairs: tokens a second without and with the screen, pass by pass; which of the two came
            first alternates.
        lag_p95_ms: how late the event loop was, in the worst pass.
        run_host_p95_ms: the ``host`` phase of a round without the screen, and
        host_p95_ms: with it, in the worst pass; of the timed engine it is how late a round was
            taken that its device had done.
        cpu_share: of the process, in cores, with the screen.
    """

    name: str
    num_tokens: int
    pairs: tuple[tuple[float, float], ...]
    lag_p95_ms: float
    run_host_p95_ms: float
    host_p95_ms: float
    cpu_share: float

    @property
    def run_tok_s(self) -> float:
        """Tokens a second without the screen, on average."""
        return fmean(alone for alone, _ in self.pairs)

    @property
    def tui_tok_s(self) -> float:
        """Tokens a second on the screen, on average."""
        return fmean(shown for _, shown in self.pairs)

    @property
    def ratio(self) -> float:
        """Tokens a second on the screen over those without it."""
        return self.tui_tok_s / self.run_tok_s

    @property
    def is_met(self) -> bool:
        """Whether both bars are."""
        return self.ratio >= BARS["ratio"] and self.lag_p95_ms <= BARS["lag_p95_ms"]

    def as_json(self) -> dict[str, Any]:
        """All figures as plain JSON values."""
        rates = {"run_tok_s": self.run_tok_s, "tui_tok_s": self.tui_tok_s, "ratio": self.ratio}
        return {**asdict(self), **rates, "is_met": self.is_met}


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


def stream(
    name: str,
    engine: ChatEngine,
    num_passes: int = 1,
    prompt: str = QUESTION,
    asked: Asked | None = None,
) -> Streamed:
    """Let an engine answer to nobody and on the screen, both in every pass.

    Args:
        name: what the answer is called.
        engine: stays open.
        num_passes: pairs of answers; who comes first alternates.
        prompt: the one message of each conversation.
        asked: settings by full name; with the same ones an answer is the same.
    """
    alone: list[TurnRecord] = []
    shown: list[Shown] = []
    for number in range(2 * num_passes):
        if number % 4 in (0, 3):
            alone.append(answer_alone(engine, prompt, asked or {}))
        else:
            shown.append(answer_on_screen(engine, prompt, asked or {}))
    ids = alone[0].token_ids
    if any(one.token_ids != ids for one in (*alone, *(one.record for one in shown))):
        raise RuntimeError("the screen took other tokens than the bare loop")
    return Streamed(
        name,
        len(ids),
        tuple((a.decode_tok_s, s.record.decode_tok_s) for a, s in zip(alone, shown, strict=True)),
        max(one.lag_p95_ms for one in shown),
        max(_host_p95_ms(one) for one in alone),
        max(_host_p95_ms(one.record) for one in shown),
        fmean(one.cpu_share for one in shown),
    )


def _host_p95_ms(record: TurnRecord) -> float:
    host_ms = [one.ms["host"] for one in record.rounds]
    return quantiles(host_ms, n=20)[-1] if len(host_ms) > 1 else sum(host_ms)


def grow(num_messages: int) -> Grown:
    """Open a conversation from disk, add an answer to it, and change the terminal's size."""
    return asyncio.run(_grow(num_messages))


async def _grow(num_messages: int) -> Grown:
    async with screen(TimedEngine(MESSAGE, Pace())) as (app, pilot, store):
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
