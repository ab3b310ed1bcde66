"""A box for one line: what is pasted passes the one door, as everywhere."""

from textual import events
from textual.widgets import Input

from app.visible import visible_line

MAX_CELLS = 1000
"""A longer paste is no search and no title."""


class LineInput(Input):
    """An input whose pastes are one visible line."""

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert_text_at_cursor(visible_line(event.text, MAX_CELLS))
