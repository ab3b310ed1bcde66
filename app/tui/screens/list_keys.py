"""Keys that walk over a list while the search box above it keeps the focus."""

from textual.binding import Binding, BindingType

LIST_KEYS: tuple[BindingType, ...] = (
    Binding("escape", "cancel", show=False),
    Binding("down", "move(1)", show=False, priority=True),
    Binding("up", "move(-1)", show=False, priority=True),
    Binding("pagedown", "move(10)", show=False, priority=True),
    Binding("pageup", "move(-10)", show=False, priority=True),
)
