"""Finding text in what is shown: which rows of which piece hold it, however they are folded.

A match may go over the end of a row, where folding took a blank or cut a word. Knows no widget
and no key.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from app.tui.answer import ThinkingPiece
from app.tui.pieces import GUTTER, Drawing, Piece

_BREAK = r"[^\S\n]*\n[\s│|]*"
"""The end of a row and the margin of the next one, with the side of a code frame."""

_MARKUP = re.compile(r"[*_`~\\]")

Spans = dict[int, list[tuple[int, int, int]]]
"""By row of a piece: begin and end of a match in characters, and which match of the piece it is."""


def pattern_of(text: str) -> re.Pattern[str] | None:
    """What matches ``text`` in folded rows, whatever its case; None when there is nothing in it."""
    words = [f"(?:{_BREAK})?".join(map(re.escape, word)) for word in text.split()]
    if not words:
        return None
    return re.compile(rf"(?:\s+|{_BREAK})".join(words), re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Hit:
    """The ``nth`` match of a piece, from 0."""

    piece: Piece
    nth: int


@dataclass(slots=True)
class Found:
    """What a search found in one drawing of a piece."""

    drawing: Drawing
    spans: Spans
    count: int


@dataclass
class Finder:
    """One search: its pattern, and where it stands."""

    text: str = ""
    current: Hit | None = None
    _pattern: re.Pattern[str] | None = None
    _found: dict[int, Found] = field(default_factory=dict[int, Found])

    def look_for(self, text: str) -> None:
        """Search for another text."""
        self.text = text
        self.current = None
        self._pattern = pattern_of(text)
        self._found.clear()

    def spans(self, piece: Piece) -> Spans:
        """Where the matches of a drawn piece are."""
        if self._pattern is None or piece.drawing is None:
            return {}
        found = self._found.get(id(piece))
        if found is None or found.drawing is not piece.drawing:
            found = _search(self._pattern, piece, piece.drawing)
            self._found[id(piece)] = found
        return found.spans

    def hits(self, pieces: Iterable[Piece]) -> list[Hit]:
        """Every match, top to bottom; those of pieces never drawn are counted in their source."""
        return [Hit(one, nth) for one in pieces for nth in range(self._count(one))]

    def _count(self, piece: Piece) -> int:
        if self._pattern is None or not piece.source:
            return 0
        if piece.drawing is not None and not is_folded(piece):
            self.spans(piece)
            return self._found[id(piece)].count
        return len(self._pattern.findall(_MARKUP.sub("", piece.source)))


def _search(pattern: re.Pattern[str], piece: Piece, drawing: Drawing) -> Found:
    num_skipped = piece.gap + piece.num_title_rows
    texts = [strip.text[GUTTER:].rstrip() for strip in drawing.rows]
    rows = ["" if at < num_skipped else text for at, text in enumerate(texts)]
    starts = [*accumulate((len(row) + 1 for row in rows), initial=0)]
    spans: Spans = {}
    matches = [*pattern.finditer("\n".join(rows))]
    for nth, match in enumerate(matches):
        row = bisect_right(starts, match.start()) - 1
        begin = match.start() - starts[row]
        while row < len(rows) and starts[row] < match.end():
            end = min(match.end() - starts[row], len(rows[row]))
            spans.setdefault(row, []).append((begin + GUTTER, end + GUTTER, nth))
            row += 1
            begin = _margin(rows[row]) if row < len(rows) else 0
    return Found(drawing, spans, len(matches))


def is_folded(piece: Piece) -> bool:
    """Whether a piece shows only a line for what it holds."""
    return isinstance(piece, ThinkingPiece) and not piece.is_open


def _margin(row: str) -> int:
    return len(row) - len(row.lstrip(" │|"))
