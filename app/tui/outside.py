"""What leaves the screen: the clipboard, the person's editor and their pager."""

from collections.abc import Callable

from textual.app import App

from app.live import LiveSettings
from app.tui.composer import Composer
from app.tui.copying import copy, source_at
from app.tui.editor import edit_outside, read_outside
from app.tui.pieces import Piece
from app.tui.transcript import Transcript


class Outside:
    """Hands texts on, and says which way they went; ``hint`` says something for a few seconds."""

    def __init__(
        self,
        app: App[None],
        composer: Composer,
        transcript: Transcript,
        live: LiveSettings,
        hint: Callable[[str], None],
    ) -> None:
        self._app = app
        self._composer = composer
        self._transcript = transcript
        self._live = live
        self._hint = hint

    def copy(self, text: str) -> None:
        """Copy a text."""
        self._hint(copy(self._app, text, self._live.settings.state_dir))

    def copy_block(self, piece: Piece | None) -> None:
        """Copy a block as it was written, or without one the last code block."""
        if source := source_at(piece, self._transcript.pieces):
            self.copy(source)
        else:
            self._hint("nothing to copy here: j and k move between blocks")

    def read(self, text: str) -> None:
        """Read a text in the pager."""
        if problem := read_outside(self._app, text):
            self._hint(problem)

    def edit(self) -> None:
        """Write the message in the editor."""
        text, problem = edit_outside(self._app, self._composer.full_text)
        if problem:
            self._hint(problem)
        else:
            self._composer.put(text)
