"""A scrolling view of pieces: one widget that draws rows, however long the conversation is."""

import time

from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.strip import Strip

from app.tui.following import FollowingView
from app.tui.layout import Layout
from app.tui.pieces import GUTTER, BlockPiece, Piece
from app.tui.theme import Look

MAX_TEXT_CELLS = 110
"""Lines longer than this are tiring to read, however wide the terminal is."""


class PieceView(FollowingView):
    """Draws pieces; knows neither sessions nor the engine, and of the reader only the scrolling."""

    def __init__(self, look: Look, **options: str) -> None:
        super().__init__(**options)
        self.look = look
        self.layout_rows = Layout()
        self._uncoloured: list[BlockPiece] = []
        self._base = Style()
        self._row_width = self._width = 80
        self._blank: tuple[tuple[int, Style], Strip] | None = None
        self._stale_from: int | None = 0
        """First piece that may look different from the screen; None when the screen is right."""

    # what is shown

    @property
    def pieces(self) -> list[Piece]:
        """Everything shown, top to bottom."""
        return self.layout_rows.pieces

    def reset(self, pieces: list[Piece]) -> None:
        """Show another conversation, at its end."""
        self._uncoloured.clear()
        self.layout_rows.splice(0, len(self.pieces), pieces)
        self._stale(0)
        self.is_following = True
        self.settle()

    def append(self, *pieces: Piece) -> None:
        """Add pieces at the end."""
        self._stale(len(self.pieces))
        self.layout_rows.splice(len(self.pieces), 0, list(pieces))
        self.settle()

    def insert_before(self, piece: Piece, *fresh: Piece) -> None:
        """Add pieces above one that is shown."""
        at = self.layout_rows.index_of(piece)
        at = at if at >= 0 else len(self.pieces)
        self._stale(at)
        self.layout_rows.splice(at, 0, list(fresh))

    def take_away(self, piece: Piece) -> None:
        """Take a piece away."""
        at = self.layout_rows.index_of(piece)
        if at >= 0:
            self._stale(at)
            self.layout_rows.splice(at, 1, [])

    def changed(self, piece: Piece) -> None:
        """Note that a piece has other rows than before."""
        at = max(self.layout_rows.index_of(piece), 0)
        self._stale(at)
        self.layout_rows.changed(at)

    def set_look(self, look: Look) -> None:
        """Draw with other colours or signs."""
        self.look = look
        self._stale(0)
        self.settle()

    # geometry

    @property
    def text_width(self) -> int:
        """Cells of a row, with its gutter."""
        return max(min(self.scrollable_content_region.width - 1, MAX_TEXT_CELLS + GUTTER), 8)

    @property
    def num_rows(self) -> int:
        """Rows of all pieces."""
        return self.layout_rows.num_rows

    def settle(self) -> None:
        """Bring heights, scroll position and screen in line after any change."""
        if not self.size.width or not self.is_attached:
            return
        rows = self.layout_rows
        anchor = self._held()
        rows.use(self.text_width, self.look)
        for _ in range(8):
            top = self._top_row(anchor)
            if not rows.draw(top, self.size.height):
                break
            self._stale(0)
        before = self.scroll_offset.y
        self.place(self._top_row(anchor), Size(self.text_width, rows.num_rows))
        self._refresh_stale(has_moved=before != self.scroll_offset.y)

    def _refresh_stale(self, *, has_moved: bool) -> None:
        """Draw again what is different: all of the view when it moved, else from a piece on."""
        index, self._stale_from = self._stale_from, None
        if has_moved or index == 0:
            self.refresh()
        elif index is not None:
            top = self.layout_rows.tops[min(index, len(self.pieces))] - self.scroll_offset.y
            top = min(max(top, 0), self.size.height)
            self.refresh(Region(0, top, self.size.width, self.size.height - top))

    def _stale(self, index: int) -> None:
        known = self._stale_from
        self._stale_from = index if known is None else min(index, known)

    def _held(self) -> tuple[Piece, int] | None:
        """What stands at the top of the view and has to stay there."""
        if self.is_following or not self.pieces:
            return None
        index, offset = self.layout_rows.at_row(self.scroll_offset.y)
        return self.pieces[index], offset

    def _top_row(self, anchor: tuple[Piece, int] | None) -> int:
        last = self.last_top
        if anchor is None:
            return last
        index = max(self.layout_rows.index_of(anchor[0]), 0)
        tops = self.layout_rows.tops
        offset = min(anchor[1], max(tops[index + 1] - tops[index] - 1, 0))
        return min(tops[index] + offset, last)

    def on_resize(self, event: events.Resize) -> None:
        """Wrap again: what is visible at once, the rest when it is looked at."""
        del event
        self._stale(0)
        self.settle()

    def scrolled_to(self, row: int) -> None:
        """Draw what came into view."""
        if self.layout_rows.draw(row, self.size.height):
            self.call_later(self.settle)

    # drawing

    def work(self, seconds: float) -> None:
        """Colour code that is in view, for a bounded time."""
        deadline = time.perf_counter() + seconds
        while self._uncoloured and time.perf_counter() < deadline:
            piece = self._uncoloured[-1]
            if piece.is_coloured:
                self._uncoloured.pop()
                continue
            piece.colour_more(self.look)
            self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw rows of the view; what all of them share is looked up once.

        Not through the library's cache of lines, which makes every row anew when the view moves: a
        strip remembers what was made of it, down to the bytes for the terminal, so a row that only
        moves costs next to nothing.
        """
        self._base = base = self.rich_style
        self._row_width = self.text_width
        if self._blank is None or self._blank[0] != (self.size.width, base):
            self._blank = (self.size.width, base), Strip.blank(self.size.width, base)
        self._width = self.size.width
        filters, background = self.get_line_filters(), self.background_colors[1]
        top = self.scroll_offset.y
        strips: list[Strip] = []
        for y in crop.line_range:
            strip = self._row(top + y)
            for one in filters:
                strip = strip.apply_filter(one, background)
            strips.append(strip)
        span = crop.column_span
        return strips if span == (0, self.size.width) else [one.crop(*span) for one in strips]

    def render_line(self, y: int) -> Strip:
        """One row of the view, as the library asks for what a click was on."""
        return self._row(self.scroll_offset.y + y)

    def _row(self, row: int) -> Strip:
        """Draw one row of what there is."""
        width, base = self._width, self._base
        if row >= self.layout_rows.num_rows and self._blank is not None:
            return self._blank[1]
        index, offset = self.layout_rows.at_row(row)
        piece = self.pieces[index]
        was_drawn = piece.is_drawn(self._row_width, self.look)
        rows = piece.rows(self._row_width, self.look)
        if isinstance(piece, BlockPiece) and (not was_drawn or not piece.is_coloured):
            self._queue_colour(piece)
        strip = rows[offset] if offset < len(rows) else Strip.blank(width)
        strip = self.marked(strip, row, piece, offset)
        strip = strip.crop_extend(0, width, base).apply_style(base)
        return strip.apply_offsets(0, row)

    def _queue_colour(self, piece: BlockPiece) -> None:
        if not piece.is_coloured and piece not in self._uncoloured:
            self._uncoloured.append(piece)

    def marked(self, strip: Strip, row: int, piece: Piece, offset: int) -> Strip:
        """The row with what the reader put on it: a cursor, a selection."""
        del row, piece, offset
        return strip
