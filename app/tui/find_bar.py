"""The row in which one types what to find; searching is the app's part."""

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from app.tui.line_input import LineInput
from app.tui.lines import Line
from app.visible import visible_line


class FindBar(Horizontal):
    """Hidden until it is opened."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,down", "step(1)", show=False, priority=True),
        Binding("up,shift+enter", "step(-1)", show=False, priority=True),
    ]

    class Changed(Message):
        """Another text is looked for, `text`: by the time this is read it may be a later one."""

    class Stepped(Message):
        """The next match is wanted, or the one before."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def __init__(self) -> None:
        super().__init__(id="find")
        self._input = LineInput(placeholder="find in this conversation", compact=True)
        self._count = Line(id="find-count")
        self.display = False

    def compose(self) -> ComposeResult:
        """A sign, the box, and how many there are."""
        yield self._input
        yield self._count

    @property
    def text(self) -> str:
        """What is in the box."""
        return self._input.value

    def open(self, text: str | None = None) -> None:
        """Show it, with another text to look for or the last one."""
        self.display = True
        if text is not None:
            self._input.value = visible_line(text, 1000)
        self._input.focus()
        self._input.action_select_all()

    def close(self) -> None:
        """Hide it."""
        self.display = False

    def show_count(self, text: Text) -> None:
        """Say how many matches there are."""
        self._count.styles.width = text.cell_len + 2
        self._count.show(text)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed())

    def action_step(self, step: int) -> None:
        """Go to another match."""
        self.post_message(self.Stepped(step))
