"""Commands about conversations as a whole: begin, go back to, keep elsewhere."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from app.output_file import new_name
from app.sessions.export import export_to
from app.sessions.store import SessionStore
from app.tui.conversation import Conversation
from app.tui.not_now import expect_no_answer
from app.tui.screens.resume import ResumeScreen
from app.tui.window import Window
from engine.errors import EngineError

DELETE_SECONDS = 10.0
"""How soon the second /delete has to follow the first."""


class SessionCommands:
    """The part of the table that deals with sessions."""

    def __init__(self, window: Window, chat: Conversation, store: SessionStore) -> None:
        self._window = window
        self._chat = chat
        self._store = store
        self.table: dict[str, Callable[[str], None]] = {
            "new": self._new,
            "resume": self._resume,
            "sessions": self._sessions,
            "session": self._session,
            "rename": lambda title: self._give_title(self._chat.session.id, title),
            "delete": self._delete,
            "export": self._export,
        }

    def _new(self, argument: str) -> None:
        del argument
        expect_no_answer(self._chat)
        self._chat.session.expect_kept()
        self._window.go(self._chat.begin_new)

    def _resume(self, argument: str) -> None:
        if not argument:
            self._sessions("")
            return
        expect_no_answer(self._chat)
        self._chat.session.expect_kept()
        self._window.go(partial(self._chat.resume, argument))

    def _sessions(self, argument: str) -> None:
        del argument
        expect_no_answer(self._chat)
        look = self._window.transcript.look
        current = self._chat.session.id
        sheet = ResumeScreen(self._store, current, self._give_title, look)
        self._window.open_sheet(sheet, self._take_chosen)

    def _take_chosen(self, session_id: str | None) -> None:
        if session_id is None:
            return
        try:
            if session_id != self._chat.session.id:
                self._chat.session.expect_kept()
            self._window.go(partial(self._chat.resume, session_id))
        except EngineError as error:
            self._chat.tell_error(error)

    def _give_title(self, session_id: str, title: str) -> None:
        if session_id == self._chat.session.id:
            self._chat.session.rename(title)
        else:
            self._store.rename(session_id, title)

    def _delete(self, argument: str) -> None:
        session = self._chat.session
        if argument:
            self._window.hint(f"deleted {', '.join(self._store.delete([argument]))}")
            return
        expect_no_answer(self._chat)
        if not session.messages:
            self._window.hint("there is nothing to delete yet")
        elif self._window.is_second("delete", DELETE_SECONDS):
            self._window.go(self._chat.begin_new)
            self._store.delete([session.id])
        else:
            self._window.hint("/delete again deletes this conversation for good")

    def _session(self, argument: str) -> None:
        del argument
        session = self._chat.session
        path = session.path_messages()
        tokens = sum(len(one.record.token_ids) for one in path if one.record is not None)
        place = str(session.path) if session.messages else "on disk with its first message"
        self._chat.notice(
            f"Session {session.id}",
            f"{len(path)} messages, {tokens} tokens generated; {place}",
        )

    def _export(self, argument: str) -> None:
        path = export_to(self._chat.session, Path(argument or new_name("qwen38", ".md")))
        self._chat.notice("Exported", str(path.resolve()))
