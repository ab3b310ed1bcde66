"""What signals do: the first one stops an answer, and an end that was asked for always comes.

Nothing is raised where such a signal lands: in a finaliser it would be lost, and in an event loop
it would break what closes the loop. It is kept, and looked at where it can be obeyed.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import Any

from app.report import say
from engine.errors import CancelledError

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that ask for the end of the program."""


def _taken(
    numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> dict[signal.Signals, Any]:
    """Have ``handler`` take signals, except what is ignored: nohup is to hold.

    Returns:
        The handlers that were there before.
    """
    return {
        one: signal.signal(one, handler)
        for one in numbers
        if signal.getsignal(one) is not signal.SIG_IGN
    }


class StopOnSignal:
    """Inside the block SIGINT, SIGTERM and SIGHUP set ``stop``; a second SIGINT raises at once.

    Main thread only. ``signal`` is the last one that came, the first that asks for the end of the
    program, or None. An `EndOnSignal` around it learns of an end that is asked for inside; one that
    was asked for before has set ``stop``.

    Raises:
        SystemExit: what was stopped in the block (`CancelledError`) was stopped to end the program.
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
        self._before = _taken((signal.SIGINT, *ENDING), self._take)
        around = self._around()
        if around is not None and around.signal is not None:
            self._take(around.signal, None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)
        around = self._around()
        if around is not None and self.signal is not None and self.ends_program:
            around.ask(self.signal)
        if self.ends_program and isinstance(error, CancelledError):
            say(f"{error.title}: {error}")
            raise SystemExit(self.exit_code) from None

    def expect_no_end(self) -> None:
        """Raise SystemExit when the end of the program was asked for; behind the block."""
        if self.ends_program:
            raise SystemExit(self.exit_code)

    def _around(self) -> "EndOnSignal | None":
        owners = (getattr(one, "__self__", None) for one in self._before.values())
        return next((one for one in owners if isinstance(one, EndOnSignal)), None)

    def _take(self, number: int, _frame: FrameType | None) -> None:
        is_first = self.signal is None
        is_break_again = self.signal == number == signal.SIGINT
        if not self.ends_program:  # no Ctrl-C takes that back
            self.signal = signal.Signals(number)
        if is_first:  # a signal inside this very call would wait for the event's own lock
            self.stop.set()
        if is_break_again:
            raise KeyboardInterrupt


class EndOnSignal:
    """Inside the block SIGTERM and SIGHUP ask for the end: whoever waits is woken, and leaves.

    Main thread only. ``signal`` is the last one that came, None for none. It has a file descriptor,
    which can be read from once the end is asked for: who waits for a person waits for that too.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}
        self._woken, self._wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._woken

    def ask(self, number: signal.Signals) -> None:
        """Ask for the end, as the signal does."""
        self.signal = number
        with contextlib.suppress(BlockingIOError):  # asked for thousands of times: it is woken
            os.write(self._wakes, b"!")

    def expect_none(self) -> None:
        """Raise SystemExit with 128 + signal when the end was asked for."""
        if self.signal is not None:
            raise SystemExit(128 + self.signal)

    def __enter__(self) -> "EndOnSignal":
        self._before = _taken(ENDING, self._take)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)
        os.close(self._woken)
        os.close(self._wakes)

    def _take(self, number: int, _frame: FrameType | None) -> None:
        self.ask(signal.Signals(number))
