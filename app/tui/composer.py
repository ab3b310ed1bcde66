"""Where the person writes: several lines, history, long pastes, nothing ever lost.

Enter sends. A new line is Alt+Enter, Ctrl+J, Shift+Enter where the terminal reports it, or a
backslash at the end. Knows neither the engine nor the disk.
"""

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import TextArea
from textual.widgets.text_area import Selection

from app.file_names import completion_at, name_at
from app.tui.paste import PastedTexts
from app.visible import visible

NEWLINE_KEYS = ("ctrl+j", "alt+enter", "shift+enter")
MAX_SHOWN_CHARACTERS = 100_000
"""Longest pastes that are shown in full: a longer text makes every key slow."""
MAX_ROWS = 8
PLACEHOLDER = "Write a message: Enter sends, Alt+Enter is a new line"


class Composer(TextArea):
    """The message box."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d", "end_of_file", show=False, priority=True),
        Binding("ctrl+o", "expand", show=False),
    ]

    class Submitted(Message):
        """The person pressed Enter; ``now`` when the answer in progress shall not be waited for.

        The text has left the box: keys that were typed behind Enter are in it already.
        """

        def __init__(self, text: str, *, now: bool = False) -> None:
            super().__init__()
            self.text = text
            self.now = now

    class EndOfFile(Message):
        """Ctrl+D in an empty box."""

    class EndWanted(Message):
        """End, where the cursor is at the end of its line already."""

    class QueueWanted(Message):
        """The person wants the queued message back, or gone."""

        def __init__(self, *, dropped: bool = False) -> None:
            super().__init__()
            self.dropped = dropped

    class TooLongToShow(Message):
        """The pastes are too long to be shown in the box."""

    def __init__(self, history: Callable[[], list[str]], **options: str) -> None:
        super().__init__(
            soft_wrap=True,
            tab_behavior="focus",
            show_line_numbers=False,
            highlight_cursor_line=False,
            compact=True,
            placeholder=PLACEHOLDER,
            **options,  # pyright: ignore[reportArgumentType]
        )
        self._history = history
        self._back = 0
        self._kept = ""
        self._note = ""
        self._pastes = PastedTexts()
        self.has_queued: Callable[[], bool] = lambda: False
        self.complete: Callable[[str], str | None] = lambda _: None

    @property
    def full_text(self) -> str:
        """The message with its pastes in full."""
        return self._pastes.expand(self.text)

    def put(self, text: str) -> None:
        """Show a text to go on with; a long one as a sign."""
        self._pastes = PastedTexts()
        self.text = self._pastes.shorten(visible(text))
        self.move_cursor(self.document.end)

    def put_before(self, text: str) -> None:
        """Show a text that came back, before what was typed meanwhile."""
        self.put("\n".join(filter(None, (text, self.full_text))))

    def clear_all(self) -> None:
        """Empty the box."""
        self._back = 0
        self.put("")

    def take(self) -> str:
        """Empty the box and return what stood there."""
        text = self.full_text
        self.clear_all()
        return text

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self._enter()
        elif event.key == "ctrl+enter":
            event.stop()
            event.prevent_default()
            if self.has_queued() or self.text.strip():
                self.post_message(self.Submitted(self.take(), now=True))
        elif event.key == "delete" and self.has_queued() and not self.text:
            event.stop()
            event.prevent_default()
            self.post_message(self.QueueWanted(dropped=True))
        elif event.key == "end" and self.cursor_at_end_of_line:
            event.stop()
            event.prevent_default()
            self.selection = Selection.cursor(self.cursor_location)
            self.post_message(self.EndWanted())
        elif event.key in NEWLINE_KEYS:
            event.stop()
            event.prevent_default()
            self.insert("\n")
        elif self._takes_history(event.key) or (event.key == "tab" and self._completes()):
            event.stop()
            event.prevent_default()
        else:
            await super()._on_key(event)

    def _enter(self) -> None:
        row, column = self.cursor_location
        line = self.document.get_line(row)
        if column == len(line) and line.endswith("\\"):
            self.delete((row, column - 1), (row, column))
            self.insert("\n")
        elif self.text.strip():
            self.post_message(self.Submitted(self.take()))

    def _completes(self) -> bool:
        """Complete a command, or the name of a file at the cursor."""
        if whole := self.complete(self.text):
            self.put(whole)
            return True
        found = completion_at(self.before_cursor)
        if found is None:
            return bool(name_at(self.before_cursor))  # the focus stays where a name is being typed
        if not found.longest:
            return len(found.names) > 1
        row, column = self.cursor_location
        self.replace(found.longest, (row, column - len(found.typed)), (row, column))
        return True

    @property
    def before_cursor(self) -> str:
        """The line that the cursor is in, up to it."""
        row, column = self.cursor_location
        return self.document.get_line(row)[:column]

    def _takes_history(self, key: str) -> bool:
        forced = key in ("ctrl+up", "ctrl+down")
        if key in ("up", "ctrl+up") and (forced or self.cursor_at_first_line):
            if self.has_queued() and not self.text:
                self.post_message(self.QueueWanted())
                return True
            return self._walk(1)
        if key in ("down", "ctrl+down") and (forced or self.cursor_at_last_line):
            return self._walk(-1)
        return False

    def _walk(self, step: int) -> bool:
        entries = self._history()
        at = self._back + step
        if not 0 <= at <= len(entries):
            return False
        if self._back == 0:
            self._kept = self.full_text
        self._back = at
        self.put(self._kept if at == 0 else entries[-at])
        return True

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        text = visible(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        if result := self._replace_via_keyboard(self._pastes.paste(text), *self.selection):
            self.move_cursor(result.end_location)

    def show_note(self, note: str) -> None:
        """Say something on the lower edge of the box."""
        text = visible(note)
        if self._note != text:
            self._note = text
            self.border_subtitle = Content(text)  # no str, which would be markup

    def show_title(self, title: str) -> None:
        """Say on the upper edge what the box is for."""
        self.border_title = Content(visible(title))

    def action_end_of_file(self) -> None:
        """Quit when the box is empty, else delete what stands right of the cursor."""
        if self.text:
            self.action_delete_right()
        else:
            self.post_message(self.EndOfFile())

    def action_expand(self) -> None:
        """Show pastes in full instead of their signs."""
        text = self.full_text
        if len(text) > MAX_SHOWN_CHARACTERS:
            self.post_message(self.TooLongToShow())
        elif text != self.text:
            self._pastes = PastedTexts()
            self.text = text
            self.move_cursor(self.document.end)

    @property
    def wanted_rows(self) -> int:
        """Rows that the text would fill, up to the most that the box takes."""
        return max(1, min(self.wrapped_document.height, MAX_ROWS))
