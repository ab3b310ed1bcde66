"""``/compare``: from the last prompt of a conversation to a comparison on the screen."""

from collections.abc import Callable

from app.live import LiveSettings
from app.opening import request_of
from app.profile_menu import ProfileMenu
from app.tui.comparison import Comparison
from app.tui.conversation import Conversation
from app.tui.not_now import expect_no_answer
from app.tui.screens.compare import CompareScreen
from app.tui.screens.profiles import ProfileScreen
from app.tui.window import Window
from app.tui.worker import EngineWorker
from engine.errors import EngineError, RequestError
from engine.records import TurnRecord
from engine.types import EngineInfo, Message, Request


class CompareCommands:
    """The part of the table that compares; ``profiles`` is None in a replay."""

    def __init__(
        self,
        window: Window,
        chat: Conversation,
        live: LiveSettings,
        worker: EngineWorker,
        profiles: ProfileMenu | None,
    ) -> None:
        self._window = window
        self._chat = chat
        self._live = live
        self._worker = worker
        self._profiles = profiles
        self.table: dict[str, Callable[[str], None]] = {"compare": self._compare}

    def _compare(self, argument: str) -> None:
        expect_no_answer(self._chat)
        profiles, info = self._ready()
        if argument:
            self._begin(argument)
            return
        look = self._window.transcript.look
        title = "Compare with which profile?"
        sheet = ProfileScreen(profiles, info, look, title, without=True)
        self._window.open_sheet(sheet, self._take)

    def _ready(self) -> tuple[ProfileMenu, EngineInfo]:
        if self._profiles is None:
            raise RequestError("A replay has no profiles to compare.", "Start 'qwen38 chat'.")
        if self._chat.info is None or self._chat.phase != "idle":
            raise RequestError("No model is loaded.", "Wait for it, or choose one with F3.")
        if not any(one.role == "user" for one in self._chat.session.path_messages()):
            raise RequestError("There is no prompt to compare.", "Send a message first.")
        return self._profiles, self._chat.info

    def _take(self, name: str | None) -> None:
        if name is None:
            return
        try:
            self._begin(name)
        except EngineError as error:
            self._chat.tell_error(error)

    def _begin(self, name: str) -> None:
        profiles, info = self._ready()
        if name == info.profile:
            raise RequestError(f"'{name}' is the one that is loaded.", "Name another one.")
        there = profiles.switch(name, info)
        back = profiles.switch(info.profile, info)
        request, record = self._last(info)
        sheet = CompareScreen(self._window.transcript.look)
        recorder = self._chat.recorder
        opener = back.open if recorder is None else recorder.wrap(back.open)
        sheet.comparison = Comparison(self._chat, self._worker, request, there, opener, sheet.show)
        sheet.comparison.begin(record)
        self._window.open_sheet(sheet)

    def _last(self, info: EngineInfo) -> tuple[Request, TurnRecord | None]:
        """The last request with its answer, where this profile gave it in this run."""
        done = self._chat.answering.last
        session = self._chat.session
        if done is not None and done.info == info and done.leaf == session.leaf:
            return done.request, done.record
        path = session.path_messages()
        last = max(index for index, one in enumerate(path) if one.role == "user")
        messages = session.request_messages()
        head = [one for one in messages if one.role == "system"]
        asked = [
            Message(one.role, one.content, one.reasoning)
            for one in path[: last + 1]
            if one.content or one.reasoning
        ]
        return request_of(self._live.settings, info, (*head, *asked)), None
