"""Commands about the conversation in front of one: answer again, copy, show."""

from collections.abc import Callable

from app.live import LiveSettings
from app.tui.answer import THINKING_MODES
from app.tui.conversation import Conversation
from app.tui.session_commands import is_free
from app.tui.window import Window
from engine.errors import RequestError


class TalkCommands:
    """The part of the table that deals with messages and answers."""

    def __init__(self, window: Window, chat: Conversation, live: LiveSettings) -> None:
        self._window = window
        self._chat = chat
        self._live = live
        self.table: dict[str, Callable[[str], None]] = {
            "redo": self._redo,
            "stop": lambda _: self._stop(),
            "edit": lambda _: window.edit_outside(),
            "copy": self._copy,
            "thoughts": self._thoughts,
            "system": self._system,
        }

    def _redo(self, argument: str) -> None:
        del argument
        if is_free(self._window, self._chat) and not self._chat.regenerate():
            self._window.hint("there is no message to answer again")

    def _stop(self) -> None:
        if not self._chat.stop():
            self._window.hint("nothing is being written")

    def _copy(self, argument: str) -> None:
        answers = [one for one in self._chat.session.path_messages() if one.role == "assistant"]
        number = int(argument) if argument.isdecimal() and int(argument) else 1
        if argument and not argument.isdecimal():
            raise RequestError(f"'{argument}' is no number.", "Write /copy or /copy 2.")
        if number > len(answers):
            raise RequestError(f"There are {len(answers)} answers here.")
        self._window.copy_text(answers[-number].content)

    def _thoughts(self, argument: str) -> None:
        now = THINKING_MODES.index(self._live.settings.chat.show_thinking)
        mode = argument or THINKING_MODES[(now + 1) % len(THINKING_MODES)]
        self._live.set("chat.show_thinking", mode)
        self._window.settings_changed()
        self._window.hint(f"thinking is shown {mode}")

    def _system(self, argument: str) -> None:
        session = self._chat.session
        if argument:
            session.set_system("" if argument == "-" else argument)
        self._chat.notice("System prompt", session.system or "none")
