"""What a command may ask of the window it was typed in."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from textual.screen import Screen

from app.sessions.entries import MessageEntry
from app.sessions.history import PromptHistory
from app.tui.composer import Composer
from app.tui.instruments.instruments import Instruments
from app.tui.keymap import Where
from app.tui.outside import Outside
from app.tui.own_keys import OwnKey
from app.tui.screens.help import HelpPart
from app.tui.transcript import Transcript


class Window(Protocol):
    """The app as its commands know it."""

    @property
    def composer(self) -> Composer:
        """The message box."""
        ...

    @property
    def transcript(self) -> Transcript:
        """The conversation as it is shown."""
        ...

    @property
    def history(self) -> PromptHistory:
        """Prompts that were sent."""
        ...

    @property
    def own_keys(self) -> Sequence[OwnKey]:
        """Keys that the person gave commands."""
        ...

    @property
    def focused_part(self) -> Where | HelpPart:
        """What help is about first."""
        ...

    @property
    def instruments(self) -> Instruments:
        """The live figures."""
        ...

    @property
    def outside(self) -> Outside:
        """Clipboard, editor and pager."""
        ...

    def hint(self, sentence: str, holds: Callable[[], bool] = ...) -> None:
        """Say something for a few seconds, while it ``holds``."""

    def is_second(self, what: str, seconds: float) -> bool:
        """Whether the same thing was wanted within ``seconds``; notes it otherwise."""
        ...

    def open_sheet(self, sheet: Screen[Any], take: Callable[[Any], None] | None = None) -> None:
        """Open a sheet over the chat; ``take`` gets what it returns."""

    def rewrite(self, entry: MessageEntry) -> None:
        """Have an earlier message written anew, as a branch."""

    def find(self, text: str = "") -> None:
        """Find a text in the conversation, or ask for one."""

    def go(self, change: Callable[[], None]) -> None:
        """Change the conversation; each keeps the draft that stands in the message box."""

    def settings_changed(self) -> None:
        """Follow the settings."""

    def leave(self) -> None:
        """End the app."""
