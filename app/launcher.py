"""A small parent that outlives the screen and leaves the terminal as it was.

A program that is killed cannot restore its terminal. So the command forks before anything heavy is
imported: the child is the app, the parent only waits, passes signals and the exit code on, and
cleans up after every way of dying that the child could not handle.
"""

import contextlib
import ctypes
import math
import os
import signal
import sys
import termios
import time
from collections.abc import Callable
from typing import Any

from app.interrupt import ENDING
from app.own_command import own_command
from app.report import say

RESET = (
    "\x1b\\"  # ends a string that was cut in the middle
    "\x1b[?2026l"  # synchronised output off: what follows is drawn
    "\x1b[<u\x1b[>4m"  # kitty keyboard popped, modifyOtherKeys back to its default
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # mouse
    "\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[?2031l"  # focus, bracketed paste, resize, theme reports
    "\x1b[?1049l"  # the normal screen
    "\x1b[23;2t"  # the title that was kept
    "\x1b[0m\x1b(B\x1b[?7h\x1b[?25h\r"  # plain style and letters, wrapping, a cursor
)
"""Undoes every mode that a full-screen program of ours may have set."""

_WATCHED = (
    *(signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    signal.SIGWINCH,
)
_FROM_KERNEL = 0x80
"""``si_code`` of a signal that the terminal sent: the whole foreground group has it already."""

GRACE_S = 15.0
"""Seconds that the child has to end after it was asked to, which may wait for a round itself
(`app.tui.worker.CLOSE_SECONDS`): one that waits for a terminal that is gone would hold the
conversation's lock, and a core, for ever."""

LOOK_S = 2.0
"""Seconds between two looks whether the terminal is there: the kernel tells the leader of its
session alone that it is gone, and a leader that goes on tells nobody."""

_PR_SET_PDEATHSIG = 1


def supervise(run: Callable[[], int]) -> int:
    """Run the app in a child and return its exit code, 128 + signal when a signal ended it.

    Returns twice, as fork does: in the child with what ``run`` returned, in the parent with how
    the child ended.
    """
    terminal = _Terminal()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _end_with(parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return run()
    status = _wait(pid, terminal)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if os.WIFSIGNALED(status):
        terminal.restore()
        ended_by = signal.Signals(os.WTERMSIG(status))
        say(
            f"The chat was ended by {ended_by.name}. The conversation is saved; "
            f"'{own_command()} chat --resume' goes on with it."
        )
        return 128 + ended_by
    if terminal.is_changed():
        terminal.restore()
    return os.waitstatus_to_exitcode(status)


def _wait(pid: int, terminal: "_Terminal") -> int:
    """Wait for the child's end; passes signals on, and ends it where the terminal is gone."""
    deadline = math.inf
    while True:
        got = _next_signal(min(deadline, time.monotonic() + LOOK_S))
        if got is None:
            if time.monotonic() >= deadline:
                os.kill(pid, signal.SIGKILL)
                deadline = math.inf
            elif deadline == math.inf and terminal.is_gone():
                os.kill(pid, signal.SIGHUP)
                deadline = time.monotonic() + GRACE_S
            continue
        if got.si_signo != signal.SIGCHLD:
            # of a hang-up the kernel tells the leader of the session alone
            if got.si_code != _FROM_KERNEL or got.si_signo == signal.SIGHUP:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, got.si_signo)
            if got.si_signo in ENDING:
                deadline = min(deadline, time.monotonic() + GRACE_S)
            continue
        if (status := _status(pid)) is not None:
            return status


def _status(pid: int) -> int | None:
    """How the child ended, if it did; stops with it, and continues with it."""
    # Signals of one kind are not counted, so a SIGCHLD may stand for a stop and an end.
    while True:
        found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if found == 0:
            return None
        if not os.WIFSTOPPED(status):
            return status
        os.kill(os.getpid(), signal.SIGSTOP)  # the shell sees the job stopped
        os.kill(pid, signal.SIGCONT)


def _next_signal(deadline: float) -> signal.struct_siginfo | None:
    """The next watched signal; None when ``deadline`` (monotonic seconds) passes before it."""
    return signal.sigtimedwait(_WATCHED, max(deadline - time.monotonic(), 0.0))


class _Terminal:
    """The terminal as it was at the start; nothing to do when there is none."""

    def __init__(self) -> None:
        self._fd = next((fd for fd in (0, 1, 2) if _is_terminal(fd)), -1)
        self._modes: list[Any] = termios.tcgetattr(self._fd) if self._fd >= 0 else []

    def is_gone(self) -> bool:
        """Whether there was one, and is none any more."""
        return self._fd >= 0 and self._present() is None

    def is_changed(self) -> bool:
        """Whether it is there, in other modes."""
        return self._fd >= 0 and self._present() not in (None, self._modes)

    def _present(self) -> list[Any] | None:
        try:
            return termios.tcgetattr(self._fd)
        except termios.error:
            return None

    def restore(self) -> None:
        """Bring back its modes, and undo what a screen set."""
        if self._fd < 0:
            return
        # A parent in the background may not be stopped for setting the modes.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
        with contextlib.suppress(OSError, termios.error):
            # TCSAFLUSH drops what was typed at, or answered to, the dead screen.
            termios.tcsetattr(self._fd, termios.TCSAFLUSH, self._modes)
        for fd in (2, 1):
            if _is_terminal(fd):
                with contextlib.suppress(OSError):
                    os.write(fd, RESET.encode())
                return


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def _end_with(parent: int) -> None:
    """Have the kernel end this process when its parent dies, so that no orphan holds the tty."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)
