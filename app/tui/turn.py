"""One answer in progress: its place in the session, on the disk and on the transcript.

It is on disk before it is shown complete. Knows no queue and no key.
"""

from collections.abc import Iterable, Mapping

from app.sessions.session import Session
from app.sessions.tree import REFUSED
from app.slash import typed_text
from app.tui.answer_view import AnswerView
from app.tui.pieces import NoticePiece
from app.tui.worker_events import TurnFailed, WorkerEvent
from engine.records import TurnRecord
from engine.types import RoundEnded, TextArrived, TurnEnded


class Turn:
    """What happens to an answer from its first text to its end.

    Args:
        session: where it is kept, below the end of the current branch.
        view: the answer on the transcript.
        before: the end of the branch before the person asked.
        asked: the message that is answered; empty when an earlier one is answered again.
        model: the name of who answers.
        made_with: the settings it is made with (`MessageEntry.made_with`).
        goes_on: the answer at the end of the branch goes on, instead of a new one.
    """

    def __init__(
        self,
        session: Session,
        view: AnswerView,
        before: str,
        asked: str,
        *,
        model: str,
        made_with: Mapping[str, str],
        goes_on: bool = False,
    ) -> None:
        self._session = session
        self._view = view
        self._before = before
        self._asked = asked
        self._writer = (
            session.go_on() if goes_on else session.start_answer(model=model, made_with=made_with)
        )
        view.belong_to(self._writer.id)
        view.begin_with(self._writer.begun)
        self._has_begun = False

    @property
    def is_refused(self) -> bool:
        """Whether the engine did nothing for it yet: a failure then gives the message back."""
        return not self._has_begun

    def see(self, event: WorkerEvent) -> None:
        """Note that the engine does something."""
        self._has_begun |= not isinstance(event, TurnFailed)

    def take(self, event: TextArrived, seconds: float) -> None:
        """Keep and show text that arrived ``seconds`` after the asking."""
        self._writer.append(event.channel, event.text)
        if event.channel == "thinking":
            self._view.think(event.text, seconds)
        else:
            self._view.write(event.text)

    def mark(self, event: RoundEnded) -> None:
        """Show how the tokens of a round came, where that is wanted."""
        self._view.mark(event.record, event.token_chars)

    def take_form(self) -> None:
        """Show the answer so far as the settings ask for."""
        self._view.take_form()

    def finish(self, record: TurnRecord) -> None:
        """Keep the whole answer, then show it complete."""
        entry = self._writer.finish(record)
        self._view.finish(entry, entry.record)

    def fail(self) -> None:
        """Keep and show what arrived until the engine failed."""
        self._view.finish(self._writer.abort("error"), None)

    def give_back(self) -> str:
        """Return to the branch as it was before; returns what was asked, as it was typed."""
        self._writer.take_back(REFUSED)
        self._session.select(self._before)
        return typed_text(self._asked)

    def close(self, events: Iterable[WorkerEvent]) -> str:
        """Keep what arrived, without showing it: the screen closes.

        Returns:
            What was asked, as it was typed, when the engine refused it.
        """
        for event in events:
            match event:
                case TextArrived():
                    self._writer.append(event.channel, event.text)
                case TurnEnded():
                    self._writer.finish(event.record)
                    return ""
                case TurnFailed() if self.is_refused:
                    return self.give_back()
                case _:
                    pass
            self.see(event)
        self._writer.abort("interrupted")
        return ""

    def raise_notice(self, piece: NoticePiece) -> None:
        """Show a notice above what is being written."""
        self._view.raise_notice(piece)
