"""The conversation as a model that was just loaded reads it, while the person types a message."""

from app.opening import request_of
from app.sessions.session import Session
from app.tui.seat import Notice, error_notice
from app.tui.worker import EngineWorker
from app.tui.worker_events import ReadAheadEnded, ReadAheadWent
from engine.settings.declared import Settings
from engine.types import EngineInfo, NoticeRaised, PromptProgressed


class ReadingAhead:
    """Has one conversation at a time read; whatever is asked of the engine stops it.

    What was read until then stays read: an answer goes on behind it.
    """

    def __init__(self, worker: EngineWorker) -> None:
        self._worker = worker
        self.goes_on = False
        self.progress: PromptProgressed | None = None

    def begin(self, session: Session, info: EngineInfo, settings: Settings) -> None:
        """Have a conversation read up to where its next message will stand, if it has an answer."""
        messages = session.request_messages()
        if messages and messages[-1].role == "assistant":
            self.goes_on, self.progress = True, None
            self._worker.read_ahead(request_of(settings, info, messages))

    def stop(self) -> None:
        """Leave the rest for the next message."""
        self.goes_on = False
        self._worker.stop_reading_ahead()

    def take(self, event: ReadAheadWent | ReadAheadEnded) -> Notice | None:
        """Take how far it is; returns what the person should know."""
        if isinstance(event, ReadAheadEnded):
            self.goes_on = False
            return error_notice(event.error) if event.error is not None else None
        if isinstance(event.event, NoticeRaised):
            return "", event.event.text, "warning"
        self.progress = event.event
        return None
