"""F1: every key and command from their tables, and what each figure means.

What the focused part, or the open sheet, understands stands first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from app.slash import SLASH_COMMANDS
from app.tui.instruments.definitions import DEFINITIONS
from app.tui.keymap import Where, listed
from app.tui.own_keys import FILE_NAME, OwnKey
from app.tui.theme import Look
from app.tui.wrap import fold
from app.visible import visible

LABEL_CELLS = 22

OWN_KEYS = (
    FILE_NAME,
    'beside settings.toml gives a key to any command: f10 = "/redo", "alt+t" = "/set top_p 0.9"',
)

SECTIONS: tuple[tuple[Where, str], ...] = (
    ("anywhere", "Anywhere"),
    ("message", "In the message box"),
    ("conversation", "In the conversation (Tab goes there)"),
)


@dataclass(frozen=True, slots=True)
class HelpPart:
    """What an open sheet understands; a sheet names it as ``HELP_PART``."""

    title: str
    rows: tuple[tuple[str, str], ...]


def _label(text: str) -> str:
    """A label in its column, indented; what goes on in the next row stands further in."""
    parts = text.replace("|", "| ")  # a row may end behind each of several words to choose from
    first, *more = (one.replace("| ", "|") for one in fold(parts, LABEL_CELLS - 4))
    return "\n".join([f"  {first}", *(f"    {one}" for one in more)]).replace(" \n", "\n")


class HelpScreen(ModalScreen[None]):
    """A sheet to read; Esc closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,q", "dismiss", show=False),
    ]

    def __init__(
        self,
        look: Look,
        focused: Where | HelpPart = "message",
        own_keys: Sequence[OwnKey] = (),
    ) -> None:
        super().__init__()
        self._own_keys = own_keys
        self._look = look
        self._focused = focused

    def compose(self) -> ComposeResult:
        """One sheet that scrolls."""
        sheet = VerticalScroll(Static(self._text(), markup=False), classes="sheet")
        sheet.border_title = "Help"
        sheet.border_subtitle = "Esc closes"
        yield sheet

    def _text(self) -> Group:
        focused = self._focused
        tables: list[Table] = []
        if isinstance(focused, HelpPart):
            tables.append(self._section(focused.title, focused.rows))
        for where, title in sorted(SECTIONS, key=lambda one: one[0] != focused):
            rows = [(key.label, key.about) for key in listed(where)]
            tables.append(self._section(title, rows))
        rows = [(one.key, visible(one.line)) for one in self._own_keys]
        tables.append(self._section("Your own keys", [OWN_KEYS, *rows]))
        tables.append(self._section("Commands", [(one.usage, one.help) for one in SLASH_COMMANDS]))
        tables.append(self._section("Figures", list(DEFINITIONS)))
        return Group(*tables)

    def _section(self, title: str, rows: Sequence[tuple[str, str]]) -> Table:
        look = self._look
        table = Table.grid(padding=(0, 2))
        table.add_column(width=LABEL_CELLS, no_wrap=False)
        table.add_column(ratio=1)
        table.add_row(Text(title, look.heading))
        for left, right in rows:
            table.add_row(Text(_label(left), look.user), Text(right, look.text))
        table.add_row()
        return table
