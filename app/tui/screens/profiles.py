"""F3: every profile with its files, memory and expected rate; Enter goes to one."""

from typing import TYPE_CHECKING, ClassVar

from rich.console import Group
from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.profile_menu import FaultyProfile, ProfileMenu, files_word, rate_text
from app.tui.screens.help import HelpPart
from app.tui.screens.pointed_list import GUTTER_CELLS, PointedList
from app.tui.theme import Look
from app.visible import visible, visible_line
from engine.errors import EngineError
from engine.sizes import size_text
from engine.types import EngineInfo

if TYPE_CHECKING:
    from engine.offer import Offer

WIDE = 74
"""Cells of the sheet's inside from which every column has room."""

KEYS = "Enter {does} · PgDn reads on · Esc closes"
OPENS = "open it; the conversation is kept and read again; Esc gives up"
COMPARES = "answer the last prompt under it as well; the one that is loaded comes back"
FOOTNOTE = "tok/s are expected: read bandwidth / bytes of a round; drafts multiply them"
UNMEASURED = "tok/s are told once a model is loaded: its read bandwidth is measured then"


class ProfileScreen(ModalScreen[str | None]):
    """Returns the name of the chosen profile.

    Args:
        menu: where profiles are looked up, in a thread.
        info: what is loaded, marked in the list; None for nothing.
        look: colours and signs.
        title: of the sheet, which says what the choice is for.
        without: leave the current one out, as a comparison wants.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f3,q", "dismiss", show=False),
        Binding("pagedown", "look_down", show=False, priority=True),
        Binding("pageup", "look_up", show=False, priority=True),
    ]

    class MenuRead(Message):
        """Every profile was looked at."""

        def __init__(self, found: "list[Offer | FaultyProfile]", problem: str) -> None:
            super().__init__()
            self.found = found
            self.problem = problem

    def __init__(
        self,
        menu: ProfileMenu,
        info: EngineInfo | None,
        look: Look,
        title: str = "Profiles",
        *,
        without: bool = False,
    ) -> None:
        super().__init__()
        self._menu = menu
        self._info = info
        self._look = look
        self._title = title
        self._without = without
        self._found: list[Offer | FaultyProfile] = []
        self._head = Static(markup=False)
        self._about = Static(markup=False, classes="about")

    def compose(self) -> ComposeResult:
        """A list, and below it what there is to say of the highlighted one."""
        rows = PointedList(self._look)
        sheet = Vertical(self._head, rows, self._about, classes="sheet profiles")
        sheet.border_title = self._title
        sheet.border_subtitle = self._keys
        yield sheet

    def on_mount(self) -> None:
        """Look at the files in a thread: their headers are read."""
        self._head.update(Text("looking at the files", self._look.dim))
        self.run_worker(self._read, thread=True)

    @property
    def HELP_PART(self) -> HelpPart:  # noqa: N802  as sheets with one purpose name it
        """What this sheet understands: Enter does what the choice is for."""
        return HelpPart(
            "In the list of profiles",
            (
                (
                    "Up / Down",
                    "look at a profile: what it needs, and what to do about missing files",
                ),
                ("Enter", COMPARES if self._without else OPENS),
                ("PgUp / PgDn", "scroll the text below the list"),
                ("tok/s", "read bandwidth / bytes of a round, or what was timed on such a GPU"),
                ("Esc", "close"),
            ),
        )

    @property
    def _keys(self) -> str:
        does = "compares" if self._without else "opens"
        return KEYS.format(does=does).replace("·", self._look.signs.dot)

    def _read(self) -> None:
        try:
            found, problem = [*self._menu.offers(self._info), *self._menu.faulty()], ""
        except EngineError as error:
            found, problem = [], str(error)
        self.post_message(self.MenuRead(found, problem))

    def on_profile_screen_menu_read(self, event: MenuRead) -> None:
        """Show what there is."""
        current = self._current
        self._found = [one for one in event.found if not (self._without and _name(one) == current)]
        self._fill()
        if event.problem:
            self._about.update(Text(visible(event.problem), self._look.error))

    def on_resize(self) -> None:
        """The columns follow the width."""
        if self._found:
            self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        rows = self.query_one(OptionList)
        before = rows.highlighted
        room = (rows.size.width or WIDE) - GUTTER_CELLS
        head = _row(self._look, HEADINGS, "", room, [self._look.dim] * 6)
        self._head.update(Text(" " * GUTTER_CELLS, end="").append_text(head))
        rows.clear_options()
        rows.add_options(Option(self._line(one, room)) for one in self._found)
        names = [_name(one) for one in self._found]
        here = names.index(self._current) if self._current in names else 0
        if names:
            rows.highlighted = here if before is None else min(before, len(names) - 1)

    @property
    def _current(self) -> str:
        return self._info.profile if self._info is not None else ""

    def _line(self, one: "Offer | FaultyProfile", room: int) -> Text:
        look = self._look
        if isinstance(one, FaultyProfile):
            cells = (one.name, "", "", "", "", "faulty")
            return _row(look, cells, "", room, [look.text] * 5 + [look.error])
        need = one.expected.need
        is_current = _name(one) == self._current
        mark = look.signs.busy if is_current else ""
        tone = look.good if is_current or one.is_here else look.notice
        memory = look.text if one.expected.fits or is_current else look.notice
        name = look.accent if is_current else look.text
        cells = (
            _name(one),
            visible_line(one.profile.title, 16),
            size_text(need.stored_bytes),
            size_text(need.total_bytes),
            rate_text(one),
            files_word(one, self._current),
        )
        styles = [name, look.dim, look.text, memory, look.text, tone]
        return _row(look, cells, mark, room, styles)

    @on(OptionList.OptionHighlighted)
    def _look_at(self, event: OptionList.OptionHighlighted) -> None:
        self._about.update(self._page(self._found[event.option_index]))

    def _page(self, one: "Offer | FaultyProfile") -> Group:
        look = self._look
        if isinstance(one, FaultyProfile):
            return Group(Text(visible(one.problem), look.error))
        need = one.expected.need
        lines = [Text(visible(one.profile.about), look.text)]
        lines.append(Text(self._memory_text(one), look.text))
        if one.mend:
            lines.append(Text(visible(one.mend), look.notice))
        elif need.path is not None:
            lines.append(Text(visible(f"files: {need.path}"), look.dim))
        lines.append(Text(FOOTNOTE if self._info is not None else UNMEASURED, look.dim))
        return Group(*lines)

    def _memory_text(self, one: "Offer") -> str:
        need, free_bytes = one.expected.need, one.expected.free_bytes
        kept = ", kept in 8 bits" if need.kv_format == "fp8" else ""
        room = (
            f"needs {size_text(need.total_bytes)} with {need.context_tokens:,} tokens of "
            f"conversation{kept}; {size_text(free_bytes)} free"
        )
        if _name(one) == self._current:
            return f"{room}; this one is loaded"
        if self._info is None:
            return f"{room}{'' if one.expected.fits else ': too little'}"
        if one.fits_beside:
            return f"{room}: fits beside the loaded one, which stays until it is there"
        if need.total_bytes > free_bytes + self._info.weight_bytes:
            return f"{room}: too little"
        return f"{room}: the loaded one is let go of first"

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        one = self._found[event.option_index]
        if _name(one) == self._current:
            self._say(f"{self._current} is loaded already")
        elif isinstance(one, FaultyProfile):
            self._say("its own file does not read: see below what to mend")
        elif not one.is_here:
            self._say(f"its files are {files_word(one, '')}: see below what to do")
        else:
            self.dismiss(_name(one))

    def action_look_down(self) -> None:
        """Scroll the text below the list."""
        self._about.scroll_page_down()

    def action_look_up(self) -> None:
        """Scroll the text below the list back."""
        self._about.scroll_page_up()

    def _say(self, sentence: str) -> None:
        self.query_one(".sheet").border_subtitle = Content(sentence)


HEADINGS = ("profile", "", "on disk", "in memory", "tok/s", "files")
WIDTHS = (12, 16, 9, 10, 13, 8)
ALIGNED_RIGHT = (False, False, True, True, True, False)


def _name(one: "Offer | FaultyProfile") -> str:
    return one.name if isinstance(one, FaultyProfile) else one.profile.name


def _row(look: Look, cells: tuple[str, ...], mark: str, room: int, styles: "list[Style]") -> Text:
    """One row of the table; the title and then the size on disk leave first."""
    shown = [True] * len(cells)
    for column in (1, 2, 3):
        width = 2 + sum(w + 1 for w, is_shown in zip(WIDTHS, shown, strict=True) if is_shown)
        if width > room:
            shown[column] = False
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    text.append(f"{mark:<2}", look.accent)
    for index, cell in enumerate(cells):
        if not shown[index]:
            continue
        clipped = visible_line(cell, WIDTHS[index])
        aligned = clipped.rjust if ALIGNED_RIGHT[index] else clipped.ljust
        gap = "  " if index == len(cells) - 1 else " "
        text.append(gap if index else "")
        text.append(aligned(WIDTHS[index]), styles[index])
    return text
