"""The rows around the conversation: a header, what is going on, and short hints."""

from collections.abc import Callable

from app.live import LiveSettings
from app.tui.clock import Clock
from app.tui.conversation import Conversation
from app.tui.lines import Line, header_text
from app.tui.parameters import drafter_text, parameters_text
from app.tui.state import state_text
from app.tui.theme import Look
from app.visible import visible_line

HINT_SECONDS = 4.0
HINT_CELLS = 300
TWICE_SECONDS = 1.5
"""How soon the second press of a key has to follow the first."""


class Frame:
    """Paints the lines from what the conversation is doing; holds the hint of the moment."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.header, self.state, self.parameters = (
            Line(id=name) for name in ("header", "state", "parameters")
        )
        self._hint = ""
        self._hint_until = 0.0
        self._hint_holds: Callable[[], bool] = lambda: True
        self._armed = ""
        self._armed_until = 0.0
        self._place = ("", 0, "")
        self._place_text = ""

    def hint(self, sentence: str, holds: Callable[[], bool] = lambda: True) -> None:
        """Say something for a few seconds from the next paint on, while it ``holds``."""
        self._hint = visible_line(sentence, HINT_CELLS)
        self._hint_holds = holds
        self._hint_until = self._clock.seconds() + HINT_SECONDS

    def is_second(self, what: str, seconds: float = TWICE_SECONDS) -> bool:
        """Whether the same thing was wanted a moment ago; notes it otherwise."""
        now = self._clock.seconds()
        is_second = self._armed == what and now < self._armed_until
        self._armed, self._armed_until = ("", 0.0) if is_second else (what, now + seconds)
        return is_second

    def is_armed(self, what: str) -> bool:
        """Whether doing it once more now would be the second time."""
        return self._armed == what and self._clock.seconds() < self._armed_until

    def paint(
        self, chat: Conversation, live: LiveSettings, standing_hint: str, width: int, look: Look
    ) -> None:
        """Show how things are; ``standing_hint`` stands where no hint of the moment does."""
        seconds = self._clock.seconds()
        busy = "answering" if chat.is_busy else {"idle": "ready"}.get(chat.phase, chat.phase)
        title = chat.session.title if chat.session.has_title else "new conversation"
        hint = self._hint if seconds < self._hint_until and self._hint_holds() else standing_hint
        self.header.show(
            header_text(title, self._branch(chat), chat.info, drafter_text(live), busy, width, look)
        )
        self.state.show(state_text(chat, seconds, hint, width, look))
        self.parameters.show(parameters_text(live, chat.info, chat.session, width, look))

    def _branch(self, chat: Conversation) -> str:
        """Which of several branches is shown; counted again only when that may have changed."""
        session = chat.session
        place = (session.id, len(session.messages), session.leaf)
        if place != self._place and not chat.is_busy:
            number, count = session.tree().place(session.leaf)
            self._place = place
            self._place_text = f"branch {number} of {count}" if count > 1 else ""
        return self._place_text
