"""The conversation as its reader uses it: a cursor on blocks, folding, copying, selecting."""

from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip

from app.tui.answer import ThinkingPiece
from app.tui.find import Finder
from app.tui.keymap import TRANSCRIPT_BINDINGS
from app.tui.piece_view import PieceView
from app.tui.pieces import GUTTER, FoldingPiece, Piece
from app.tui.theme import Look

FOUND = Style(bold=True, underline=True)
FOUND_NOW = Style(bold=True, reverse=True)


class Transcript(PieceView, can_focus=True):
    """The pieces of a conversation; what the reader wants done goes out as messages."""

    BINDINGS: ClassVar[list[BindingType]] = TRANSCRIPT_BINDINGS

    class CopyRequested(Message):
        """The reader wants the source of a block."""

        def __init__(self, piece: Piece | None) -> None:
            super().__init__()
            self.piece = piece

    class PagerRequested(Message):
        """The reader wants to read a block outside."""

        def __init__(self, piece: Piece | None) -> None:
            super().__init__()
            self.piece = piece

    class CommandWanted(Message):
        """The reader wants a command run on what the cursor is on."""

        def __init__(self, line: str) -> None:
            super().__init__()
            self.line = line

    def __init__(self, look: Look, **options: str) -> None:
        super().__init__(look, **options)
        self._cursor: Piece | None = None
        self._selection: Selection | None = None
        self.finder = Finder()

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
        while 0 <= at < len(pieces) and not self._stops_at(at):
            at += step if self._cursor else -1
        if 0 <= at < len(pieces):
            self._cursor = pieces[at]
            self._show_piece(at)

    def _stops_at(self, at: int) -> bool:
        """Whether the cursor stops at a piece: one without rows would swallow it."""
        tops = self.layout_rows.tops
        return self.pieces[at].is_selectable and tops[at + 1] > tops[at]

    def _show_piece(self, at: int) -> None:
        tops = self.layout_rows.tops
        top, bottom = tops[at], tops[at + 1]
        if top < self.scroll_offset.y:
            self.hold()
            self.scroll_to(y=top, animate=False)
        elif bottom > self.scroll_offset.y + self.size.height:
            self.scroll_to(y=min(top, bottom - self.size.height), animate=False)
        self.refresh()

    def put_cursor(self, message_id: str) -> None:
        """Put the cursor on the first piece of a message, and bring it into view."""
        for at, piece in enumerate(self.pieces):
            if piece.message_id == message_id and piece.is_selectable:
                self._cursor = piece
                self.hold()
                self._show_piece(at)
                return

    def action_command(self, line: str, otherwise: str = "") -> None:
        """Run a command on the message under the cursor; without one, on ``otherwise``."""
        message_id = self._cursor.message_id if self._cursor is not None else ""
        self.post_message(self.CommandWanted(f"{line} {message_id or otherwise}".strip()))

    def action_copy_block(self) -> None:
        """Copy the block under the cursor."""
        self.post_message(self.CopyRequested(self._cursor))

    def action_open_block(self) -> None:
        """Open the block under the cursor in the pager."""
        self.post_message(self.PagerRequested(self._cursor))

    def action_unfold(self) -> None:
        """Fold or unfold the thinking or the file under the cursor."""
        if isinstance(self._cursor, FoldingPiece):
            self._toggle(self._cursor)

    def _toggle(self, piece: FoldingPiece) -> None:
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
        """Put the cursor on a block; fold or unfold it where it can be."""
        row = self.scroll_offset.y + event.y
        if row >= self.layout_rows.num_rows:
            return
        index, _ = self.layout_rows.at_row(row)
        piece = self.pieces[index]
        if piece.is_selectable:
            self._cursor = piece
            self.refresh()
        if isinstance(piece, FoldingPiece):
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
        if self.finder.text:
            strip = self._found(strip, piece, offset)
        return self._selected(strip, row)

    # what a search found

    def reveal(self, piece: Piece, offset: int) -> None:
        """Bring a row of a piece into view."""
        self.hold()
        for _ in range(2):  # drawing what is above may show that its height was guessed wrong
            row = self.layout_rows.tops[self.layout_rows.index_of(piece)] + offset
            top = self.scroll_offset.y
            if not top <= row < top + self.size.height:
                self.scroll_to(y=max(row - self.size.height // 3, 0), animate=False, immediate=True)
            self.settle()
        self.refresh()

    def draw_piece(self, piece: Piece) -> None:
        """Draw a piece now, wherever it is."""
        piece.rows(self.text_width, self.look)
        self.changed(piece)

    def _found(self, strip: Strip, piece: Piece, offset: int) -> Strip:
        current = self.finder.current
        for begin, end, nth in self.finder.spans(piece).get(offset, ()):
            is_current = current is not None and current.piece is piece and current.nth == nth
            style = self.look.notice + (FOUND_NOW if is_current else FOUND)
            strip = _styled(strip, begin, end, style)
        return strip

    # selection with the mouse

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw rows of the view; the selection is looked up once."""
        self._selection = self.text_selection
        return super().render_lines(crop)

    def _selected(self, strip: Strip, row: int) -> Strip:
        selection = self._selection
        span = selection.get_span(row) if selection is not None else None
        if span is None:
            return strip
        style = self.screen.get_component_rich_style("screen--selection")
        return _styled(strip, span[0], len(strip.text) if span[1] < 0 else span[1], style)

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


def _styled(strip: Strip, begin: int, end: int, style: Style) -> Strip:
    """The row with its characters from ``begin`` to ``end`` in another style."""
    text = strip.text
    start, stop = (min(cell_len(text[:at]), strip.cell_length) for at in (begin, end))
    left, middle, right = (strip.crop(*cut) for cut in ((0, start), (start, stop), (stop,)))
    return Strip.join([left, Strip(_restyled(middle, style)), right])


def _restyled(strip: Strip, style: Style) -> list[Segment]:
    return [Segment(one.text, (one.style or Style()) + style) for one in strip]
