"""Which form the instruments have in a terminal of some size, and what they show in it."""

from typing import Literal

from app.tui.conversation import Conversation
from app.tui.instruments.gauges import Gauges
from app.tui.instruments.narrow import COLUMNS_FOR_TWO, ROWS_FOR_TWO, one_row, two_rows
from app.tui.instruments.pane import COLUMNS_FOR_PANE, pane_rows
from app.tui.instruments.reading import Reading
from app.tui.instruments.rows import Rows
from app.tui.theme import Look

PAINT_EVERY = 4
"""Figures that change more than five times a second cannot be read, and cost the engine time."""

Form = Literal["pane", "two", "one", "none"]


def form_of(view: str, width: int, height: int) -> Form:
    """The form of a wanted view (one of ``VIEWS``): no wider than the terminal bears."""
    if view == "off":
        return "none"
    if view == "pane" and width >= COLUMNS_FOR_PANE:
        return "pane"
    return "two" if width >= COLUMNS_FOR_TWO and height >= ROWS_FOR_TWO else "one"


class Instruments:
    """The pane and the rows below the message box; one of them is shown, or none."""

    def __init__(self, gauges: Gauges) -> None:
        self.gauges = gauges
        self.pane = Rows(pad=1, id="pane")
        self.lines = Rows(id="figures")
        self.form: Form = "none"
        self._num_calls = 0

    @property
    def shown(self) -> str:
        """What stands in the form that is shown."""
        return self.pane.shown if self.form == "pane" else self.lines.shown

    def fit(self, view: str, width: int, height: int) -> None:
        """Take the form of a view in a terminal of this size."""
        self.form = form_of(view, width, height)
        self.pane.display = self.form == "pane"
        self.lines.display = self.form in ("two", "one")
        self.lines.styles.height = 2 if self.form == "two" else 1

    def show(self, chat: Conversation, look: Look) -> None:
        """Show what is known now; of an answer in progress every ``PAINT_EVERY`` calls."""
        reading = self.read(chat)
        self._num_calls += 1
        if reading.is_live and self._num_calls % PAINT_EVERY:
            return
        if self.form == "pane":
            self.pane.show(pane_rows(reading, self.pane.room, self.pane.size.height, look))
        elif self.form != "none":
            draw = two_rows if self.form == "two" else one_row
            self.lines.show(draw(reading, self.lines.size.width, look))

    def read(self, chat: Conversation) -> Reading:
        """What is known now."""
        gauges = self.gauges
        return Reading(
            phase=chat.phase,
            rates=chat.rates,
            info=chat.info,
            loading=chat.seat.load,
            load=gauges.load,
            lag_ms=gauges.lag_p95_ms,
            share=gauges.share,
        )
