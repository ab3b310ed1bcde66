"""Messages that wait: the one queued behind an answer, and what the engine would not begin with."""

from app.slash import typed_text


class Waiting:
    """Holds texts until somebody sends them or takes them back; loses none."""

    def __init__(self) -> None:
        self.queued = ""
        self.is_urgent = False
        """Whether the answer in progress was stopped so that the queued message is sent."""
        self._refused = ""

    def queue(self, text: str, *, is_urgent: bool = False) -> bool:
        """Have a message wait; False when one waits already."""
        if self.queued:
            return False
        self.queued, self.is_urgent = text, is_urgent
        return True

    def take_queued(self) -> str:
        """Take the queued message back."""
        text, self.queued, self.is_urgent = self.queued, "", False
        return text

    def refuse_queued(self) -> None:
        """Have the queued message go back to the person, unsent."""
        self.refuse(typed_text(self.take_queued()))

    def refuse(self, text: str) -> None:
        """Keep a message, as it was typed, that cannot be answered; it may be empty."""
        self._refused = "\n".join(filter(None, (self._refused, text)))

    def take_refused(self) -> str:
        """Take what was refused."""
        text, self._refused = self._refused, ""
        return text
