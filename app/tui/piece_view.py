"""A scrolling view of pieces: one widget that draws rows, however long the conversation is.

It owns "following": at the end it follows what arrives; a scroll up holds the view where it is,
and End, or scrolling into the last rows, follows again.
"""

import time

from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollTo, ScrollUp
from textual.strip import Strip

from app.tui.layout import Layout
from app.tui.pieces import GUTTER, BlockPiece, Piece
from app.tui.scroll_bar import WholeCells, handle_of
from app.tui.theme import Look

FOLLOW_ROWS = 2
"""Scrolling to within this many rows of the end follows again."""

MAX_TEXT_CELLS = 110
"""Lines longer than this are tiring to read, however wide the terminal is."""


class PieceView(ScrollView):
    """Draws pieces; knows neither sessions nor the engine, and of the reader only the scrolling."""

    class FollowChanged(Message):
        """The view began or ceased to follow the end."""

    def __init__(self, look: Look, **options: str) -> None:
        super().__init__(**options)  # pyright: ignore[reportArgumentType]
        self.look = look
        self.layout_rows = Layout()
        self.is_following = True
        self._is_own_scroll = False
        self._uncoloured: list[BlockPiece] = []
        self._base = Style()
        self._row_width = self._width = 80
        self._handle: tuple[int, tuple[int, int]] = (0, (0, 0))
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
        self._place(self._top_row(anchor))
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
        last = self._last_top
        if anchor is None:
            return last
        index = max(self.layout_rows.index_of(anchor[0]), 0)
        tops = self.layout_rows.tops
        offset = min(anchor[1], max(tops[index + 1] - tops[index] - 1, 0))
        return min(tops[index] + offset, last)

    def _place(self, row: int) -> None:
        self._is_own_scroll = True
        try:
            self._grow_to(Size(self.text_width, self.layout_rows.num_rows))
            if row != self.scroll_offset.y:
                self.scroll_to(y=row, animate=False, force=True, immediate=True)
        finally:
            self._is_own_scroll = False

    def _grow_to(self, size: Size) -> None:
        """Take another size without a new layout of the screen, which costs 20 ms a paint.

        Nothing but the handle of the scroll bar depends on it: the bar itself always has its
        column (``overflow-y: scroll``).
        """
        if size == self.virtual_size:
            return
        self.set_reactive(PieceView.virtual_size, size)  # pyright: ignore[reportArgumentType]
        self._move_bar()

    def _move_bar(self) -> None:
        """Bring the scroll bar in line, once its handle is in another place."""
        bar, rows, window = self.vertical_scrollbar, self.virtual_size.height, self.size.height
        handle = (window, handle_of(rows, window, self.scroll_offset.y, window))
        if handle != self._handle and self.show_vertical_scrollbar:
            self._handle = handle
            bar.window_virtual_size, bar.window_size = rows, window
            bar.position = self.scroll_offset.y

    def on_mount(self) -> None:
        """Draw the handle of the scroll bar on whole cells."""
        super().on_mount()
        self.vertical_scrollbar.renderer = WholeCells  # pyright: ignore[reportAttributeAccessIssue]

    def on_resize(self, event: events.Resize) -> None:
        """Wrap again: what is visible at once, the rest when it is looked at."""
        del event
        self._stale(0)
        self.settle()

    # following

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow again near the end; draw what came into view.

        Textual also lowers the position by itself when rows go away or the terminal changes, so
        a lower position alone is no wish to hold: the keys, the wheel and the bar say that.
        """
        self._move_bar()
        if round(old_value) != round(new_value):
            self.refresh(self.size.region)
        if self._is_own_scroll:
            return
        last = self.layout_rows.num_rows - self.size.height
        if new_value >= last - FOLLOW_ROWS and new_value >= old_value:
            self._follow(True)
        if self.layout_rows.draw(round(new_value), self.size.height):
            self.call_later(self.settle)

    def _follow(self, on: bool) -> None:
        if self.is_following != on:
            self.is_following = on
            self.post_message(self.FollowChanged())

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Hold at the first tick upwards, before anything that arrives can scroll away."""
        del event
        self._follow(self.layout_rows.num_rows <= self.size.height)

    def on_scroll_to(self, event: ScrollTo) -> None:
        """Hold when the bar is dragged upwards."""
        if event.y is not None and event.y < self.scroll_offset.y:
            self.hold()

    def on_scroll_up(self, event: ScrollUp) -> None:
        """Hold when the bar is clicked above its handle."""
        del event
        self.hold()

    def hold(self) -> None:
        """Stop following."""
        self._follow(self.layout_rows.num_rows <= self.size.height)

    def follow_at_end(self) -> None:
        """Follow if the end is in view."""
        self._follow(self.scroll_offset.y >= self._last_top - FOLLOW_ROWS)

    @property
    def _last_top(self) -> int:
        """The top row of the view when its end is shown."""
        return max(self.layout_rows.num_rows - self.size.height, 0)

    def follow(self) -> None:
        """Go to the end and stay there."""
        self._follow(True)
        self.settle()

    def action_scroll_up(self) -> None:
        """Scroll up by a row, and hold."""
        self.hold()
        self.scroll_relative(y=-1, animate=False)

    def action_scroll_down(self) -> None:
        """Scroll down by a row."""
        self.scroll_relative(y=1, animate=False)

    def action_page_up(self) -> None:
        """Scroll up by a page, and hold."""
        self.hold()
        self.scroll_relative(y=-max(self.size.height - 2, 1), animate=False)

    def action_page_down(self) -> None:
        """Scroll down by a page."""
        self.scroll_relative(y=max(self.size.height - 2, 1), animate=False)

    def action_scroll_home(self) -> None:
        """Go to the beginning, and hold."""
        self.hold()
        self.scroll_to(y=0, animate=False)

    def action_scroll_end(self) -> None:
        """Go to the end, and follow."""
        self.follow()

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
