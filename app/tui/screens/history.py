"""Alt+R: earlier prompts, newest first, with search; Enter puts one into the message box."""

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from app.tui.line_input import LineInput
from app.tui.screens.list_keys import LIST_KEYS
from app.tui.theme import Look
from app.visible import visible_line

MAX_SHOWN = 200
ROW_CELLS = 88


class HistoryScreen(ModalScreen[str | None]):
    """Returns the chosen prompt.

    Args:
        prompts: newest last.
        look: how it is drawn.
        search: what is looked for at the beginning.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*LIST_KEYS]

    def __init__(self, prompts: list[str], look: Look, search: str = "") -> None:
        super().__init__()
        self._prompts = [*dict.fromkeys(reversed(prompts))]
        self._look = look
        self._search = search
        self._shown: list[str] = []

    def compose(self) -> ComposeResult:
        """A search box over a list."""
        box = LineInput(visible_line(self._search, ROW_CELLS), placeholder="search")
        sheet = Vertical(box, OptionList(markup=False), classes="sheet")
        sheet.border_title = "Earlier prompts"
        sheet.border_subtitle = "Enter takes one · Esc closes"
        yield sheet

    @on(Input.Changed)
    def _fill(self, event: Input.Changed) -> None:
        words = event.value.lower().split()
        fitting = (one for one in self._prompts if all(word in one.lower() for word in words))
        self._shown = [one for one, _ in zip(fitting, range(MAX_SHOWN), strict=False)]
        rows = self.query_one(OptionList)
        rows.clear_options()
        rows.add_options(Option(self._row(one)) for one in self._shown)
        if self._shown:
            rows.highlighted = 0
        else:
            none = "no prompt fits" if self._prompts else "no prompt yet"
            rows.add_option(Option(Text(none, self._look.dim), disabled=True))

    def on_mount(self) -> None:
        """Show what fits the search so far."""
        self._fill(Input.Changed(self.query_one(Input), self._search))

    def _row(self, prompt: str) -> Text:
        line = visible_line(prompt, ROW_CELLS)
        return Text(line, self._look.text, no_wrap=True, overflow="ellipsis", end="")

    @on(Input.Submitted)
    def _take(self) -> None:
        at = self.query_one(OptionList).highlighted
        if self._shown and at is not None:
            self.dismiss(self._shown[at])

    @on(OptionList.OptionSelected)
    def _take_clicked(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._shown[event.option_index])

    def action_move(self, step: int) -> None:
        """Move the highlight; the search box keeps the focus."""
        rows = self.query_one(OptionList)
        if rows.highlighted is not None:
            rows.highlighted = min(max(rows.highlighted + step, 0), rows.option_count - 1)

    def action_cancel(self) -> None:
        """Close without a choice."""
        self.dismiss(None)
