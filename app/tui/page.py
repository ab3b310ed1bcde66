"""What the transcript shows of a conversation: its messages, notices, and an answer to come."""

from app.live import LiveSettings
from app.opening import DEMO_NOTICE
from app.sessions.entries import MessageEntry
from app.sessions.session import Session
from app.sessions.stamps import now
from app.sessions.tree import Tree
from app.tui.answer_view import AnswerView, pieces_of
from app.tui.clock import Clock
from app.tui.pieces import AnswerTitlePiece, NoticePiece, Piece, Tone
from app.tui.transcript import Transcript
from app.tui.turn import Turn
from engine.types import EngineInfo


class Page:
    """Puts the messages of a session on a transcript, in the look that the settings ask for."""

    def __init__(self, transcript: Transcript, live: LiveSettings, clock: Clock) -> None:
        self._transcript = transcript
        self._live = live
        self._clock = clock

    def show(self, session: Session, info: EngineInfo | None) -> None:
        """Show the current branch of a session, at its end."""
        mode = self._mode
        pieces: list[Piece] = []
        if info is not None and info.is_demo:
            pieces.append(NoticePiece("Demo model", DEMO_NOTICE))
        tree = session.tree()
        for entry in session.path_messages():
            at = self._clock.minute(entry.at)
            place = _place(entry, tree)
            name = entry.model or _name(session, info)
            pieces += pieces_of(entry, name, at, mode, place, by_token=self._by_token)
        self._transcript.reset(pieces)

    def take_back(self, session: Session, info: EngineInfo | None) -> None:
        """Show what is left of the current branch after its end was taken back; notices stay."""
        shown = {one.message_id for one in self._transcript.pieces}
        kept = {one.id for one in session.path_messages()}
        if not kept <= shown:
            self.show(session, info)
            return
        for message_id in shown - kept - {""}:
            self._take_away(message_id)

    def show_prompt(self, session: Session, entry: MessageEntry) -> None:
        """Show a message that was just sent, and follow what comes."""
        at, place = self._clock.minute(entry.at), _place(entry, session.tree())
        self._transcript.append(*pieces_of(entry, "", at, "", place))
        self._transcript.follow()

    def answer_view(
        self, session: Session, info: EngineInfo | None, *, goes_on: bool = False
    ) -> AnswerView:
        """Where an answer to come is shown, or the last one when it goes on."""
        number = session.tree().num_below(session.leaf) + 1
        place = f"{number} of {number}" if number > 1 else ""
        name = _name(session, info)
        if goes_on:
            begun = session.messages[session.leaf]
            self._take_away(begun.id)
            place, name = _place(begun, session.tree()), begun.model or name
        title = AnswerTitlePiece(name, self._clock.minute(now()), place)
        return AnswerView(self._transcript, title, self._mode, lambda: self._by_token)

    def _take_away(self, message_id: str) -> None:
        for piece in [one for one in self._transcript.pieces if one.message_id == message_id]:
            self._transcript.take_away(piece)

    def notice(self, title: str, text: str, tone: Tone = "info", turn: Turn | None = None) -> None:
        """Show a notice: above what ``turn`` is writing, or at the end."""
        piece = NoticePiece(title, text, tone)
        if turn is not None:
            turn.raise_notice(piece)
        else:
            self._transcript.append(piece)

    def settle(self) -> None:
        """Bring the screen in line after a batch of events."""
        self._transcript.settle()

    @property
    def _by_token(self) -> bool:
        return self._live.settings.chat.token_colours

    @property
    def _mode(self) -> str:
        return self._live.settings.chat.show_thinking


def _place(entry: MessageEntry, tree: Tree) -> str:
    """Which of several messages beside each other it is; empty when it stands alone."""
    beside = [one.id for one in tree.siblings(entry.id)]
    if len(beside) < 2 or entry.id not in beside:
        return ""
    return f"{beside.index(entry.id) + 1} of {len(beside)}"


def _name(session: Session, info: EngineInfo | None) -> str:
    return info.model if info is not None else session.model or "model"
