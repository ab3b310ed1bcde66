"""Rows that hold a setting: a value that is typed, or one of a few words that one walks through."""

from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from app.tui.theme import Look
from engine.settings.registry import Setting

DRAFTER_CHOICES = ("auto", "off", "mtp", "lookup")
"""The scripted drafters serve tests; ``/set drafter`` knows them."""


class TextField(Input):
    """A value that is typed."""

    def __init__(self, name: str, value: str, placeholder: str) -> None:
        super().__init__(value, placeholder, name=name, compact=True)


class ChoiceField(Widget, can_focus=True):
    """One of a few words: Left, Right and Space walk them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "walk(-1)", show=False),
        Binding("right,space", "walk(1)", show=False),
    ]

    def __init__(self, name: str, value: str, choices: tuple[str, ...], look: Look) -> None:
        super().__init__(name=name)
        self.value = value
        self._choices = choices if value in choices else (*choices, value)
        self._look = look

    def render(self) -> Text:
        """The word between two arrows."""
        left, right = ("<", ">") if self._look.signs.folded == ">" else ("‹", "›")
        word = self.value or "default"
        return Text.assemble((f"{left} ", self._look.dim), word, (f" {right}", self._look.dim))

    def action_walk(self, step: int) -> None:
        """Take the next word."""
        at = self._choices.index(self.value)
        self.value = self._choices[(at + step) % len(self._choices)]
        self.refresh()

    def on_click(self) -> None:
        """Take the next word."""
        self.action_walk(1)


Field = TextField | ChoiceField


def choices_of(one: Setting) -> tuple[str, ...]:
    """The words that a row walks through; empty where a value is typed."""
    if one.name == "draft.drafter":
        return DRAFTER_CHOICES
    if one.type is bool:
        return ("on", "off")
    can_be_empty = bool(one.choices) and one.default is None
    return (*one.choices, "") if can_be_empty else one.choices
