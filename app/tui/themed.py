"""A Textual app in our looks, that loses no early key, and whose unforeseen end others tell."""

from collections.abc import Sequence

from rich.console import RenderableType
from textual import events
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.filter import LineFilter
from textual.geometry import Size

from app.live import LiveSettings
from app.tui.ascii_only import AsciiOnly
from app.tui.paced import PacedDriver
from app.tui.stoppable import StoppableDriver
from app.tui.theme import ANSI, NAMES, THEMES, Look, get_look
from engine.settings import environment

SMALLEST = (10, 3)
"""Columns and rows that are always drawn into: the library fails where frames leave no cell. What
lies outside the window comes to light when it grows."""


class ThemedApp(App[None]):
    """Follows the settings of appearance; ends without a traceback on the terminal."""

    def __init__(self, live: LiveSettings) -> None:
        # with NO_COLOR no colour at all is written, not even grey
        ansi_color = True if environment.no_color() else None
        super().__init__(driver_class=StoppableDriver, ansi_color=ansi_color)
        for theme in THEMES:
            self.register_theme(theme)
        self._live = live
        self._ascii_only = AsciiOnly()
        self._early: list[events.Event] | None = []
        """What was typed before anything could take it; None from then on."""

    async def on_event(self, event: events.Event) -> None:
        """Hold what was typed while the program started, until `take_early`; bound the window."""
        if isinstance(event, events.Resize):
            event = _bounded(event)
        if self._early is not None and isinstance(event, events.Key | events.Paste):
            self._early.append(event)
        else:
            await super().on_event(event)

    async def take_early(self, *, sends: bool) -> None:
        """Let what was typed so far, and from now on, reach what has the focus.

        Args:
            sends: whether Enter behind a single line is one. The terminal made it the end of a
                line before the screen was there; behind several lines it may have been pasted.
        """
        early, self._early = self._early or [], None
        ends = [one for one in early if isinstance(one, events.Key) and one.key == "ctrl+j"]
        if sends and len(ends) == 1 and early[-1] is ends[0]:
            early[-1] = events.Key("enter", "\r")
        for event in early:  # not posted anew: newer keys may wait to be taken already
            await super().on_event(event)

    def pop_screen(self) -> AwaitComplete:
        """Close the sheet on top; keys in quick succession may ask a closed one to close again."""
        return super().pop_screen() if len(self.screen_stack) > 1 else AwaitComplete.nothing()

    @property
    def look(self) -> Look:
        """What the settings ask for."""
        return get_look(self._theme_name, ascii_only=self._live.settings.chat.ascii)

    @property
    def _theme_name(self) -> str:
        return ANSI if self.no_color else NAMES[self._live.settings.chat.theme]

    def dress(self) -> None:
        """Bring theme and signs in line with the settings."""
        self.theme = self._theme_name
        self.set_class(self._live.settings.chat.ascii, "-ascii")

    def get_line_filters(self) -> Sequence[LineFilter]:
        """The library's own, and the one of ``--ascii``."""
        found = super().get_line_filters()
        return [*found, self._ascii_only] if self._live.settings.chat.ascii else found

    def write_control(self, sequence: str) -> None:
        """Send a control sequence of ours to the terminal; nothing where there is none."""
        if self._driver is not None:
            self._driver.write(sequence)

    @property
    def is_behind(self) -> bool:
        """Whether the terminal has not taken yet what was painted: what comes next can wait."""
        return isinstance(self._driver, PacedDriver) and self._driver.is_behind

    # an end that nobody foresaw

    @property
    def failure(self) -> Exception | None:
        """What nobody foresaw and ended the screen, if anything did."""
        return self._exception

    def panic(self, *renderables: RenderableType) -> None:
        """End the screen for good: the thread that reads the keys fails this way only."""
        self._exception = self._exception or RuntimeError("The screen's input failed.")
        super().panic(*renderables)

    def _print_error_renderables(self) -> None:
        # a person gets one sentence and the name of a log (app/report.py), never a traceback
        self._exit_renderables.clear()


def _bounded(event: events.Resize) -> events.Resize:
    """The event, of a window of no fewer cells than `SMALLEST`."""
    size = Size(*map(max, event.size, SMALLEST))
    return event if size == event.size else events.Resize(size, size)
