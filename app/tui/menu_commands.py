"""Commands that open a menu, or do at once what it would: profiles, and how answers are made."""

from collections.abc import Callable

from app.live import LiveSettings, full_name
from app.profile_menu import ProfileMenu
from app.think import think
from app.tui.conversation import Conversation
from app.tui.screens.parameters import ROWS, ParameterScreen
from app.tui.screens.profiles import ProfileScreen
from app.tui.window import Window
from engine.errors import EngineError, RequestError

PANEL = {name for name, _ in ROWS}
"""Settings that have a row in the panel."""


class MenuCommands:
    """The part of the table that deals with the model and with settings.

    ``profiles`` is None where no model is opened: in a replay.
    """

    def __init__(
        self,
        window: Window,
        chat: Conversation,
        live: LiveSettings,
        profiles: ProfileMenu | None,
    ) -> None:
        self._window = window
        self._chat = chat
        self._live = live
        self._profiles = profiles
        self.table: dict[str, Callable[[str], None]] = {
            "profile": self._profile,
            "set": self._set,
            "think": self._think,
            "system": self._system,
        }

    def _profile(self, argument: str) -> None:
        profiles = self._known_profiles()
        if argument:
            self._open(argument)
        else:
            look = self._window.transcript.look
            sheet = ProfileScreen(profiles, self._chat.info, look)
            self._window.open_sheet(sheet, self._take_profile)

    def _known_profiles(self) -> ProfileMenu:
        if self._profiles is None:
            raise RequestError("A replay has no profiles.", "Start 'qwen38 chat'.")
        return self._profiles

    def _take_profile(self, name: str | None) -> None:
        if name is None:
            return
        try:
            self._open(name)
        except EngineError as error:
            self._chat.tell_error(error)

    def _open(self, name: str) -> None:
        switch = self._known_profiles().switch(name, self._chat.info)
        if self._chat.is_busy:
            self._window.hint(
                f"'{name}' is opened when this answer has ended; Esc stops the answer"
            )
        self._chat.switch_to(switch)

    def _set(self, argument: str) -> None:
        name, _, value = argument.partition(" ")
        if not name:
            self._show_parameters("sampling.temperature")
        elif name == "all":
            rows = [self._live.describe(one) for one in self._live.resolved]
            self._chat.notice("Settings", "\n".join(rows))
        elif not value and full_name(name) in PANEL:
            self._show_parameters(full_name(name))
        elif not value:
            self._chat.notice("Settings", self._live.describe(name))
        else:
            self._chat.notice("Settings", self._live.set(name, value.strip()))
            self._changed()

    def _think(self, argument: str) -> None:
        self._chat.notice("Settings", think(self._live, argument, self._chat.info))
        self._changed()

    def _system(self, argument: str) -> None:
        session = self._chat.session
        if not argument:
            self._show_parameters("system")
            return
        session.set_system("" if argument == "-" else argument)
        self._chat.notice("System prompt", session.system or "none")

    def _show_parameters(self, focus: str) -> None:
        session = self._chat.session
        sheet = ParameterScreen(
            self._live, self._chat.info, session.system, session.set_system,
            self._window.transcript.look, focus,
        )  # fmt: skip
        self._window.open_sheet(sheet, self._take_parameters)

    def _take_parameters(self, refused: list[str] | None) -> None:
        self._changed()
        for sentence in refused or ():
            self._chat.notice("Settings", f"{sentence} It stays as it was.", "warning")

    def _changed(self) -> None:
        self._chat.keep_settings()
        self._window.settings_changed()
