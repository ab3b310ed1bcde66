"""The terminal of a screen that was stopped and goes on: taken up again once, and drawn whole."""

import asyncio
import contextlib
import signal
import termios
from typing import Any

from textual.app import App

from app.tui.paced import PacedDriver


class StoppableDriver(PacedDriver):
    """The library's driver, but for what it does when the program goes on.

    A shell tells both the launcher and the screen to go on, and the launcher tells the screen as
    well. The library takes the terminal up at each word, with one more thread that reads keys each
    time, and draws only what changes afterwards.
    """

    def __init__(
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]  App is generic
            app, debug=debug, mouse=mouse, size=size
        )
        self._modes_here: list[Any] | None = None
        """The terminal's while the screen is up, empty while it is not, None before its start."""
        # in the loop: a signal handler may be entered again before it is through
        asyncio.get_running_loop().add_signal_handler(signal.SIGCONT, self._go_on)

    def start_application_mode(self) -> None:
        """Take the terminal up; not done in the background, where the system stops the program."""
        super().start_application_mode()
        self._modes_here = self._modes() if self._reads_keys() else []

    def _go_on(self) -> None:
        modes = self._modes()
        # where the terminal is gone, a hang-up tells the program to go on as well
        if not modes or self._modes_here is None:
            return
        if modes != self._modes_here:
            if self._reads_keys():  # stopped without a word
                self.suspend_application_mode()
            self.resume_application_mode()
        self._app.refresh(repaint=True, layout=True)

    def _reads_keys(self) -> bool:
        return self._key_thread is not None and self._key_thread.is_alive()

    def _modes(self) -> list[Any]:
        with contextlib.suppress(termios.error):
            return termios.tcgetattr(self.fileno)
        return []
