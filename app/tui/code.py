"""Code blocks: a light frame, folded rows, and colour that arrives in small slices of time.

Colour never changes a row's geometry, so a block is drawn plain at once and coloured while the
screen is idle; nothing moves when the colour comes.
"""

from collections.abc import Iterator
from functools import lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]
from pygments.util import ClassNotFound
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from app.tui.theme import Look
from app.tui.wrap import TAB, clip, fold

ROWS_PER_SLICE = 8


@lru_cache(64)
def find_lexer(language: str) -> Lexer | None:
    """The lexer for the word after a fence, or None when there is none."""
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False) if language else None
    except ClassNotFound:
        return None


def frame_top(language: str, width: int, look: Look) -> Strip:
    """The row above a code block: its language at the left."""
    signs = look.signs
    label = f" {clip(language, max(width - 8, 4))} " if language else ""
    rest = max(width - len(label) - 2, 0)
    return Strip([
        Segment(signs.corner_top + signs.rule, look.code_frame),
        Segment(label, look.dim),
        Segment(signs.rule * rest, look.code_frame),
    ])  # fmt: skip


def frame_bottom(width: int, look: Look) -> Strip:
    """The row below a code block."""
    signs = look.signs
    return Strip([Segment(signs.corner_bottom + signs.rule * max(width - 1, 0), look.code_frame)])


def code_row(segments: list[Segment], look: Look) -> Strip:
    """One row of code behind the frame's side."""
    return Strip([Segment(look.signs.side + " ", look.code_frame), *segments])


def code_width(width: int) -> int:
    """Cells that are left for code inside the frame."""
    return max(width - 2, 2)


class CodeDrawing:
    """The rows of one code block at one width, plain at first; ``colour`` goes on in slices."""

    def __init__(self, code: str, language: str, width: int, look: Look) -> None:
        self._look = look
        self._folded = [fold(line, code_width(width)) for line in code.split("\n")]
        plain = [code_row([Segment(row, look.code)], look) for rows in self._folded for row in rows]
        self.strips = [frame_top(language, width, look), *plain, frame_bottom(width, look)]
        lexer = find_lexer(language)
        self._slices = self._colour(lexer, code) if lexer else None

    @property
    def is_coloured(self) -> bool:
        """Whether nothing is left to do."""
        return self._slices is None

    def colour_more(self) -> range:
        """Colour a few more rows; returns which."""
        rows = next(self._slices, None) if self._slices is not None else None
        if rows is None:
            self._slices = None
        return rows or range(0)

    def _colour(self, lexer: Lexer, code: str) -> Iterator[range]:
        first = at = 1
        styled = _styled_lines(lexer, code, self._look)
        for num_before, (rows, runs) in enumerate(zip(self._folded, styled, strict=False)):
            for offset, segments in enumerate(_cut_runs(runs, rows)):
                self.strips[at + offset] = code_row(segments, self._look)
            at += len(rows)
            if num_before % ROWS_PER_SLICE == ROWS_PER_SLICE - 1:
                yield range(first, at)
                first = at
        yield range(first, at)


def _styled_lines(lexer: Lexer, code: str, look: Look) -> Iterator[list[tuple[str, Style]]]:
    line: list[tuple[str, Style]] = []
    for token, text in lexer.get_tokens(code):
        style = style_of(token, look)
        first, *others = text.split("\n")
        line.append((first, style))
        for part in others:
            yield line
            line = [(part, style)]
    yield line


def _cut_runs(runs: list[tuple[str, Style]], rows: list[str]) -> Iterator[list[Segment]]:
    """Share styled runs out over folded rows; the rows decide, so the geometry cannot change."""
    text = "".join(part for part, _ in runs).replace("\t", TAB)
    if text != "".join(rows):  # a lexer that changes its input may not change the code
        yield from ([Segment(row)] for row in rows)
        return
    pending = [(part.replace("\t", TAB), style) for part, style in runs if part]
    pending.reverse()
    for row in rows:
        segments: list[Segment] = []
        room = len(row)
        while room and pending:
            part, style = pending.pop()
            segments.append(Segment(part[:room], style))
            if len(part) > room:
                pending.append((part[room:], style))
            room -= min(len(part), room)
        yield segments


_styles: dict[tuple[str, bool, object], Style] = {}


def style_of(token: object, look: Look) -> Style:
    """The style of a token type: that of its nearest named ancestor."""
    key = (look.name, look.signs.rule == "-", token)
    if key not in _styles:
        name = str(token)
        found = (style for prefix, style in look.syntax if name.startswith(prefix))
        _styles[key] = next(found, look.code)
    return _styles[key]
