"""An answer on its way: thinking, finished blocks, and a plain tail for what is still arriving."""

from rich.segment import Segment
from textual.strip import Strip

from app.blocks import Block, BlockCutter, cut
from app.tui.code import code_row, code_width, frame_top
from app.tui.pieces import GUTTER, BlockPiece, Drawing, FoldingPiece, Piece
from app.tui.theme import Look
from app.tui.wrap import GrowingText, fold_text
from app.visible import visible

LIVE_THINKING_ROWS = 6
"""Rows of thinking that are shown while it streams; the rest is one key away."""

MARGIN = Segment(" " * GUTTER)

THINKING_MODES = {
    "live": "thinking is shown while it goes on",
    "open": "thinking is shown in full",
    "folded": "thinking is folded to a line",
    "hidden": "thinking is hidden",
}
"""How thinking is shown, in the order that the key walks through, and what is said of it.

Behind ``live``, the default, comes ``open``: the key shows what was thought at its first press.
"""


class ThinkingPiece(FoldingPiece):
    """What the model thought before it answered: live, folded to a line, open, or hidden."""

    def __init__(self, mode: str, text: str = "", seconds: float = 0.0) -> None:
        super().__init__()
        self.mode = mode
        self.is_streaming = False
        self.seconds = seconds
        self._text = [visible(text)] if text else []
        self._growing: GrowingText | None = None
        self._num_fed = 0

    @property
    def source(self) -> str:
        """What was written."""
        if len(self._text) > 1:
            self._text = ["".join(self._text)]
        return self._text[0] if self._text else ""

    def feed(self, text: str) -> None:
        """Take more thinking."""
        self._text.append(text)
        self.forget()

    def set_mode(self, mode: str) -> None:
        """Show it another way."""
        self.mode = mode
        self.forget()

    def toggle(self) -> None:
        """Unfold or fold this one."""
        self.set_mode("folded" if self.is_open else "open")

    @property
    def is_open(self) -> bool:
        """Whether more than its title is shown."""
        return self.mode == "open" or (self.mode == "live" and self.is_streaming)

    def estimate(self, width: int) -> int:
        """A guess at the number of rows."""
        if self.mode == "hidden" or not self.source:
            return 0
        return super().estimate(width) + 1 if self.mode == "open" else 1

    def _draw(self, width: int, look: Look) -> list[Strip]:
        if self.mode == "hidden" or not self.source.strip():
            return []
        signs = look.signs
        sign = signs.unfolded if self.is_open else signs.folded
        title = Strip([Segment(f"{sign} {self._title(signs.dot)}", look.dim)])
        if not self.is_open:
            return [title]
        rows = self._tail_rows(width - 2) if self.mode == "live" else self._all_rows(width - 2)
        style = look.dim + look.rich_theme().styles["markdown.em"]
        body = [Strip([Segment(signs.side + " ", look.faint), Segment(row, style)]) for row in rows]
        return [title, *body]

    def _all_rows(self, width: int) -> list[str]:
        """Rows of everything; while it streams only what is new is folded."""
        if self._growing is None or self._growing.width != width:
            self._growing, self._num_fed = GrowingText(width), 0
        text, growing = self.source, self._growing
        fresh, self._num_fed = text[self._num_fed :], len(text)
        growing.feed(fresh.lstrip("\n") if growing.rows == [""] else fresh)
        end = len(growing.rows)
        while end > 1 and not growing.rows[end - 1]:
            end -= 1
        return growing.rows[:end]

    def _tail_rows(self, width: int) -> list[str]:
        # enough of the end to fill the rows, so that a long thought costs no more than a short one
        tail = self.source.strip("\n")[-width * (LIVE_THINKING_ROWS + 2) :]
        return fold_text(tail, width)[-LIVE_THINKING_ROWS:]

    def _title(self, dot: str) -> str:
        words = len(self.source.split())
        verb = "thinking" if self.is_streaming else "thought"
        time = f" {self.seconds:.1f} s" if self.seconds else ""
        key = "Ctrl+T" if self.mode == "live" else "a click"
        hint = "" if self.is_open else f" {dot} {key} shows it"
        return f"{verb}{time} {dot} {words} words{hint}"


