"""What the slash commands do on this screen; the table they come from is shared with the prompt.

Keys, the palette and a line that begins with a slash all end here.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from app.live import LiveSettings
from app.profile_menu import ProfileMenu
from app.sessions.store import SessionStore
from app.slash import Ran, parse_slash
from app.trace.export import HOW_TO_OPEN, export_present
from app.tui.branch_commands import BranchCommands
from app.tui.compare_commands import CompareCommands
from app.tui.conversation import Conversation
from app.tui.instruments.commands import InstrumentCommands
from app.tui.menu_commands import MenuCommands
from app.tui.not_now import NotNowError
from app.tui.screens.help import HelpScreen
from app.tui.session_commands import SessionCommands
from app.tui.talk_commands import TalkCommands
from app.tui.window import Window
from app.tui.worker import EngineWorker
from engine.errors import EngineError


class Commands:
    """Runs a line that begins with a slash."""

    def __init__(
        self,
        window: Window,
        chat: Conversation,
        live: LiveSettings,
        store: SessionStore,
        worker: EngineWorker,
        profiles: ProfileMenu | None,
    ) -> None:
        self._window = window
        self._chat = chat
        self._table: dict[str, Callable[[str], None]] = {
            "help": lambda _: window.open_sheet(
                HelpScreen(window.transcript.look, window.focused_part, window.own_keys)
            ),
            "trace": self._trace,
            "quit": lambda _: window.leave(),
            **SessionCommands(window, chat, store).table,
            **TalkCommands(window, chat, live).table,
            **InstrumentCommands(window, chat, live).table,
            **BranchCommands(window, chat, live).table,
            **MenuCommands(window, chat, live, profiles).table,
            **CompareCommands(window, chat, live, worker, profiles).table,
        }

    @property
    def names(self) -> set[str]:
        """The commands that can be run here."""
        return set(self._table)

    def run(self, line: str) -> Ran:
        """Run a line, unless it is a message; why one is refused is said."""
        try:
            found = parse_slash(line)
            if found is None:
                return "message"
            command, argument = found
            self._table[command.name](argument)
        except NotNowError as error:
            self._window.hint(error.message, lambda: not self._chat.is_free)
            return "refused"
        except EngineError as error:
            self._refuse(error)
            return "refused"
        return "done"

    def _refuse(self, error: EngineError) -> None:
        self._chat.notice(error.title, f"{error.message} {error.mend}".strip(), "warning")

    def _trace(self, argument: str) -> None:
        # beside the screen: 7,000 rounds take 0.8 s
        loop = asyncio.get_running_loop()
        chat = self._chat
        written = loop.run_in_executor(None, export_present, chat.recorder, chat.session, argument)
        written.add_done_callback(self._tell_trace)

    def _tell_trace(self, written: "asyncio.Future[Path]") -> None:
        try:
            self._chat.notice("Trace", f"{written.result()}\n{HOW_TO_OPEN}")
        except EngineError as error:
            self._refuse(error)
