"""An answer as its tokens: the source text, each token marked by how it came."""

from itertools import groupby

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from app.tui.instruments.round_table import STYLES
from app.tui.instruments.token_kinds import Kind, Span
from app.tui.pieces import Piece
from app.tui.theme import Look
from app.tui.wrap import TAB, fold
from app.visible import visible

LEGEND: tuple[tuple[Kind, str], ...] = (
    ("accepted", "drafted and accepted"),
    ("corrected", "in place of a wrong draft"),
    ("bonus", "behind a whole draft"),
)

Marked = tuple[str, Kind]
"""A character and how its token came."""


class TokensPiece(Piece):
    """The source of an answer; ``spans`` follow each other, and what they leave out is plain."""

    def __init__(self, text: str, spans: list[Span], *, gap: int = 1) -> None:
        super().__init__()
        self.gap = gap
        self._text = visible(text)
        self._spans = spans

    @property
    def source(self) -> str:
        """What was written."""
        return self._text

    def _draw(self, width: int, look: Look) -> list[Strip]:
        styles = _styles(look)
        between = Segment(f" {look.signs.dot} ", look.faint)
        legend: list[Segment] = []
        for kind, words in LEGEND:
            legend += [between] if legend else []
            legend.append(Segment(words, styles[kind]))
        rows = [Strip(legend).crop(0, width), Strip.blank(0)]
        for line in _lines(self._text, self._kinds()):
            rows += _drawn(line, width, styles)
        return rows

    def _kinds(self) -> list[Kind]:
        """How the token behind each character came."""
        kinds: list[Kind] = ["plain" for _ in self._text]
        for span in self._spans:
            for at in range(span.start, min(span.end, len(kinds))):
                kinds[at] = span.kind
        return kinds


def _styles(look: Look) -> dict[Kind, Style]:
    colours: dict[Kind, Style] = {
        "plain": look.text,
        "accepted": look.text,
        "corrected": look.notice,
        "bonus": look.assistant,
    }
    return {
        kind: Style(color=colour.color, dim=colour.dim) + STYLES[kind]
        for kind, colour in colours.items()
    }


def _lines(text: str, kinds: list[Kind]) -> list[list[Marked]]:
    """Characters line by line, tabs as the spaces that they are drawn with."""
    lines: list[list[Marked]] = [[]]
    for sign, kind in zip(text, kinds, strict=True):
        if sign == "\n":
            lines.append([])
        else:
            lines[-1].extend((one, kind) for one in (TAB if sign == "\t" else sign))
    return lines


def _drawn(line: list[Marked], width: int, styles: dict[Kind, Style]) -> list[Strip]:
    """A line folded into rows, neighbours of one kind as one segment."""
    rows: list[Strip] = []
    at = 0
    for row in fold("".join(sign for sign, _ in line), width):
        inside, at = line[at : at + len(row)], at + len(row)
        runs = groupby(inside, key=_kind)
        rows.append(
            Strip([Segment("".join(s for s, _ in run), styles[kind]) for kind, run in runs])
        )
    return rows


def _kind(marked: Marked) -> Kind:
    return marked[1]
