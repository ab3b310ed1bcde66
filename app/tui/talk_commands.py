"""Commands about the conversation in front of one: answer again, copy, show."""

from collections.abc import Callable

from app.attached import mention_of, read_typed
from app.copied_text import text_meant
from app.live import LiveSettings
from app.tui.answer import THINKING_MODES
from app.tui.conversation import Conversation
from app.tui.screens.history import HistoryScreen
from app.tui.window import Window
from engine.errors import RequestError


class TalkCommands:
    """The part of the table that deals with messages and answers."""

    def __init__(self, window: Window, chat: Conversation, live: LiveSettings) -> None:
        self._window = window
        self._chat = chat
        self._live = live
        self.table: dict[str, Callable[[str], None]] = {
            "stop": lambda _: self._stop(),
            "now": self._now,
            "history": self._history,
            "find": window.find,
            "read": self._read,
            "copy": self._copy,
            "pager": self._pager,
            "thoughts": self._thoughts,
        }

    def _stop(self) -> None:
        if not self._chat.stop():
            self._window.hint("nothing is being written")

    def _now(self, argument: str) -> None:
        if not self._chat.submit_now(argument):
            self._window.hint("nothing is queued: /now TEXT stops the answer and sends TEXT")

    def _history(self, argument: str) -> None:
        window = self._window
        sheet = HistoryScreen(window.history.entries(), window.transcript.look, argument)
        window.open_sheet(sheet, self._take_prompt)

    def _take_prompt(self, prompt: str | None) -> None:
        if prompt is None:
            return
        self._window.history.add(self._window.composer.take())
        self._window.composer.put(prompt)

    def _read(self, argument: str) -> None:
        if not argument:
            raise RequestError("Say which file: /read PATH.", "@PATH in a message does the same.")
        mention = mention_of(read_typed(argument).name)
        box = self._window.composer
        before = box.text[-1:]
        box.move_cursor(box.document.end)
        box.insert(f"{' ' if before.strip() else ''}{mention} ")

    def _copy(self, argument: str) -> None:
        self._window.outside.copy(text_meant(self._chat.session, argument))

    def _pager(self, argument: str) -> None:
        self._window.outside.read(text_meant(self._chat.session, argument))

    def _thoughts(self, argument: str) -> None:
        modes = list(THINKING_MODES)
        now = modes.index(self._live.settings.chat.show_thinking)
        mode = argument or modes[(now + 1) % len(modes)]
        self._live.set("chat.show_thinking", mode)
        self._window.settings_changed()
        self._window.hint(THINKING_MODES[mode])
