"""An answer as its tokens: the source text, each token marked by how it came."""

from bisect import bisect_right
from itertools import groupby, islice

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
        return [*_legend(width, look), *self._rows(0, len(self._text), width, look)]

    def _rows(self, begin: int, end: int, width: int, look: Look) -> list[Strip]:
        """The characters [begin, end) as rows."""
        kinds: list[Kind] = ["plain"] * (end - begin)
        first = bisect_right(self._spans, begin, key=lambda span: span.end)
        for span in islice(self._spans, first, None):
            for at in range(max(span.start, begin), min(span.end, end)):
                kinds[at - begin] = span.kind
        styles = _styles(look)
        lines = _lines(self._text[begin:end], kinds)
        return [row for line in lines for row in _drawn(line, width, styles)]


class GrowingTokensPiece(TokensPiece):
    """An answer in progress as its tokens; what came since its last round is plain so far."""

    is_selectable = False

    def __init__(self, *, gap: int = 1) -> None:
        super().__init__("", [], gap=gap)
        self._done: list[Strip] = []
        self._num_done = 0
        self._done_for: tuple[int, Look] | None = None

    def show(self, text: str, spans: list[Span]) -> None:
        """Take the answer so far, which only grows, and what is known of it."""
        self._text, self._spans = text, spans
        self.forget()

    def _draw(self, width: int, look: Look) -> list[Strip]:
        if self._done_for != (width, look):
            self._done, self._num_done, self._done_for = [], 0, (width, look)
        known = self._spans[-1].end if self._spans else 0
        end = self._text.rfind("\n", self._num_done, known)
        if end >= 0:  # lines that nothing changes any more
            self._done += self._rows(self._num_done, end, width, look)
            self._num_done = end + 1
        rest = self._rows(self._num_done, len(self._text), width, look)
        rest[-1] = Strip([*rest[-1], Segment(look.signs.caret, look.assistant)])
        return [*_legend(width, look), *self._done, *rest]


def _legend(width: int, look: Look) -> list[Strip]:
    styles, between = _styles(look), f" {look.signs.dot} "
    in_full = sum(len(words) for _, words in LEGEND) + (len(LEGEND) - 1) * len(between)
    legend: list[Segment] = []
    for kind, words in LEGEND:
        legend += [Segment(between, look.faint)] if legend else []
        legend.append(Segment(words if in_full <= width else kind, styles[kind]))
    return [Strip(legend).crop(0, width), Strip.blank(0)]


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
