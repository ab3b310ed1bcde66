"""The instruments on the whole screen: the pane, and every round of an answer to step through."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import ModalScreen

from app.rates import TurnRates, rates_of
from app.tui.conversation import Conversation
from app.tui.instruments.bars import Row, ends
from app.tui.instruments.pane import COLUMNS_FOR_PANE, pane_rows
from app.tui.instruments.reading import Reading, tones_of
from app.tui.instruments.round_table import round_rows, strip_rows, table_rows
from app.tui.instruments.rows import Rows
from app.tui.instruments.sections import row
from app.tui.theme import Look
from app.tui.themed import ThemedApp
from engine.sizes import counted

PAINTS_S = 10
ROWS_FOR_STRIP = 22
ROUND_ROWS = 9
"""Rows of the round in full."""


class RoundsScreen(ModalScreen[None]):
    """Steps through rounds; at the last one it follows those that come."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f2,q", "dismiss", show=False),
        Binding("up,k", "step(-1)", show=False),
        Binding("down,j", "step(1)", show=False),
        Binding("pageup", "step(-10)", show=False),
        Binding("pagedown", "step(10)", show=False),
        Binding("home,g", "first", show=False),
        Binding("end,G,shift+g", "last", show=False),
        Binding("left,[", "answer(-1)", show=False),
        Binding("right,]", "answer(1)", show=False),
    ]

    def __init__(self, chat: Conversation, read: Callable[[], Reading], look: Look) -> None:
        super().__init__()
        self._chat = chat
        self._read = read
        self._look = look
        self._pane = Rows(pad=1, id="pane")
        self._table = Rows(pad=1, id="rounds")
        self._chosen: int | None = None
        self._older = 0
        self._seen: TurnRates | None = None

    @property
    def shown(self) -> str:
        """What stands there now."""
        return self._table.shown

    def compose(self) -> ComposeResult:
        """The pane where there is room for it, and the rounds."""
        with Horizontal():
            yield self._pane
            yield self._table

    def on_mount(self) -> None:
        """Follow what happens."""
        self.set_interval(1 / PAINTS_S, self._tick)

    def on_resize(self) -> None:
        """Fit the terminal."""
        self._pane.display = self.size.width >= COLUMNS_FOR_PANE
        self.call_after_refresh(self.paint)

    def _tick(self) -> None:
        app = self.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if not (isinstance(app, ThemedApp) and app.is_behind):
            self.paint()

    def paint(self) -> None:
        """Show what is known now."""
        reading = self._read()
        self._pane.show(pane_rows(reading, self._pane.room, self._pane.size.height, self._look))
        self._table.show(self._rows(reading, self._table.room, self._table.size.height))

    def _rates(self) -> TurnRates | None:
        """The figures of the answer that is looked at: the newest one, or an earlier one."""
        if not self._older:
            return self._chat.rates
        if self._seen is None:
            self._seen = rates_of(self._chat.records[-self._older - self._num_new])
        return self._seen

    @property
    def _num_new(self) -> int:
        """1 when the newest answer is one of the complete ones, 0 while it is written."""
        rates = self._chat.rates
        return int(rates is not None and rates.record is not None)

    def _rows(self, reading: Reading, width: int, height: int) -> list[Row]:
        rates, look = self._rates(), self._look
        tones = tones_of(look, live=True)
        keys = f"{look.signs.up}{look.signs.down} round  [ ] answer  F2 closes"
        rounds = rates.rounds if rates is not None else []
        count = f"  {counted(len(rounds), 'round', ',')}" + (
            f", {self._older} back" * bool(self._older)
        )
        title = ends(
            row(("ROUNDS", tones.title), (count, tones.label)), row((keys, tones.label)), width
        )
        if not rounds:
            return [title, [], row(("No answer has rounds yet.", tones.label))]
        chosen = len(rounds) - 1 if self._chosen is None else min(self._chosen, len(rounds) - 1)
        rows = [title]
        if height >= ROWS_FOR_STRIP:
            rows += strip_rows(rounds, chosen, width, tones, look)
        room = height - len(rows) - ROUND_ROWS - 1
        rows += table_rows(rounds, chosen, max(room, 2), width, tones)
        rows += [[] for _ in range(height - ROUND_ROWS - len(rows))]
        texts = self._chat.seat.token_texts
        return rows + round_rows(rounds[chosen], reading.read_gb_s, texts, width, tones, look)

    def action_step(self, num: int) -> None:
        """Go some rounds on or back."""
        rates = self._rates()
        last = len(rates.rounds) - 1 if rates is not None else 0
        now = last if self._chosen is None else self._chosen
        self._choose(max(now + num, 0), last)

    def action_first(self) -> None:
        """Go to the first round."""
        self._chosen = 0
        self.paint()

    def action_last(self) -> None:
        """Go to the last round, and follow."""
        self._chosen = None
        self.paint()

    def action_answer(self, num: int) -> None:
        """Look at an earlier answer, or a later one."""
        most = len(self._chat.records) - self._num_new
        self._older = min(max(self._older - num, 0), max(most, 0))
        self._seen, self._chosen = None, None
        self.paint()

    def _choose(self, at: int, last: int) -> None:
        self._chosen = None if at >= last else at
        self.paint()
