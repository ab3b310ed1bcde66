"""The answer in progress: asked for, shown, kept and ended. Knows no queue and no load."""

from dataclasses import dataclass
from typing import Literal

from app.live import LiveSettings
from app.opening import request_of
from app.rates import TurnRates
from app.sessions.session import Session
from app.trace.record import Recorder
from app.tui.clock import Clock
from app.tui.page import Page
from app.tui.seat import Notice, error_notice
from app.tui.turn import Turn
from app.tui.worker import EngineWorker
from app.tui.worker_events import TurnFailed, WorkerEvent
from engine.errors import EngineError
from engine.records import FinishReason, TurnRecord
from engine.types import (
    EngineInfo,
    PromptProgressed,
    Request,
    RoundEnded,
    TextArrived,
    TurnEnded,
)

AnswerPhase = Literal["reading", "thinking", "writing", "stopping"]


@dataclass(frozen=True, slots=True)
class Answered:
    """The last answer of this run: where it stands, who made it, of what, and its record."""

    leaf: str
    info: EngineInfo
    request: Request
    record: TurnRecord


@dataclass(frozen=True, slots=True)
class Ending:
    """How an answer ended.

    ``given_back`` is the message as it was typed when the engine would not begin, else None.
    """

    reason: FinishReason
    notice: Notice | None = None
    given_back: str | None = None


class Answering:
    """Has one answer at a time made, and the figures of the last one.

    Args:
        worker: runs the engine.
        page: shows the answer.
        live: the settings an answer begins with.
        clock: measures from the asking.
        recorder: takes the timing.
    """

    def __init__(
        self,
        worker: EngineWorker,
        page: Page,
        live: LiveSettings,
        clock: Clock,
        recorder: Recorder | None,
    ) -> None:
        self._worker = worker
        self._page = page
        self._live = live
        self._clock = clock
        self._recorder = recorder
        self._asked: tuple[Session, EngineInfo, Request] | None = None
        self.turn: Turn | None = None
        self.phase: AnswerPhase = "reading"
        self.rates: TurnRates | None = None
        self.began_at = 0.0
        self.last: Answered | None = None

    def begin(
        self,
        session: Session,
        info: EngineInfo,
        before: str,
        asked: str,
        *,
        goes_on: bool,
        live: LiveSettings | None = None,
    ) -> None:
        """Answer the end of a session's branch; refused, it ends at ``before`` again.

        ``live`` are settings of its own for this one answer.
        """
        live = live or self._live
        request = request_of(live.settings, info, session.request_messages())
        view = self._page.answer_view(session, info, goes_on=goes_on)
        self.turn = Turn(
            session, view, before, asked,
            model=info.model, made_with=live.in_force(), goes_on=goes_on,
        )  # fmt: skip
        if self._recorder is not None:
            self._recorder.follow(session.trace_path)
        self.rates = None
        self.phase = "reading"
        self.began_at = self._clock.seconds()
        self._asked = (session, info, request)
        self._worker.ask(request)

    def stop(self) -> None:
        """Have the engine stop; what it wrote so far is kept."""
        self.phase = "stopping"
        self._worker.stop()

    def take(self, event: WorkerEvent) -> Ending | None:
        """Show and keep what the engine did; None while the answer goes on."""
        turn = self.turn
        if turn is None:
            return None
        turn.see(event)
        match event:
            case PromptProgressed():
                self._rates.prompt = event
            case TextArrived():
                if self.phase != "stopping":
                    self.phase = "thinking" if event.channel == "thinking" else "writing"
                turn.take(event, self._clock.seconds() - self.began_at)
            case RoundEnded():
                self._rates.take_round(event.record)
                turn.mark(event)
            case TurnEnded():
                return self._end(turn, event.record)
            case TurnFailed():
                return self._fail(turn, event.error)
            case _:
                pass
        return None

    def close(self, events: list[WorkerEvent]) -> str:
        """Keep what arrived, without showing it; returns what the engine refused, as typed."""
        turn, self.turn = self.turn, None
        return turn.close(events) if turn is not None else ""

    def _end(self, turn: Turn, record: TurnRecord) -> Ending:
        self._rates.record = record
        turn.finish(record)
        self.turn = None
        if self._asked is not None:
            session, info, request = self._asked
            self.last = Answered(session.leaf, info, request, record)
        if record.finish_reason != "error":
            return Ending(record.finish_reason)
        return Ending("error", ("Engine", record.error or "The engine failed.", "error"))

    def _fail(self, turn: Turn, error: EngineError) -> Ending:
        self.turn = None
        if turn.is_refused:
            return Ending("error", error_notice(error), turn.give_back())
        turn.fail()
        return Ending("error", error_notice(error))

    @property
    def _rates(self) -> TurnRates:
        if self.rates is None:
            self.rates = TurnRates()
        return self.rates
