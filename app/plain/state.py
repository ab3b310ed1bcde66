"""What a plain chat works with: the engine, the conversation, and the settings as they are now."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from app.live import LiveSettings
from app.opening import Opener
from app.profile_menu import ProfileMenu
from app.report import say
from app.sessions.history import PromptHistory
from app.sessions.session import Session
from app.sessions.store import SessionStore
from app.trace.record import Recorder
from engine.settings.declared import Settings
from engine.types import ChatEngine

Next = Literal["prompt", "answer", "go on", "leave"]
"""After a command: the prompt, an answer to the end of the branch, more of it, or the end."""


@dataclass(slots=True)
class PlainState:
    """The chat's one mutable object; commands and the loop share it."""

    engine: ChatEngine
    opener: Opener
    store: SessionStore
    session: Session
    live: LiveSettings
    history: PromptHistory
    recorder: Recorder | None = None
    profiles: ProfileMenu | None = None
    once: LiveSettings | None = None
    """Settings for the next answer alone."""
    asked_to_delete: str = ""
    """The conversation that the line before asked to delete."""
    num_told: int = field(default=0)

    @property
    def settings(self) -> Settings:
        """The settings as they are now."""
        return self.live.settings

    def recorded(self, opener: Opener) -> Opener:
        """An opener whose engine is recorded as this one is."""
        return self.recorder.wrap(opener) if self.recorder is not None else opener

    def new_session(self, system: str | None = None) -> Session:
        """A fresh conversation with the loaded model."""
        info = self.engine.info
        wanted = self.settings.chat.system if system is None else system
        session = self.store.create(info.model, info.profile, wanted)
        session.set_settings(self.live.kept())
        return session

    def go_to(self, session: Session) -> None:
        """Leave the current conversation for another one."""
        self.session.close()
        self.adopt(session)
        self.num_told = 0
        self.tell_warnings()

    def adopt(self, session: Session) -> None:
        """Take a conversation with the settings that it keeps."""
        self.session = session
        session.warnings.extend(self.live.adopt(session.settings))

    def tell_warnings(self) -> None:
        """Say what the session has to say and did not say yet."""
        for warning in self.session.warnings[self.num_told :]:
            say(warning)
        self.num_told = len(self.session.warnings)


Handler = Callable[[PlainState, str], Next | None]
"""What a command does with its argument; None goes back to the prompt."""
