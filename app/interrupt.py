"""What signals do while an answer is being written: the first one stops it, nothing is lost."""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that ask for the end of the program."""


class StopOnSignal:
    """Inside the block SIGINT, SIGTERM and SIGHUP set ``stop``; a second SIGINT raises at once.

    Main thread only. ``signal`` is the last one that came, None for none.
    """

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.signal: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    @property
    def ends_program(self) -> bool:
        """Whether the signal asks for more than the end of the answer."""
        return self.signal in ENDING

    @property
    def exit_code(self) -> int:
        """128 + signal, or 0 when none came."""
        return 128 + self.signal if self.signal else 0

    def __enter__(self) -> "StopOnSignal":
        for one in (signal.SIGINT, *ENDING):
            self._before[one] = signal.signal(one, self._take)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def _take(self, number: int, _frame: FrameType | None) -> None:
        is_second = self.signal == signal.SIGINT and number == signal.SIGINT
        self.signal = signal.Signals(number)
        self.stop.set()
        if is_second:
            raise KeyboardInterrupt


def exit_on_end_signals() -> Callable[[], None]:
    """Have SIGTERM and SIGHUP raise SystemExit, so that everything open is closed in order.

    Returns:
        A function that puts the handlers back that were there before.
    """
    before = {one: signal.signal(one, _exit) for one in ENDING}

    def restore() -> None:
        for one, handler in before.items():
            signal.signal(one, handler)

    return restore


def _exit(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
