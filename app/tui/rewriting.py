"""Writing an earlier message anew in the message box, with what stood there before kept aside."""

from dataclasses import dataclass

from app.attached import typed_message
from app.sessions.entries import MessageEntry
from app.sessions.session import Session
from app.tui.composer import Composer


@dataclass(frozen=True, slots=True)
class _Aside:
    entry: MessageEntry
    box: str


class Rewriting:
    """Which earlier message the box holds, if any."""

    def __init__(self, composer: Composer) -> None:
        self._composer = composer
        self._aside: _Aside | None = None

    def entry_in(self, session: Session) -> MessageEntry | None:
        """The message that is written anew, if it is one of this session."""
        if self._aside is not None and self._aside.entry.id not in session.messages:
            self._aside = None
            self._composer.show_title("")
        return self._aside.entry if self._aside is not None else None

    def begin(self, entry: MessageEntry) -> None:
        """Put a message into the box; what stood there first comes back at the end."""
        box = self._aside.box if self._aside is not None else self._composer.full_text
        self._aside = _Aside(entry, box)
        self._composer.put(typed_message(entry) if entry.role == "user" else entry.content)
        whose = "message" if entry.role == "user" else "answer"
        self._composer.show_title(
            f"your {whose}, written anew: Enter makes a branch, Esc gives up "
        )
        self._composer.focus()

    def end(self) -> None:
        """Put back what stood in the box before the message was written anew and taken from it."""
        if self._aside is not None:
            box, self._aside = self._aside.box, None
            self._composer.show_title("")
            self._composer.put_before(box)
