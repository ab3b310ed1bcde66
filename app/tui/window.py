"""What a command may ask of the window it was typed in."""

from collections.abc import Callable
from typing import Any, Protocol

from textual.screen import Screen

from app.tui.composer import Composer
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

    def hint(self, sentence: str) -> None:
        """Say something for a few seconds."""

    def copy_text(self, text: str) -> None:
        """Copy a text, and say which way it went."""

    def open_sheet(self, sheet: Screen[Any], take: Callable[[Any], None] | None = None) -> None:
        """Open a sheet over the chat; ``take`` gets what it returns."""

    def edit_outside(self) -> None:
        """Write the message in the person's own editor."""

    def keep_draft(self) -> None:
        """Write the message box to disk now."""

    def settings_changed(self) -> None:
        """Follow the settings."""

    def leave(self) -> None:
        """End the app."""
