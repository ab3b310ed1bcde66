"""A terminal that is painted no faster than it takes what was painted."""

from textual.drivers.linux_driver import LinuxDriver


class PacedDriver(LinuxDriver):
    """The library's driver, which tells when the terminal is behind.

    The library puts frames in a queue, and waits with keys and all once thirty are in it: over a
    slow line what one types would come to light seconds later.
    """

    @property
    def is_behind(self) -> bool:
        """Whether a part of what was painted still waits to be sent."""
        writer = self._writer_thread
        if writer is None:
            return False
        return not writer._queue.empty()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
