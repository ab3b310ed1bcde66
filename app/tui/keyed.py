"""A themed app whose keys are ours and the person's: bound once, and asleep under a sheet."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.app import SystemCommand
from textual.binding import BindingType
from textual.screen import Screen

from app.live import LiveSettings
from app.tui.keymap import APP_BINDINGS, KEYS
from app.tui.own_keys import OwnKey
from app.tui.palette import system_commands
from app.tui.screens.help import HelpScreen
from app.tui.themed import ThemedApp

_OWN_ACTIONS = {key.action for key in KEYS if key.is_bound}
_OVER_SHEETS = {"quit", "interrupt", "redraw"}


class KeyedApp(ThemedApp):
    """Binds the keymap, runs commands by key and from the palette; knows no conversation."""

    BINDINGS: ClassVar[list[BindingType]] = APP_BINDINGS

    def __init__(self, live: LiveSettings, own_keys: Sequence[OwnKey]) -> None:
        super().__init__(live)
        self.own_keys = own_keys
        for one in own_keys:
            self._bindings.bind(one.key, f"run({one.line!r})", show=False, priority=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Our keys sleep while a sheet is open over the chat."""
        if action in _OWN_ACTIONS and len(self.screen_stack) > 1:
            wants_help = parameters == ("/help",) and not isinstance(self.screen, HelpScreen)
            return wants_help or action in _OVER_SHEETS
        return True

    @abstractmethod
    def action_run(self, line: str) -> None:
        """Do what a command does: most keys have one."""

    def action_redraw(self) -> None:
        """Draw the screen anew."""
        self.refresh(repaint=True, layout=True)
        self.screen.refresh(repaint=True, layout=True)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Our commands in the palette."""
        del screen
        return system_commands(self.action_run)
