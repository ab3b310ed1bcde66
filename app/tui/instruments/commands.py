"""Commands about the instruments: which of them are shown, and how."""

from collections.abc import Callable

from app.live import LiveSettings
from app.tui.conversation import Conversation
from app.tui.instruments.pane import COLUMNS_FOR_PANE
from app.tui.instruments.reading import Reading
from app.tui.screens.rounds import RoundsScreen
from app.tui.window import Window
from engine.errors import RequestError, did_you_mean
from engine.settings.declared import VIEWS

FULL = "full"
"""The view that is a sheet of its own and no setting."""

NEXT = "next"
"""Stands for the view that follows."""


def next_view(view: str, width: int) -> str:
    """The view that follows in the cycle, without one that would look the same."""
    views = [one for one in (*VIEWS, FULL) if one != "pane" or width >= COLUMNS_FOR_PANE]
    at = views.index(view) if view in views else 0
    return views[(at + 1) % len(views)]


class InstrumentCommands:
    """The part of the table that deals with figures."""

    def __init__(self, window: Window, chat: Conversation, live: LiveSettings) -> None:
        self._window = window
        self._chat = chat
        self._live = live
        self.table: dict[str, Callable[[str], None]] = {
            "view": self._view,
            "tokens": self._tokens,
        }

    def _view(self, argument: str) -> None:
        known = (*VIEWS, FULL, NEXT)
        if not argument:
            told = f"The view is {self._live.settings.chat.view}, one of {', '.join(known)}."
            self._chat.notice("Instruments", told)
            return
        if argument not in known:
            raise RequestError(
                f"The view '{argument}' is unknown, expected one of {', '.join(known)}.",
                did_you_mean(argument, known),
            )
        view = argument
        if view == NEXT:
            width = self._window.transcript.screen.size.width
            view = next_view(self._live.settings.chat.view, width)
        self._live.set("chat.view", VIEWS[0] if view == FULL else view)
        self._window.settings_changed()
        if view == FULL:
            self._window.open_sheet(
                RoundsScreen(self._chat, self._read, self._window.transcript.look)
            )

    def _tokens(self, argument: str) -> None:
        """Mark tokens by how they came, or no more."""
        is_on = self._live.settings.chat.token_colours
        self._live.set("chat.token_colours", argument or ("off" if is_on else "on"))
        is_on = self._live.settings.chat.token_colours
        self._chat.take_form()
        self._window.hint(
            "tokens are marked by how they came" if is_on else "tokens are not marked"
        )

    def _read(self) -> Reading:
        return self._window.instruments.read(self._chat)
