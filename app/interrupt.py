"""What signals do: the first one stops an answer, and an end that was asked for always comes.

Nothing is raised where such a signal lands: in a finaliser it would be lost, and in an event loop
it would break what closes the loop. It is kept, and looked at where it can be obeyed.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Any, Self

from app.report import say
from engine.errors import CancelledError

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that ask for the end of the program."""


class _OnSignal:
    """Takes signals inside the block, except what is ignored: nohup is to hold.

    Main thread only. ``signal`` is the one that came, None for none.

    Args:
        numbers: the signals.
    """

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self.signal: signal.Signals | None = None
        self._numbers = numbers
        self._before: dict[signal.Signals, Any] = {}

    @property
    def ends_program(self) -> bool:
        """Whether the signal asks for more than the end of the answer."""
        return self.signal in ENDING

    @property
    def exit_code(self) -> int:
        """128 + signal, or 0 when none came."""
        return 128 + self.signal if self.signal else 0

    def expect_no_end(self) -> None:
        """Raise SystemExit with 128 + signal when the end of the program was asked for."""
        if self.ends_program:
            raise SystemExit(self.exit_code)

    def __enter__(self) -> Self:
        self._before = {
            one: signal.signal(one, self._take)
            for one in self._numbers
            if signal.getsignal(one) is not signal.SIG_IGN
        }
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
        raise NotImplementedError


class StopOnSignal(_OnSignal):
    """Inside the block SIGINT, SIGTERM and SIGHUP set ``stop``; a second SIGINT raises at once.

    ``signal`` is the last one that came, the first that asks for the end of the program, or None.
    An `EndOnSignal` around it learns of an end that is asked for inside; one that was asked for
    before has set ``stop``.

    Raises:
        SystemExit: what was stopped in the block (`CancelledError`) was stopped to end the program.
    """

    def __init__(self) -> None:
        super().__init__((signal.SIGINT, *ENDING))
        self.stop = threading.Event()

    def __enter__(self) -> Self:
        super().__enter__()
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
        super().__exit__(kind, error, trace)
        around = self._around()
        if around is not None and self.signal is not None and self.ends_program:
            around.ask(self.signal)
        if self.ends_program and isinstance(error, CancelledError):
            say(f"{error.title}: {error}")
            raise SystemExit(self.exit_code) from None

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


class EndOnSignal(_OnSignal):
    """Inside the block SIGTERM and SIGHUP ask for the end: whoever waits is woken, and leaves.

    ``signal`` is the last one that came, None for none. It has a file descriptor, which can be read
    from once the end is asked for: who waits for a person waits for that too.
    """

    def __init__(self) -> None:
        super().__init__(ENDING)
        self._woken, self._wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._woken

    def ask(self, number: signal.Signals) -> None:
        """Ask for the end, as the signal does."""
        self.signal = number
        with contextlib.suppress(BlockingIOError):  # asked for thousands of times: it is woken
            os.write(self._wakes, b"!")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        os.close(self._woken)
        os.close(self._wakes)

    def _take(self, number: int, _frame: FrameType | None) -> None:
        self.ask(signal.Signals(number))
