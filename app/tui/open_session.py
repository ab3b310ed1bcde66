"""The session behind a conversation: begun, gone back to, left, and what it has to say."""

from app.live import LiveSettings
from app.sessions.session import Session
from app.sessions.store import SessionStore
from engine.types import EngineInfo


class OpenSession:
    """The one session that is open; its settings are the live ones while it is.

    Args:
        store: keeps sessions.
        live: the settings as they are now.
        session: to go on with; None begins one.
    """

    def __init__(self, store: SessionStore, live: LiveSettings, session: Session | None) -> None:
        self._store = store
        self._live = live
        self._num_told = 0
        self.session = session or self._fresh(None, live.settings.chat.system)
        if session is not None:
            self._adopt(session)

    def begin(self, info: EngineInfo | None) -> None:
        """Begin an empty one with the loaded model; the one before stays on disk."""
        self._leave_for(self._fresh(info, self._live.settings.chat.system))

    def go_to(self, session_id: str) -> None:
        """Go on with an earlier one; raises ``SessionError``, and nothing has changed then."""
        session = self._store.open(session_id)
        self._adopt(session)
        self._leave_for(session)

    def belong_to(self, info: EngineInfo) -> None:
        """Have an empty session name the model that is loaded now, with the settings for it."""
        if not self.session.messages:
            self.session.belong_to(info.model, info.profile)
            self.keep_settings()

    def keep_settings(self) -> None:
        """Write down what is set for this conversation."""
        self.session.set_settings(self._live.kept())

    def fresh_warnings(self) -> list[str]:
        """What the session has to say about its disk and its file, and did not say yet."""
        fresh = self.session.warnings[self._num_told :]
        self._num_told += len(fresh)
        return fresh

    def _fresh(self, info: EngineInfo | None, system: str) -> Session:
        model, profile = (info.model, info.profile) if info is not None else ("", "")
        session = self._store.create(model, profile, system)
        session.set_settings(self._live.kept())
        return session

    def _adopt(self, session: Session) -> None:
        session.warnings.extend(self._live.adopt(session.settings))

    def _leave_for(self, session: Session) -> None:
        self.session.close()
        self.session = session
        self._num_told = 0
