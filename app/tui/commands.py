"""What the slash commands do on this screen; the table they come from is shared with the prompt."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from app.live import LiveSettings
from app.sessions.export import export_to
from app.slash import parse_slash
from app.trace.export import HOW_TO_OPEN, export_present
from app.tui.conversation import Conversation
from engine.errors import EngineError, RequestError


class Screenlike(Protocol):
    """What a command may ask of the app."""

    def action_help(self) -> None:
        """Show the help."""

    def action_resume(self) -> None:
        """Choose a conversation."""

    def action_new(self) -> None:
        """Begin a conversation."""

    def action_regenerate(self) -> None:
        """Answer again."""

    def action_view(self) -> None:
        """Show the instruments the next way."""

    def show_view(self, view: str) -> None:
        """Show the instruments as one of ``VIEWS`` says."""

    def action_stop(self) -> None:
        """Stop the answer."""

    def leave(self) -> None:
        """End the app."""

    def settings_changed(self) -> None:
        """Follow the settings."""

    def copy_text(self, text: str) -> None:
        """Copy a text."""


class Commands:
    """Runs a line that begins with a slash."""

    def __init__(self, app: Screenlike, chat: Conversation, live: LiveSettings) -> None:
        self._app = app
        self._chat = chat
        self._live = live
        self._table: dict[str, Callable[[str], None]] = {
            "help": lambda _: app.action_help(),
            "new": lambda _: app.action_new(),
            "sessions": lambda _: app.action_resume(),
            "redo": lambda _: app.action_regenerate(),
            "stop": lambda _: app.action_stop(),
            "quit": lambda _: app.leave(),
            "resume": self._resume,
            "session": self._session,
            "system": self._system,
            "set": self._set,
            "think": self._think,
            "copy": self._copy,
            "export": self._export,
            "trace": self._trace,
            "view": lambda view: app.show_view(view) if view else app.action_view(),
        }

    @property
    def names(self) -> set[str]:
        """The commands that can be run here."""
        return set(self._table)

    def run(self, line: str) -> bool:
        """Run a line; False when it is a message."""
        try:
            found = parse_slash(line)
            if found is None:
                return False
            command, argument = found
            self._table[command.name](argument)
        except EngineError as error:
            self._refuse(error)
        return True

    def _refuse(self, error: EngineError) -> None:
        self._chat.notice(error.title, f"{error.message} {error.mend}".strip(), "warning")

    def _resume(self, argument: str) -> None:
        if not argument:
            self._app.action_resume()
        elif self._chat.is_busy:
            raise RequestError("An answer is in progress.", "Stop it first with Esc.")
        else:
            self._chat.resume(argument)

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

    def _system(self, argument: str) -> None:
        session = self._chat.session
        if argument:
            session.set_system("" if argument == "-" else argument)
        self._chat.notice("System prompt", session.system or "none")

    def _set(self, argument: str) -> None:
        name, _, value = argument.partition(" ")
        if not name:
            rows = [self._live.describe(one) for one in self._live.resolved]
            self._chat.notice("Settings", "\n".join(rows))
        elif not value:
            self._chat.notice("Settings", self._live.describe(name))
        else:
            self._chat.notice("Settings", self._live.set(name, value.strip()))
            self._app.settings_changed()

    def _think(self, argument: str) -> None:
        is_on = self._live.settings.chat.thinking
        said = self._live.set("chat.thinking", argument or ("off" if is_on else "on"))
        self._chat.notice("Settings", said)

    def _copy(self, argument: str) -> None:
        answers = [one for one in self._chat.session.path_messages() if one.role == "assistant"]
        number = int(argument) if argument.isdecimal() and int(argument) else 1
        if argument and not argument.isdecimal():
            raise RequestError(f"'{argument}' is no number.", "Write /copy or /copy 2.")
        if number > len(answers):
            raise RequestError(f"There are {len(answers)} answers here.")
        self._app.copy_text(answers[-number].content)

    def _export(self, argument: str) -> None:
        stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        path = export_to(self._chat.session, Path(argument or f"qwen38-{stamp}.md"))
        self._chat.notice("Exported", str(path.resolve()))

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
