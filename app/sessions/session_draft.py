"""The draft of one conversation: the window's until it has a message, its own from then on."""

from pathlib import Path

from app.sessions.drafts import read_draft, write_draft
from app.sessions.untitled import UntitledDraft


class SessionDraft:
    """Reads and writes it, and moves it when the conversation begins.

    Args:
        folder: of the drafts.
        untitled: the window's, of conversations without a message.
    """

    def __init__(self, folder: Path, untitled: UntitledDraft) -> None:
        self._folder = folder
        self._untitled = untitled
        self._is_untitled = False
        """Whether the window's draft is that of this conversation."""

    def read(self, session_id: str, *, has_begun: bool) -> str:
        """What was typed and not sent."""
        if has_begun:
            return read_draft(self._path(session_id))
        text = self._untitled.read()
        self._is_untitled |= bool(text)
        return text

    def write(self, text: str, session_id: str, *, has_begun: bool) -> OSError | None:
        """Replace it, or remove it when ``text`` is empty; a problem is returned."""
        if not has_begun:
            if not text and not self._is_untitled:
                return None  # what is there is that of another conversation
            self._is_untitled = bool(text)
            return self._untitled.write(text)
        if self._is_untitled:
            self._is_untitled = False
            self._untitled.write("")
        return write_draft(self._path(session_id), text)

    def _path(self, session_id: str) -> Path:
        return self._folder / f"{session_id}.txt"
