"""A scrolling view that follows its end, until the reader scrolls up to look at something.

A scroll up holds the view where it is; End, or scrolling into the last rows, follows again. Knows
how many rows there are, and not what stands in them.
"""

from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollTo, ScrollUp

from app.tui.scroll_bar import WholeCells, handle_of

FOLLOW_ROWS = 2
"""Scrolling to within this many rows of the end follows again."""


class FollowingView(ScrollView):
    """What is drawn and how many rows it has is for the class below."""

    def __init__(self, **options: str) -> None:
        super().__init__(**options)  # pyright: ignore[reportArgumentType]
        self.is_following = True
        self._is_own_scroll = False
        self._handle: tuple[int, tuple[int, int]] = (0, (0, 0))

    @property
    def num_rows(self) -> int:
        """Rows that there are."""
        raise NotImplementedError

    def settle(self) -> None:
        """Bring heights, scroll position and screen in line after any change."""
        raise NotImplementedError

    def scrolled_to(self, row: int) -> None:
        """The reader brought ``row`` to the top of the view."""
        raise NotImplementedError

    # where the view stands

    def place(self, row: int, size: Size) -> None:
        """Show ``row`` at the top of a view of what has another size now."""
        self._is_own_scroll = True
        try:
            self._grow_to(size)
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
        self.set_reactive(FollowingView.virtual_size, size)  # pyright: ignore[reportArgumentType]
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

    # following

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow again near the end.

        Textual also lowers the position by itself when rows go away or the terminal changes, so
        a lower position alone is no wish to hold: the keys, the wheel and the bar say that.
        """
        self._move_bar()
        if round(old_value) != round(new_value):
            self.refresh(self.size.region)
        if self._is_own_scroll:
            return
        if new_value >= self.last_top - FOLLOW_ROWS and new_value >= old_value:
            self.is_following = True
        self.scrolled_to(round(new_value))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Hold at the first tick upwards, before anything that arrives can scroll away."""
        del event
        self.hold()

    def on_scroll_to(self, event: ScrollTo) -> None:
        """Hold when the bar is dragged upwards."""
        if event.y is not None and event.y < self.scroll_offset.y:
            self.hold()

    def on_scroll_up(self, event: ScrollUp) -> None:
        """Hold when the bar is clicked above its handle."""
        del event
        self.hold()

    def hold(self) -> None:
        """Stop following, unless everything is in view."""
        self.is_following = self.num_rows <= self.size.height

    def follow_at_end(self) -> None:
        """Follow if the end is in view."""
        self.is_following = self.scroll_offset.y >= self.last_top - FOLLOW_ROWS

    @property
    def last_top(self) -> int:
        """The top row of the view when its end is shown."""
        return max(self.num_rows - self.size.height, 0)

    def follow(self) -> None:
        """Go to the end and stay there."""
        self.is_following = True
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
