"""What Esc, Ctrl+C and Ctrl+Q give up: the nearest thing that goes on, and the chat itself last."""

from app.tui.conversation import Conversation
from app.tui.desk import Desk
from app.tui.finding import Finding
from app.tui.frame import Frame
from app.tui.window import Window


class GivingUp:
    """Asks part after part, in the order in which a person means them; text is never lost."""

    def __init__(
        self, window: Window, chat: Conversation, desk: Desk, finding: Finding, frame: Frame
    ) -> None:
        self._window = window
        self._chat = chat
        self._desk = desk
        self._finding = finding
        self._frame = frame

    def escape(self) -> None:
        """Stop what runs, close what is open, else clear the box at the second press."""
        if self._chat.stop() or self._desk.give_up():
            return
        box = self._desk.composer
        if self._finding.close() or not box.has_focus:
            box.focus()
        elif box.text and self._frame.is_second("clear"):
            self._desk.clear()
        elif box.text:
            self._ask_again("clear", "Esc again clears the box; Up brings the text back")

    def interrupt(self) -> None:
        """Stop, else clear the box, else leave at the second press."""
        if self._chat.stop():
            return
        if self._desk.composer.text:
            self._desk.clear()
        elif self._frame.is_second("quit"):
            self._window.leave()
        else:
            self._ask_again("quit", "Ctrl+C again quits")

    def quit(self) -> None:
        """Leave; while an answer is written only at the second press."""
        if self._chat.is_busy and not self._frame.is_second("quit"):
            self._ask_again(
                "quit", "an answer is being written: Ctrl+Q again quits and keeps its text"
            )
        else:
            self._window.leave()

    def _ask_again(self, what: str, sentence: str) -> None:
        """Say what a second press does, for as long as it does that."""
        self._window.hint(sentence, lambda: self._frame.is_armed(what))
