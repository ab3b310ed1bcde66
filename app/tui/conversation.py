"""The life of a conversation: what is asked, what is queued, what is kept, and in which order.

An answer is on disk before it is shown complete. Knows the transcript it shows itself on, but no
key, no command and no layout.
"""

from collections.abc import Callable

from app.attached import attach
from app.live import LiveSettings
from app.profile_menu import Switch
from app.rates import TurnRates, rates_of
from app.sessions.session import Session
from app.sessions.store import SessionStore
from app.slash import typed_text
from app.trace.record import Recorder
from app.tui.answering import Answering, AnswerPhase, Ending
from app.tui.clock import Clock
from app.tui.open_session import OpenSession
from app.tui.page import Page
from app.tui.pieces import Tone
from app.tui.reading_ahead import ReadingAhead
from app.tui.seat import Seat, SeatPhase, error_notice
from app.tui.transcript import Transcript
from app.tui.waiting import Waiting
from app.tui.worker import EngineWorker
from app.tui.worker_events import ReadAheadEnded, ReadAheadWent, WorkerEvent, merged
from engine.errors import EngineError, RequestError
from engine.records import TurnRecord
from engine.types import EngineInfo, NoticeRaised


class Conversation:
    """One window's conversation; the app tells it what the person wants and what the engine did."""

    def __init__(
        self,
        store: SessionStore,
        worker: EngineWorker,
        transcript: Transcript,
        live: LiveSettings,
        clock: Clock,
        session: Session | None,
        recorder: Recorder | None = None,
    ) -> None:
        self._worker = worker
        self._page = Page(transcript, live, clock)
        self._live = live
        self.recorder = recorder
        self._open = OpenSession(store, live, session)
        self._shows_again = False
        self.seat = Seat(worker, live, recorder)
        self.ahead = ReadingAhead(worker)
        self.answering = Answering(worker, self._page, live, clock, recorder)
        self.waiting = Waiting()

    # how things are

    @property
    def session(self) -> Session:
        """The conversation on disk."""
        return self._open.session

    @property
    def records(self) -> list[TurnRecord]:
        """The records of the answers of this branch that are complete, oldest first."""
        return [one.record for one in self.session.path_messages() if one.record is not None]

    @property
    def phase(self) -> AnswerPhase | SeatPhase:
        """What is going on."""
        return self.answering.phase if self.is_busy else self.seat.phase

    @property
    def rates(self) -> TurnRates | None:
        """The figures of the answer in progress, or of the last one of this branch."""
        return self.answering.rates

    @property
    def info(self) -> EngineInfo | None:
        """What is loaded."""
        return self.seat.info

    @property
    def is_busy(self) -> bool:
        """Whether an answer is in progress."""
        return self.answering.turn is not None

    @property
    def is_free(self) -> bool:
        """Whether a message that is sent now is answered at once."""
        return self.phase == "idle"

    # what the person does

    def show(self) -> None:
        """Show the whole conversation."""
        self._page.show(self.session, self.info)
        self._show_figures()
        self.tell_warnings()

    def _show_figures(self) -> None:
        """Have the figures of the last answer that is shown."""
        records = self.records
        self.answering.rates = rates_of(records[-1]) if records else None

    def submit(self, text: str) -> bool:
        """Send a message, or queue it; False when it has to wait in the box."""
        if self.phase == "unloaded":
            self.seat.load_again()
        if self.phase == "loading" or self.is_busy:
            return self.waiting.queue(text, is_for_profile=self.seat.switch is not None)
        self.ask(text)
        return True

    def submit_now(self, text: str) -> bool:
        """Stop the answer in progress and send a message, or the queued one; False for neither."""
        text = "\n".join(filter(None, (self.waiting.take_queued(), text)))
        if not text:
            return False
        if not self.is_busy:
            return self.submit(text)
        self.waiting.queue(text, is_urgent=True)
        return self.stop()

    def go_to(self, leaf: str) -> None:
        """Show another branch, from the beginning to ``leaf``."""
        self.session.select(leaf)
        self.show()

    def take_form(self) -> None:
        """Show answers as tokens or as blocks, as the settings ask for; earlier ones at the end."""
        if self.answering.turn is None:
            self.show()
        else:
            self.answering.turn.take_form()
            self._page.settle()
            self._shows_again = True

    def stop(self) -> bool:
        """Stop the load, the answer or what is read ahead; False when nothing runs."""
        if self.phase == "loading":
            self._worker.cancel_load()
        elif self.is_busy:
            self.answering.stop()
        elif self.ahead.goes_on:
            self.ahead.stop()
        else:
            return False
        return True

    def switch_to(self, switch: Switch) -> None:
        """Open another profile, after the answer in progress; a queued message waits for it.

        If that answer is stopped, a message that was queued before comes back unsent, as ever.
        """
        self.seat.switch = switch
        if not self.is_busy:
            self.seat.begin_switch()

    def begin_new(self) -> None:
        """Begin an empty conversation; this one stays on disk."""
        self.ahead.stop()
        self._open.begin(self.info)
        self.show()

    def resume(self, session_id: str) -> None:
        """Go on with an earlier conversation; raises ``SessionError``."""
        if session_id != self.session.id:
            self._open.go_to(session_id)
            self.ahead.stop()
            self.show()

    def lend(self, taker: Callable[[list[WorkerEvent]], None]) -> None:
        """Let another one have the engine; messages wait until it is given back."""
        self.ahead.stop()
        self.seat.lend(taker)

    def give_back(self, event: WorkerEvent) -> None:
        """Have the engine again; ``event`` says whether it is there."""
        self.seat.lent_to = None
        self._take_load(event)

    def keep_settings(self) -> None:
        """Write down what is set for this conversation."""
        self._open.keep_settings()

    def close(self) -> None:
        """Keep what has arrived of an answer in progress, and let go of the file."""
        self.waiting.refuse(self.answering.close(self._worker.drain()))
        if refused := self.waiting.take_refused():
            self.session.draft = "\n".join(filter(None, (refused, self.session.draft)))
        self.session.close()

    # what the engine did

    def take(self, events: list[WorkerEvent]) -> None:
        """Show and keep what happened since the last paint."""
        if self.seat.lent_to is not None:
            self.seat.lent_to(events)
            return
        for event in merged(events):
            if isinstance(event, ReadAheadWent | ReadAheadEnded):
                if notice := self.ahead.take(event):
                    self.notice(*notice)
            elif ending := self.answering.take(event):
                self._end(ending)
            elif isinstance(event, NoticeRaised):
                self.notice("", event.text, "warning")
            else:
                self._take_load(event)
        if events:
            self._page.settle()

    def _take_load(self, event: WorkerEvent) -> None:
        change = self.seat.take(event)
        if change is None:
            return
        for notice in change.notices:
            self.notice(*notice)
        if change.is_back:
            self.waiting.refuse_queued()
        elif self.info is not None:
            self._open.belong_to(self.info)
            self._send_queued()
        if not self.is_busy and self.info is not None:  # it holds nothing of the conversation
            self.ahead.begin(self.session, self.info, self._live.settings)

    def _end(self, ending: Ending) -> None:
        if ending.given_back is not None:
            self.waiting.refuse(ending.given_back)
            self._page.take_back(self.session, self.info)
            self._show_figures()
        elif self._shows_again:
            self.show()
        self._shows_again = False
        self.tell_warnings()
        was_stopped = ending.reason == "cancelled" and not self.waiting.is_urgent
        if self.seat.begin_switch():
            if was_stopped and not self.waiting.is_for_profile:
                self.waiting.refuse_queued()
        elif ending.reason != "error" and not was_stopped:
            self._send_queued()
        if ending.notice is not None:
            self.notice(*ending.notice)

    # asking

    def ask(self, text: str, before: str | None = None) -> None:
        """Send a message with the files that it names; one that does not read gives it back."""
        try:
            outgoing = attach(text)
        except RequestError as error:
            self.waiting.refuse(typed_text(text))
            self.tell_error(error)
            return
        before = self.session.leaf if before is None else before
        entry = self.session.add_message("user", outgoing.content, files=outgoing.files)
        self._page.show_prompt(self.session, entry)
        self.start_answer(before, text)

    def start_answer(
        self,
        before: str,
        asked: str = "",
        *,
        goes_on: bool = False,
        live: LiveSettings | None = None,
    ) -> None:
        """Answer the end of the branch; refused, it ends at ``before`` again."""
        if self.info is None:
            return
        self.answering.begin(self.session, self.info, before, asked, goes_on=goes_on, live=live)
        self.tell_warnings()

    def _send_queued(self) -> None:
        if text := self.waiting.take_queued():
            self.ask(text)

    # notices

    def notice(self, title: str, text: str, tone: Tone = "info") -> None:
        """Put a notice on the transcript."""
        self._page.notice(title, text, tone, self.answering.turn)

    def tell_error(self, error: EngineError) -> None:
        """Put an error on the transcript: what happened, and how to mend it."""
        self.notice(*error_notice(error))

    def tell_warnings(self) -> None:
        """Show what the session has to say about its disk and its file."""
        for sentence in self._open.fresh_warnings():
            self.notice("Session", sentence, "warning")