class TailPiece(Piece):
    """The block that is still arriving, as light plain text whose rows only grow."""

    is_selectable = False

    def __init__(self, *, has_caret: bool = True) -> None:
        super().__init__()
        self.cutter = BlockCutter()
        self.has_caret = has_caret
        self._num_lines = 0
        self._growing: GrowingText | None = None
        self._fed_partial = ""
        self._in_code = False
        self._strips: list[Strip] = []
        self._strips_look: Look | None = None

    def feed(self, text: str) -> list[Block]:
        """Take more text; returns the blocks that it finished."""
        sealed = self.cutter.feed(text)
        if sealed or self.cutter.in_code != self._in_code:
            self._start_over()
        self._in_code = self.cutter.in_code
        self.forget()
        return sealed

    def _start_over(self) -> None:
        self._num_lines = 0
        self._fed_partial = ""
        self._growing = None
        self._strips = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing is waiting to be finished."""
        return not self.cutter.open_lines and not self.cutter.shown_partial

    def height(self, width: int, look: Look) -> int:
        """The number of rows."""
        return len(self.rows(width, look))

    def rows(self, width: int, look: Look) -> list[Strip]:
        """The rows, only what is new is folded."""
        if self.drawing is not None and self.is_drawn(width, look):
            return self.drawing.rows
        if self.is_empty:
            caret = [Strip([Segment("  "), Segment(look.signs.caret, look.assistant)])]
            rows = [Strip([Segment("  ")]), *caret] if self.has_caret else []
        else:
            rows = self._text_rows(width - 2, look)
        self.drawing = Drawing(width, look, rows)
        return rows

    def _text_rows(self, width: int, look: Look) -> list[Strip]:
        room = code_width(width) if self._in_code else width
        texts = self._grow(room)
        rows = [Strip([MARGIN])] * self.gap
        if self._in_code:
            language = Block("code", self.cutter.open_lines[0]).language
            rows.append(Strip([MARGIN, *frame_top(language, width, look)]))
        if self._strips_look is not look:
            self._strips, self._strips_look = [], look
        done = self._strips
        done += [self._row(text, look) for text in texts[len(done) : -1]]
        rows += [*done, self._row(texts[-1], look)]
        if self.has_caret:
            rows[-1] = Strip([*rows[-1], Segment(look.signs.caret, look.assistant)])
        return rows

    def _row(self, text: str, look: Look) -> Strip:
        if self._in_code:
            return Strip([MARGIN, *code_row([Segment(text, look.code)], look)])
        return Strip([MARGIN, Segment(text, look.text)])

    def _grow(self, room: int) -> list[str]:
        """The folded rows; only lines that came since the last call are folded."""
        if self._growing is None or self._growing.width != room:
            self._start_over()
            self._growing = GrowingText(room)
        growing = self._growing
        first = 1 if self._in_code else 0
        lines = self.cutter.open_lines
        for line in lines[max(self._num_lines, first) :]:
            growing.feed(line.removeprefix(self._fed_partial) + "\n")
            self._fed_partial = ""
        self._num_lines = len(lines)
        partial = self.cutter.shown_partial
        growing.feed(partial.removeprefix(self._fed_partial))
        self._fed_partial = partial
        return growing.rows if growing.rows[-1] or len(growing.rows) == 1 else growing.rows[:-1]


def finished_pieces(text: str, *, first_gap: int) -> list[BlockPiece]:
    """The pieces of a complete answer, drawn from its source."""
    blocks = cut(visible(text))
    return [BlockPiece(block, gap=1 if at else first_gap) for at, block in enumerate(blocks)]
