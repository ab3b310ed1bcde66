"""Rows of the frame: a header, and a line that says what is going on."""

from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.widget import Widget

from app.tui.theme import Look
from app.tui.wrap import clip
from app.visible import visible
from engine.types import EngineInfo

WIDE_CELLS = 100
"""A header of this width has room for all that stands at its right."""


class Line(Widget):
    """One row of text that never wraps and is never markup."""

    DEFAULT_CSS = "Line { height: 1; }"

    def __init__(self, **options: str) -> None:
        super().__init__(**options)  # pyright: ignore[reportArgumentType]
        self._text = Text()

    def show(self, text: Text) -> None:
        """Show another text; nothing happens when it is the same."""
        if text != self._text or text.spans != self._text.spans:
            self._text = text
            self.refresh()

    @property
    def shown(self) -> str:
        """What stands there now."""
        return self._text.plain

    def render(self) -> Text:
        """The text."""
        return self._text


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a row; parts of a low rank leave first when the row is narrow."""

    text: str
    style: Style
    rank: int


def fit(parts: list[Part], width: int, separator: str, dim: Style) -> Text:
    """Join the parts that fit, dropping the lowest ranks first; order stays."""
    kept = [part for part in parts if part.text]
    while len(kept) > 1 and _width(kept, separator) > width:
        kept.remove(min(kept, key=lambda part: part.rank))
    text = Text(no_wrap=True, overflow="crop", end="")
    for index, part in enumerate(kept):
        if index:
            text.append(separator, dim)
        text.append(clip(part.text, width), part.style)
    return text


def _width(parts: list[Part], separator: str) -> int:
    return sum(cell_len(part.text) for part in parts) + cell_len(separator) * (len(parts) - 1)


def apart(left: Text, right: Text, width: int) -> Text:
    """Two texts at the ends of a row; the right one stays when both do not fit."""
    room = width - right.cell_len - 1
    if left.cell_len > room:
        left = left.copy()
        left.truncate(max(room - 1, 0), overflow="ellipsis")
    space = max(width - left.cell_len - right.cell_len, 1)
    return Text.assemble(left, " " * space, right, no_wrap=True, end="")


def header_text(
    title: str,
    place: str,
    info: EngineInfo | None,
    drafter: str,
    state: str,
    width: int,
    look: Look,
) -> Text:
    """The first row: program, conversation, its branch (may be empty), model, profile, drafter."""
    dot = f" {look.signs.dot} "
    model = visible(info.model) if info else ""
    right = fit(
        [
            Part(model, look.text, 2),
            Part(visible(info.profile) if info else "", look.accent, 3),
            Part(drafter if info else "", look.dim, 1),
            Part(state, look.dim, 0),
        ],
        _right_cells(width, title),
        dot,
        look.faint,
    )
    place = f"{dot}{place}" if place else ""
    room = max(width - right.cell_len - 12 - len(place), 4)
    shown = clip(visible(title), room) + place
    left = Text.assemble((" qwen38", look.assistant), (f"  {shown}", look.dim))
    right.append(" ")
    return apart(left, right, width)


def _right_cells(width: int, title: str) -> int:
    """Room of what stands at the right: what the title leaves, within bounds."""
    most = width * 5 // 8 if width >= WIDE_CELLS else width // 2
    return max(min(most, width - cell_len(title) - 12), width // 3, 12)


def short(count: int) -> str:
    """A token count in few cells."""
    return f"{count / 1000:.1f}k" if 1000 <= count < 100_000 else (
        f"{count // 1000}k" if count >= 1000 else str(count)
    )  # fmt: skip
