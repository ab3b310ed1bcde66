"""F4: how answers are made, for this conversation: sampling, thinking, drafting, system prompt.

What is typed is checked by the settings registry while it is typed and taken when the row is left;
the next message uses it. An empty row is the default, which is named.
"""

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from app.live import OF_THAT_ANSWER, SOURCE, LiveSettings, raw_text, show_value
from app.tui.screens.fields import ChoiceField, Field, TextField, choices_of
from app.tui.screens.help import HelpPart
from app.tui.theme import Look
from app.visible import visible
from engine.errors import SettingsError
from engine.settings.declared import KNOWN
from engine.settings.registry import parse
from engine.types import EngineInfo

ROWS = (
    ("sampling.temperature", "temperature"),
    ("sampling.top_p", "top-p"),
    ("sampling.top_k", "top-k"),
    ("sampling.min_p", "min-p"),
    ("sampling.presence_penalty", "presence penalty"),
    ("sampling.repetition_penalty", "repetition penalty"),
    ("sampling.logit_bias", "logit bias"),
    ("sampling.max_tokens", "longest answer"),
    ("sampling.seed", "seed"),
    ("chat.thinking", "thinking"),
    ("chat.effort", "thinking effort"),
    ("chat.thinking_budget", "thinking budget"),
    ("draft.drafter", "drafter"),
    ("draft.shape", "draft shape"),
    ("draft.tokens", "draft tokens"),
)


class Rows(VerticalScroll, can_focus=False, inherit_bindings=False):
    """Scrolls with the focus; Up and Down are left to the rows."""


