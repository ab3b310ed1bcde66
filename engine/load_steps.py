"""Tell how far a load is, also when its bytes are there and it goes on."""

from collections.abc import Callable
from dataclasses import replace

from engine.types import LoadProgressed


class LoadSteps:
    """Hands each step of a load on, and repeats the last one under another name.

    Args:
        on_progress: takes the steps; None nobody does.
    """

    def __init__(self, on_progress: Callable[[LoadProgressed], None] | None) -> None:
        self._on_progress = on_progress
        self._last: LoadProgressed | None = None

    def __call__(self, step: LoadProgressed) -> None:
        """Weights arrived."""
        self._last = step
        if self._on_progress is not None:
            self._on_progress(step)

    def go_on(self, what: str) -> None:
        """All weights are there, and what is done now takes a while; in words."""
        if self._last is not None:
            self(replace(self._last, file=what))
