"""Keeping what was not sent on disk: what is being typed, and the message that waits its turn."""

from app.slash import typed_text
from app.tui.clock import Clock
from app.tui.composer import Composer
from app.tui.conversation import Conversation

QUIET_SECONDS = 0.5
MOST_SECONDS = 2.0


class DraftKeeper:
    """Writes the message box to the session's draft when it rests, and at least every 2 s."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._first_change = 0.0
        self._last_change = 0.0
        self._is_changed = False
        self._queued = ""

    def touch(self) -> None:
        """Note that the box changed."""
        self._last_change = self._clock.seconds()
        if not self._is_changed:
            self._first_change = self._last_change
        self._is_changed = True

    def save(self, chat: Conversation, composer: Composer, *, now: bool = False) -> None:
        """Write the draft if it is time."""
        if chat.waiting.queued != self._queued:
            self._queued = chat.waiting.queued
            self.touch()
        if not self._is_changed:
            return
        seconds = self._clock.seconds()
        is_quiet = seconds - self._last_change >= QUIET_SECONDS
        if now or is_quiet or seconds - self._first_change >= MOST_SECONDS:
            waiting = typed_text(chat.waiting.queued) if chat.waiting.queued else ""
            chat.session.draft = "\n".join(filter(None, (waiting, composer.full_text)))
            self._is_changed = False
