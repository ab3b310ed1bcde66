"""F6: the branches of this conversation; Enter goes to one."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from app.sessions.branches import Branch
from app.tui.clock import local_minute
from app.tui.theme import Look
from app.visible import visible_line

TEXT_CELLS = 70


class BranchScreen(ModalScreen[str | None]):
    """Returns the last message of the chosen branch."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,f6,q", "cancel", show=False)]

    def __init__(self, branches: Sequence[Branch], current: int, look: Look) -> None:
        super().__init__()
        self._branches = branches
        self._current = current
        self._look = look

    def compose(self) -> ComposeResult:
        """A list of branches in the order they were made."""
        rows = OptionList(
            *(Option(self._row(at, one), id=one.leaf.id) for at, one in enumerate(self._branches)),
            markup=False,
        )
        sheet = Vertical(rows, classes="sheet")
        sheet.border_title = "Branches of this conversation"
        sheet.border_subtitle = "Enter goes there · Esc closes"
        yield sheet

    def on_mount(self) -> None:
        """Begin at the branch that is shown."""
        rows = self.query_one(OptionList)
        rows.highlighted = max(self._current, 0)
        rows.focus()

    def _row(self, at: int, branch: Branch) -> Text:
        look, fork = self._look, branch.fork
        mark = look.signs.folded if at == self._current else " "
        where = f"message {branch.fork_number} of {branch.num_messages}"
        who = "you" if fork.role == "user" else "answer"
        return Text.assemble(
            (f"{mark} {at + 1:>2}  ", look.accent),
            (f"{local_minute(branch.leaf.at)}  {where:<18}", look.dim),
            (f"{who}: ", look.user if fork.role == "user" else look.assistant),
            (visible_line(fork.words or fork.reason or "(empty)", TEXT_CELLS), look.text),
            no_wrap=True, overflow="ellipsis", end="",
        )  # fmt: skip

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def action_cancel(self) -> None:
        """Close without a choice."""
        self.dismiss(None)