class ParameterScreen(ModalScreen[list[str] | None]):
    """Returns the sentences of what was typed and could not be taken.

    Args:
        live: the settings, changed here.
        info: of the loaded model, whose defaults are named; None for none.
        system: the conversation's system prompt.
        set_system: takes another one; None leaves the prompt out.
        look: colours and signs.
        focus: the setting to begin with, or "system".
    """

    SAYS = "How answers are made, in this conversation"
    KEYS = "Up/Down · Ctrl+R resets, twice all · Esc closes"
    HELP_PART: ClassVar = HelpPart(
        "Where answers are made",
        (
            ("Up / Down, Enter", "another row; what was typed is taken"),
            ("Left / Right, Space", "another word, in rows that hold one of a few"),
            ("empty", "the default that stands there greyed"),
            ("Ctrl+R", "the row's default again; at a row that has it: of all rows"),
            ("Esc", "close; the next message uses what is set"),
        ),
    )

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f4", "leave", show=False, priority=True),
        Binding("down", "move(1)", show=False),
        Binding("up", "move(-1)", show=False),
        Binding("enter", "move(1)", show=False),
        Binding("ctrl+r", "reset", show=False, priority=True),
    ]

    def __init__(
        self,
        live: LiveSettings,
        info: EngineInfo | None,
        system: str,
        set_system: Callable[[str], None] | None,
        look: Look,
        focus: str = "sampling.temperature",
    ) -> None:
        super().__init__()
        self._live = live
        self._info = info
        self._system = system
        self._set_system = set_system
        self._look = look
        self._first = focus
        self._refused: dict[str, str] = {}
        self._foot = Static(markup=False, classes="foot")

    def compose(self) -> ComposeResult:
        """A row for each setting, the system prompt, and a line about the focused one."""
        rows: list[Widget] = [self._row(name, label) for name, label in ROWS]
        if self._set_system is not None:
            rows.append(self._system_row())
        sheet = Vertical(Rows(*rows), self._foot, classes="sheet parameters")
        sheet.border_title = self.SAYS
        sheet.border_subtitle = self.KEYS.replace("·", self._look.signs.dot)
        yield sheet

    def _system_row(self) -> Horizontal:
        area = TextArea(visible(self._system), name="system", compact=True, soft_wrap=True)
        area.cursor_blink = False
        label = Static("system prompt", markup=False, classes="label")
        return Horizontal(label, area, classes="row tall")

    def _row(self, name: str, label: str) -> Horizontal:
        one = KNOWN[name]
        value = raw_text(self._live.resolved[name].value)
        field: Field
        if choices := choices_of(one):
            field = ChoiceField(name, value, choices, self._look)
        else:
            field = TextField(name, value, default_text(name, self._info))
        note = Static(self._note(name), markup=False, classes="note")
        note.id = f"note-{name.replace('.', '-')}"
        return Horizontal(Static(label, markup=False, classes="label"), field, note, classes="row")

    def on_mount(self) -> None:
        """Begin with the setting that was asked for."""
        wanted = next((one for one in self._fields() if one.name == self._first), None)
        if wanted is not None:
            wanted.focus()
        elif self._set_system is not None:
            self.query_one(TextArea).focus()

    def _fields(self) -> list[Field]:
        found: list[Field] = []
        for kind in (TextField, ChoiceField):
            found += self.query(kind)
        return found

    def _note(self, name: str) -> Text:
        now = self._live.resolved[name]
        if now.source == SOURCE:
            return Text("set here", self._look.accent)
        if now.value is None and name.startswith("sampling.") and name != "sampling.seed":
            return Text("checkpoint", self._look.dim)
        return Text(_short(now.source), self._look.dim)

    # one row

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Say what the focused row means."""
        self._explain(event.widget.name or "")

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        """Take the value of the row that was left."""
        if event.widget.name:
            self._take(event.widget)

    def _explain(self, name: str) -> None:
        if problem := self._refused.get(name):
            self._foot.update(Text(problem, self._look.error))
        elif name in KNOWN:
            one = KNOWN[name]
            unit = f", in {one.unit}" if one.unit else ""
            self._foot.update(Text(f"{name}: {one.help}{unit}", self._look.dim))
        else:
            text = "goes before the first message; the conversation is read again with it"
            self._foot.update(Text(text, self._look.dim))

    @on(Input.Changed)
    def _check(self, event: Input.Changed) -> None:
        if isinstance(event.input, TextField):
            self._reads(event.input)
            if event.input.has_focus:
                self._explain(event.input.name or "")

    def _reads(self, field: Field) -> bool:
        """Whether what a row holds now is a value; the sentence of one that is none is kept."""
        name = field.name or ""
        try:
            parse(KNOWN[name], field.value.strip(), SOURCE)
        except SettingsError as error:
            self._refused[name] = str(error).removeprefix(f"{SOURCE}: ")
        else:
            self._refused.pop(name, None)
        field.set_class(name in self._refused, "-wrong")
        return name not in self._refused

    @on(Input.Submitted)
    def _next(self) -> None:
        self.action_move(1)

    def _take(self, widget: Widget) -> None:
        name = widget.name or ""
        if isinstance(widget, TextArea):
            if self._set_system is not None and widget.text != visible(self._system):
                self._system = widget.text
                self._set_system(widget.text)
        # a key may come before the word of what was typed last
        elif isinstance(widget, TextField | ChoiceField) and self._reads(widget):
            value = widget.value.strip()
            if value != raw_text(self._live.resolved[name].value):
                self._live.set(name, value)
            self.query_one(f"#note-{name.replace('.', '-')}", Static).update(self._note(name))

    # keys

    def action_move(self, step: int) -> None:
        """Go to the next or previous row."""
        if step > 0:
            self.focus_next()
        else:
            self.focus_previous()

    def action_reset(self) -> None:
        """Give the focused row its default; where it has it already, all rows."""
        focused = self.focused
        if not isinstance(focused, TextField | ChoiceField):
            return
        name = focused.name or ""
        was_default = self._live.resolved[name] == self._live.base[name]
        is_clean = raw_text(self._live.base[name].value) == focused.value
        every = self._fields() if was_default and is_clean else [focused]
        for one in every:
            self._reset(one)
        said = "every row has its default again" if len(every) > 1 else f"{name} has its default"
        self._foot.update(Text(said, self._look.good))

    def _reset(self, field: Field) -> None:
        name = field.name or ""
        self._refused.pop(name, None)
        self._live.reset(name)
        field.value = raw_text(self._live.resolved[name].value)
        field.refresh()
        self.query_one(f"#note-{name.replace('.', '-')}", Static).update(self._note(name))

    def action_leave(self) -> None:
        """Close; a value that does not read is left as it was, and told."""
        self.take_focused()
        self.dismiss(list(self._refused.values()))

    def take_focused(self) -> bool:
        """Take what the focused row holds; False, and its row in focus, when one does not read."""
        if self.focused is not None:
            self._take(self.focused)
        for one in self._fields():
            if one.name in self._refused:
                one.focus()
                self._explain(one.name)
                return False
        return True


def default_text(name: str, info: EngineInfo | None) -> str:
    """What an empty value stands for."""
    section, leaf = name.split(".")
    if name == "sampling.seed":
        return "fresh"
    if section != "sampling":
        return "the drafter's" if name == "draft.tokens" else "default"
    if info is None:
        return "the checkpoint's"
    theirs = getattr(info.default_sampling, leaf, None)
    return show_value(theirs) if theirs is not None else ""


def _short(source: str) -> str:
    """Where a value came from, in few cells: of a file only what it is."""
    if source == OF_THAT_ANSWER:
        return "its own"
    return "settings.toml" if source.startswith("user file") else source
