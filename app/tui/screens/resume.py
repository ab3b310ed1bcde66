"""Ctrl+R: earlier conversations, with search over all their text; rename and delete them."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from app.sessions.search import excerpt_of_file, words_of
from app.sessions.store import SessionStore, SessionSummary
from app.tui.clock import local_day
from app.tui.line_input import LineInput
from app.tui.screens.list_keys import LIST_KEYS
from app.tui.theme import Look
from app.visible import visible_line
from engine.errors import EngineError

MAX_SHOWN = 200
"""Rows offered at once; a search reaches the others."""

KEYS = "Enter opens · F2 renames · Del deletes · Esc"
RENAME_KEYS = "Enter keeps this title · Esc leaves the old one"


class ResumeScreen(ModalScreen[str | None]):
    """Returns the id of the chosen session.

    Args:
        store: where they lie.
        current: id of the open one.
        rename: gives a session, by id, another title; raises ``EngineError``.
        look: how it is drawn.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *LIST_KEYS,
        Binding("delete", "delete", show=False, priority=True),
        Binding("f2", "rename", show=False, priority=True),
    ]

    class FolderRead(Message):
        """The list of sessions is there."""

        def __init__(self, found: list[SessionSummary], problem: str) -> None:
            super().__init__()
            self.found = found
            self.problem = problem

    class TextsSearched(Message):
        """Which sessions hold a search in their text, and where."""

        def __init__(self, search: str, excerpts: dict[str, str]) -> None:
            super().__init__()
            self.search = search
            self.excerpts = excerpts

    def __init__(
        self, store: SessionStore, current: str, rename: Callable[[str, str], None], look: Look
    ) -> None:
        super().__init__()
        self._store = store
        self._current = current
        self._rename = rename
        self._look = look
        self._found: list[SessionSummary] = []
        self._excerpts: dict[str, str] = {}
        self._search = ""
        self._armed = ""
        self._renamed = ""

    def compose(self) -> ComposeResult:
        """A search box over a list."""
        box = LineInput(placeholder="search titles and texts")
        sheet = Vertical(box, OptionList(markup=False), classes="sheet")
        sheet.border_title = "Earlier conversations"
        sheet.border_subtitle = KEYS
        yield sheet

    def on_mount(self) -> None:
        """Read the folder in a thread: it may hold thousands."""
        self.run_worker(self._read, thread=True, group="folder", exclusive=True)

    def _read(self) -> None:
        try:
            found, problem = self._store.survey()
        except EngineError as error:
            found, problem = [], error.message
        self.post_message(self.FolderRead(found, problem))

    def on_resume_screen_folder_read(self, event: FolderRead) -> None:
        """Show what lies in the folder."""
        self._found = event.found
        self._fill()
        if event.problem:
            self._say(visible_line(event.problem, 100))

    # searching

    @on(Input.Changed)
    def _look_for(self, event: Input.Changed) -> None:
        if self._renamed:
            return
        self._search, self._excerpts = event.value, {}
        self._fill()
        if words_of(event.value):
            found = list(self._found)
            search = event.value
            self.run_worker(
                lambda: self._search_texts(search, found),
                thread=True, group="search", exclusive=True,
            )  # fmt: skip

    def _search_texts(self, search: str, found: Sequence[SessionSummary]) -> None:
        excerpts: dict[str, str] = {}
        for one in found:
            if search != self._search:
                return
            if line := excerpt_of_file(one.path, search):
                excerpts[one.id] = line
        self.post_message(self.TextsSearched(search, excerpts))

    def on_resume_screen_texts_searched(self, event: TextsSearched) -> None:
        """Show which texts fit, unless another search began meanwhile."""
        if event.search == self._search:
            self._excerpts = event.excerpts
            self._fill()

    def _fill(self) -> None:
        words = words_of(self._search)
        shown = [one for one in self._found if self._fits(one, words)][:MAX_SHOWN]
        rows = self.query_one(OptionList)
        chosen = self._chosen()
        rows.clear_options()
        rows.add_options(Option(self._row(one), id=one.id) for one in shown)
        if shown:
            ids = [one.id for one in shown]
            rows.highlighted = ids.index(chosen) if chosen in ids else 0
        else:
            none = "no conversation fits" if self._found else "no conversation yet"
            rows.add_option(Option(Text(none, self._look.dim), disabled=True))

    def _fits(self, one: SessionSummary, words: list[str]) -> bool:
        title = one.title.casefold()
        return one.id in self._excerpts or all(word in title for word in words)

    def _row(self, one: SessionSummary) -> Text:
        mark = "now" if one.id == self._current else f"{one.num_messages:>3}"
        row = Text.assemble(
            (visible_line(local_day(one.updated), 16), self._look.dim),
            (f"  {mark}  ", self._look.accent),
            (visible_line(one.title, 60), self._look.text),
            no_wrap=True,
            overflow="ellipsis",
            end="",
        )
        if line := self._excerpts.get(one.id):
            row.append(f"\n{'':23}{line}", self._look.dim)
        return row

    # choosing

    @on(Input.Submitted)
    def _enter(self, event: Input.Submitted) -> None:
        if self._renamed:
            self._give_title(event.value)
        elif (chosen := self._chosen()) is not None:
            self.dismiss(chosen)

    @on(OptionList.OptionSelected)
    def _open_clicked(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def _chosen(self) -> str | None:
        rows = self.query_one(OptionList)
        if rows.highlighted is None:
            return None
        return rows.get_option_at_index(rows.highlighted).id

    def action_move(self, step: int) -> None:
        """Move the highlight; the search box keeps the focus."""
        rows = self.query_one(OptionList)
        if rows.highlighted is not None and not self._renamed:
            rows.highlighted = min(max(rows.highlighted + step, 0), rows.option_count - 1)

    def action_cancel(self) -> None:
        """Leave the renaming, or close without a choice."""
        if self._renamed:
            self._end_renaming()
        else:
            self.dismiss(None)

    # renaming

    def action_rename(self) -> None:
        """Take a new title for the highlighted session in the box."""
        chosen = self._chosen()
        summary = next((one for one in self._found if one.id == chosen), None)
        if summary is not None and not self._renamed:
            self._renamed = summary.id
            box = self.query_one(Input)
            box.value = summary.title
            box.cursor_position = len(box.value)
            self._say(RENAME_KEYS)

    def _give_title(self, title: str) -> None:
        try:
            self._rename(self._renamed, title)
        except EngineError as error:
            self._end_renaming(visible_line(error.message, 80))
            return
        self._end_renaming("renamed")
        self.run_worker(self._read, thread=True, group="folder", exclusive=True)

    def _end_renaming(self, sentence: str = KEYS) -> None:
        box = self.query_one(Input)
        with box.prevent(Input.Changed):
            box.value = self._search
        self._renamed = ""
        self._say(sentence)

    # deleting

    def on_key(self, event: events.Key) -> None:
        """Any other key takes the question about deleting back."""
        if event.key != "delete" and self._armed:
            self._say(KEYS)
            self._armed = ""

    def action_delete(self) -> None:
        """Delete the highlighted session at the second press."""
        if self._renamed:
            self.query_one(Input).action_delete_right()
            return
        chosen = self._chosen()
        if chosen is None or chosen == self._current:
            self._say("the open conversation cannot be deleted" if chosen else "nothing to delete")
            return
        if self._armed != chosen:
            self._armed = chosen
            self._say("Del again deletes it for good")
            return
        self._armed = ""
        try:
            self._store.delete([chosen])
        except EngineError as error:
            self._say(visible_line(error.message, 60))
            return
        self._found = [one for one in self._found if one.id != chosen]
        self._fill()
        self._say("deleted")

    def _say(self, sentence: str) -> None:
        self.query_one(Vertical).border_subtitle = Content(sentence)
