"""Ctrl+R: earlier conversations, with search; Enter goes on with one, Del twice deletes it."""

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

from app.sessions.store import SessionStore, SessionSummary
from app.tui.clock import local_day
from app.tui.theme import Look
from app.visible import visible_line
from engine.errors import EngineError

MAX_SHOWN = 200
"""Rows offered at once; a search reaches the others."""


class ResumeScreen(ModalScreen[str | None]):
    """Returns the id of the chosen session."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("pagedown", "move(10)", show=False, priority=True),
        Binding("pageup", "move(-10)", show=False, priority=True),
        Binding("delete", "delete", show=False, priority=True),
    ]

    class FolderRead(Message):
        """The list of sessions is there."""

        def __init__(self, found: list[SessionSummary], problem: str) -> None:
            super().__init__()
            self.found = found
            self.problem = problem

    def __init__(self, store: SessionStore, current: str, look: Look) -> None:
        super().__init__()
        self._store = store
        self._current = current
        self._look = look
        self._found: list[SessionSummary] = []
        self._armed = ""

    def compose(self) -> ComposeResult:
        """Put the parts together."""
        sheet = Vertical(Input(placeholder="search"), OptionList(markup=False), classes="sheet")
        sheet.border_title = "Earlier conversations"
        sheet.border_subtitle = "Enter opens · Del deletes · Esc closes"
        yield sheet

    def on_mount(self) -> None:
        """Read the folder in a thread: it may hold thousands."""
        self.run_worker(self._read, thread=True)

    def _read(self) -> None:
        try:
            found, problem = self._store.survey()
        except EngineError as error:
            found, problem = [], error.message
        self.post_message(self.FolderRead(found, problem))

    def on_resume_screen_folder_read(self, event: FolderRead) -> None:
        """Show what lies in the folder."""
        self._found = event.found
        self._fill("")
        if event.problem:
            self._say(visible_line(event.problem, 100))

    def _fill(self, search: str) -> None:
        words = search.lower().split()
        shown = [one for one in self._found if all(word in one.title.lower() for word in words)][
            :MAX_SHOWN
        ]
        rows = self.query_one(OptionList)
        rows.clear_options()
        rows.add_options(Option(self._row(one), id=one.id) for one in shown)
        if shown:
            rows.highlighted = 0
        else:
            none = "no conversation fits" if self._found else "no conversation yet"
            rows.add_option(Option(Text(none, self._look.dim), disabled=True))

    def _row(self, one: SessionSummary) -> Text:
        when = local_day(one.updated)
        mark = "now" if one.id == self._current else f"{one.num_messages:>3}"
        return Text.assemble(
            (visible_line(when, 16), self._look.dim),
            (f"  {mark}  ", self._look.accent),
            (visible_line(one.title, 60), self._look.text),
            no_wrap=True,
            overflow="ellipsis",
            end="",
        )

    @on(Input.Changed)
    def _search(self, event: Input.Changed) -> None:
        self._fill(event.value)

    @on(Input.Submitted)
    def _open(self) -> None:
        if (chosen := self._chosen()) is not None:
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
        if rows.highlighted is not None:
            rows.highlighted = min(max(rows.highlighted + step, 0), rows.option_count - 1)

    def action_cancel(self) -> None:
        """Close without a choice."""
        self.dismiss(None)

    def on_key(self, event: events.Key) -> None:
        """Any other key takes the question about deleting back."""
        if event.key != "delete":
            self._say("Enter opens · Del deletes · Esc closes")
            self._armed = ""

    def action_delete(self) -> None:
        """Delete the highlighted session at the second press."""
        chosen = self._chosen()
        if chosen is None or chosen == self._current:
            self._say("the open conversation cannot be deleted" if chosen else "nothing to delete")
            return
        if self._armed != chosen:
            self._armed = chosen
            self._say("Del again deletes it for good")
            return
        try:
            self._store.delete([chosen])
        except EngineError as error:
            self._say(visible_line(error.message, 60))
            return
        self._armed = ""
        self._found = [one for one in self._found if one.id != chosen]
        self._fill(self.query_one(Input).value)
        self._say("deleted")

    def _say(self, sentence: str) -> None:
        self.query_one(Vertical).border_subtitle = Content(sentence)
