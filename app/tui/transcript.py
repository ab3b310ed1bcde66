"""The conversation as its reader uses it: a cursor on blocks, folding, copying, selecting."""

from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip

from app.tui.answer import ThinkingPiece
from app.tui.keymap import TRANSCRIPT_BINDINGS
from app.tui.piece_view import PieceView
from app.tui.pieces import GUTTER, Piece
from app.tui.theme import Look


class Transcript(PieceView, can_focus=True):
    """The pieces of a conversation; what the reader wants done goes out as messages."""

    BINDINGS: ClassVar[list[BindingType]] = TRANSCRIPT_BINDINGS

    class CopyRequested(Message):
        """The reader wants the source of a block or of the whole answer."""

        def __init__(self, piece: Piece | None, *, whole: bool) -> None:
            super().__init__()
            self.piece = piece
            self.whole = whole

    def __init__(self, look: Look, **options: str) -> None:
        super().__init__(look, **options)
        self._cursor: Piece | None = None

    @property
    def allow_select(self) -> bool:
        """The mouse may select text here."""
        return True

    def reset(self, pieces: list[Piece]) -> None:
        """Show another conversation, without a cursor."""
        self._cursor = None
        super().reset(pieces)

    # the reader's cursor

    @property
    def cursor(self) -> Piece | None:
        """The piece that the reader's cursor is on."""
        return self._cursor

    def action_next_block(self) -> None:
        """Move the cursor to the next block."""
        self._move_cursor(1)

    def action_previous_block(self) -> None:
        """Move the cursor to the block before."""
        self._move_cursor(-1)

    def _move_cursor(self, step: int) -> None:
        pieces = self.pieces
        at = self.layout_rows.index_of(self._cursor) if self._cursor else -1
        at = at + step if at >= 0 else len(pieces) - 1
        while 0 <= at < len(pieces) and not pieces[at].is_selectable:
            at += step if self._cursor else -1
        if 0 <= at < len(pieces):
            self._cursor = pieces[at]
            self._show_piece(at)

    def _show_piece(self, at: int) -> None:
        tops = self.layout_rows.tops
        top, bottom = tops[at], tops[at + 1]
        if top < self.scroll_offset.y:
            self.hold()
            self.scroll_to(y=top, animate=False)
        elif bottom > self.scroll_offset.y + self.size.height:
            self.scroll_to(y=min(top, bottom - self.size.height), animate=False)
        self.refresh()

    def action_copy_block(self) -> None:
        """Copy the block under the cursor."""
        self.post_message(self.CopyRequested(self._cursor, whole=False))

    def action_copy_answer(self) -> None:
        """Copy the whole answer."""
        self.post_message(self.CopyRequested(self._cursor, whole=True))

    def action_unfold(self) -> None:
        """Fold or unfold the thinking under the cursor."""
        if isinstance(self._cursor, ThinkingPiece):
            self._toggle(self._cursor)

    def _toggle(self, piece: ThinkingPiece) -> None:
        self.hold()
        piece.toggle()
        self.changed(piece)
        self.settle()

    def show_thinking(self, mode: str) -> None:
        """Show all thinking in one way."""
        for piece in self.pieces:
            if isinstance(piece, ThinkingPiece) and piece.mode != mode:
                piece.set_mode(mode)
                self.changed(piece)
        self.settle()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on a block; fold or unfold thinking."""
        row = self.scroll_offset.y + event.y
        if row >= self.layout_rows.num_rows:
            return
        index, _ = self.layout_rows.at_row(row)
        piece = self.pieces[index]
        if piece.is_selectable:
            self._cursor = piece
            self.refresh()
        if isinstance(piece, ThinkingPiece):
            self._toggle(piece)

    def on_blur(self) -> None:
        """Take the cursor away with the focus."""
        self._cursor = None
        self.refresh()

    def marked(self, strip: Strip, row: int, piece: Piece, offset: int) -> Strip:
        """The row with the reader's cursor and selection on it."""
        if piece is self._cursor and offset >= piece.gap:
            mark = Segment(self.look.signs.cursor + " ", self.look.accent)
            strip = Strip([mark, *strip.crop(GUTTER)])
        return self._selected(strip, row)

    # selection with the mouse

    def _selected(self, strip: Strip, row: int) -> Strip:
        selection = self.text_selection
        span = selection.get_span(row) if selection is not None else None
        if span is None:
            return strip
        text = strip.text
        start = cell_len(text[: span[0]])
        end = strip.cell_length if span[1] < 0 else cell_len(text[: span[1]])
        start, end = min(start, strip.cell_length), min(end, strip.cell_length)
        style = self.screen.get_component_rich_style("screen--selection")
        left, middle, right = (strip.crop(*cut) for cut in ((0, start), (start, end), (end,)))
        return Strip.join([left, middle.apply_style(style), right])

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection anew."""
        del selection
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected rows as text."""
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else self.layout_rows.num_rows - 1
        texts: list[str] = []
        for row in range(first, min(last, self.layout_rows.num_rows - 1) + 1):
            span = selection.get_span(row)
            index, offset = self.layout_rows.at_row(row)
            rows = self.pieces[index].rows(self.text_width, self.look)
            if span is not None and offset < len(rows):
                text = rows[offset].text
                start = max(span[0], GUTTER)
                texts.append(text[start : None if span[1] < 0 else span[1]].rstrip())
        return "\n".join(texts), "\n"
