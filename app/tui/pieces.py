"""What the transcript is made of: pieces that draw themselves into rows for a width and a look.

A piece keeps its rows for the last width and look, so it is drawn once however often it is shown.
Before it was ever drawn it only estimates its height. Knows no widget and no session.
"""

from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from app.blocks import Block
from app.tui.code import CodeDrawing
from app.tui.render import draw_markdown
from app.tui.theme import Look
from app.tui.wrap import clip, fold_text
from app.visible import visible, visible_line

GUTTER = 2
"""Cells at the left of every row: a bar that says who speaks, or the reader's cursor."""

TITLE_CELLS = 60

Tone = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Drawing:
    """Rows at one width in one look."""

    width: int
    look: Look
    rows: list[Strip]


class Piece:
    """One unit of the transcript, with a blank row above it when ``gap`` is 1."""

    gap = 1
    is_selectable = True
    """Whether the reader's cursor stops here."""

    num_title_rows = 0
    """Rows below the gap that are no part of the text: a name, the top of a frame."""

    message_id = ""
    """The message that it is part of; empty for notices."""

    def __init__(self) -> None:
        self.drawing: Drawing | None = None

    @property
    def source(self) -> str:
        """The text behind the piece as it was written, for copying."""
        return ""

    def estimate(self, width: int) -> int:
        """A guess at the number of rows, cheap enough for thousands of pieces."""
        room = max(width - GUTTER, 4)
        return self.gap + sum(1 + len(line) // room for line in self.source.split("\n"))

    def height(self, width: int, look: Look) -> int:
        """The number of rows: exact once drawn at this width, else a guess."""
        drawing = self.drawing
        if drawing is None or not self.is_drawn(width, look):
            return self.estimate(width)
        return len(drawing.rows)

    def is_drawn(self, width: int, look: Look) -> bool:
        """Whether rows for this width and look are at hand."""
        drawing = self.drawing
        return drawing is not None and drawing.width == width and drawing.look is look

    def rows(self, width: int, look: Look) -> list[Strip]:
        """The rows, drawn now unless they are at hand."""
        if self.drawing is None or not self.is_drawn(width, look):
            drawn = [self._with_gutter(row, look) for row in self._draw(width - GUTTER, look)]
            blank = [Strip([Segment(" " * GUTTER)])] * self.gap
            self.drawing = Drawing(width, look, blank + drawn)
        return self.drawing.rows

    def forget(self) -> None:
        """Draw again next time."""
        self.drawing = None

    def _draw(self, width: int, look: Look) -> list[Strip]:
        raise NotImplementedError

    def _with_gutter(self, row: Strip, look: Look) -> Strip:
        del look
        return Strip([Segment(" " * GUTTER), *row])


class FoldingPiece(Piece):
    """A title, and below it what one may unfold."""

    gap = 0
    num_title_rows = 1

    @property
    def is_open(self) -> bool:
        """Whether more than its title is shown."""
        raise NotImplementedError

    def toggle(self) -> None:
        """Unfold or fold this one."""
        raise NotImplementedError


class PromptPiece(Piece):
    """What the person wrote."""

    def __init__(self, text: str, at: str, place: str = "") -> None:
        super().__init__()
        self.num_title_rows = 1
        self._text = visible(text)
        self._place = place
        self._at = visible_line(at, TITLE_CELLS)

    @property
    def source(self) -> str:
        """What was written."""
        return self._text

    def _draw(self, width: int, look: Look) -> list[Strip]:
        name = _placed("you", self._place, look)
        title = both_ends(name, self._at, width, look.user, look.dim)
        rows = fold_text(self._text.rstrip("\n"), width)
        return [title, *(Strip([Segment(row, look.text)]) for row in rows)]

    def _with_gutter(self, row: Strip, look: Look) -> Strip:
        return Strip([Segment(look.signs.bar + " ", look.user), *row])


class AnswerTitlePiece(Piece):
    """Who answers, above an answer."""

    is_selectable = False

    def __init__(self, name: str, at: str, place: str = "") -> None:
        super().__init__()
        self._name = visible_line(name, TITLE_CELLS)
        self._place = place
        self._at = visible_line(at, TITLE_CELLS)

    def _draw(self, width: int, look: Look) -> list[Strip]:
        name = _placed(self._name, self._place, look)
        return [both_ends(name, self._at, width, look.assistant, look.dim)]

    def _with_gutter(self, row: Strip, look: Look) -> Strip:
        return Strip([Segment(look.signs.bar + " ", look.assistant), *row])


class BlockPiece(Piece):
    """A finished block of an answer. ``gap`` is 0 directly below the title."""

    def __init__(self, block: Block, *, gap: int = 1) -> None:
        super().__init__()
        self.gap = gap
        self.block = block
        self.num_title_rows = 1 if block.kind == "code" else 0
        self._code: CodeDrawing | None = None

    @property
    def source(self) -> str:
        """What was written."""
        return self.block.code

    @property
    def is_code(self) -> bool:
        """Whether this is a fenced code block."""
        return self.block.kind == "code"

    @property
    def is_coloured(self) -> bool:
        """Whether the colours of the code are complete."""
        return self._code is None or self._code.is_coloured

    def colour_more(self, look: Look) -> None:
        """Colour a few more rows of code; the rows stay where they are."""
        if self._code is None or self.drawing is None:
            return
        for row in self._code.colour_more():
            self.drawing.rows[self.gap + row] = self._with_gutter(self._code.strips[row], look)

    def _draw(self, width: int, look: Look) -> list[Strip]:
        if not self.is_code:
            return draw_markdown(self.block.source, width, look)
        self._code = CodeDrawing(self.block.code, self.block.language, width, look)
        return list(self._code.strips)


class FootPiece(Piece):
    """How an answer went, below it."""

    is_selectable = False

    def __init__(self, parts: list[str], tone: Tone = "info") -> None:
        super().__init__()
        self._parts = [visible(part) for part in parts]
        self._tone = tone

    def _draw(self, width: int, look: Look) -> list[Strip]:
        style = look.dim if self._tone == "info" else look.notice
        rows: list[str] = []
        for part in self._parts:  # a figure is not cut in two
            joined = f"{rows[-1]} {look.signs.dot} {part}" if rows else part
            if rows and cell_len(joined) <= width:
                rows[-1] = joined
            else:
                rows.append(part)
        return [Strip([Segment(row, style)]) for one in rows for row in fold_text(one, width)]


class NoticePiece(Piece):
    """Something that happened and that a person should see, or an error with its mend."""

    def __init__(self, title: str, text: str, tone: Tone = "info") -> None:
        super().__init__()
        self._title = visible_line(title, TITLE_CELLS)
        self._text = visible(text)
        self.tone = tone

    @property
    def source(self) -> str:
        """What was written."""
        return self._text

    def _style(self, look: Look) -> Style:
        return {"info": look.accent, "warning": look.notice, "error": look.error}[self.tone]

    def _draw(self, width: int, look: Look) -> list[Strip]:
        style = self._style(look)
        body = look.dim if self.tone == "info" else look.text
        head = [Strip([Segment(self._title, style)])] if self._title else []
        return head + [Strip([Segment(row, body)]) for row in fold_text(self._text, width)]

    def _with_gutter(self, row: Strip, look: Look) -> Strip:
        return Strip([Segment(look.signs.side + " ", self._style(look)), *row])


def _placed(name: str, place: str, look: Look) -> str:
    """Who speaks, and which of the messages beside each other this is, such as ``2 of 3``."""
    return f"{name} {look.signs.dot} {place}" if place else name


def both_ends(left: str, right: str, width: int, left_style: Style, right_style: Style) -> Strip:
    """A row with text at both ends; the right one goes first when there is no room."""
    space = width - cell_len(left) - cell_len(right)
    if space < 1:
        return Strip([Segment(clip(left, width), left_style)])
    return Strip([
        Segment(left, left_style), Segment(" " * space), Segment(right, right_style)
    ])  # fmt: skip
