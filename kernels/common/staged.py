"""Bring small tables of numbers to the device, without waiting for it, and from it to the host."""

from collections.abc import Sequence
from typing import Any, cast

import torch


def pinned(size: int, device: torch.device) -> tuple[torch.Tensor, Any]:
    """Zeros on the host, int32 [size], that a device copies by itself; and the same for numpy."""
    page = torch.zeros(size, dtype=torch.int32, pin_memory=device.type == "cuda")
    return page, cast("Any", page).numpy()


class StagedTable:
    """An int32 table in device memory and the pinned page that its next values leave from.

    Attributes:
        values: int32 [size] on the device, zeros at first.
    """

    def __init__(self, size: int, device: torch.device) -> None:
        self.values = torch.zeros(size, dtype=torch.int32, device=device)
        self._page, self._numbers = pinned(size, device)
        self._has_left = torch.cuda.Event() if device.type == "cuda" else None

    def load(self, values: Sequence[int]) -> None:
        """Copy numbers to the table's beginning, in the order of the current stream.

        Numbers behind them become again what was loaded there last. Waits for this table's previous
        copy alone: the page must not change under it.

        Raises:
            ValueError: there are more numbers than the table holds.
        """
        self.write(values)
        self.send()
        self.mark()

    def write(self, values: Sequence[int]) -> None:
        """Write numbers to the page that `send` sends, when the copy before has ended; see `load`.

        Raises:
            ValueError: there are more numbers than the table holds.
        """
        if len(values) > len(self._numbers):
            raise ValueError(
                f"a staged table of {len(self._numbers)} numbers was given {len(values)}; "
                "pass no more than it was made for"
            )
        if self._has_left is not None:
            self._has_left.synchronize()
        self._numbers[: len(values)] = values

    def send(self) -> None:
        """Copy the page. A graph that was captured with it copies what is there when it runs."""
        self.values.copy_(self._page, non_blocking=True)

    def mark(self) -> None:
        """Let the next `write` wait for what was asked of the device before now."""
        if self._has_left is not None:
            self._has_left.record()


class FetchedTable:
    """A pinned page of the host that int32 numbers of a device are copied to."""

    def __init__(self, size: int, device: torch.device) -> None:
        self._page, self._numbers = pinned(size, device)
        self._is_there = torch.cuda.Event() if device.type == "cuda" else None

    def fetch(self, values: torch.Tensor) -> None:
        """Let numbers, int32 [size], be copied here when the stream comes to it."""
        self.copy(values)
        self.mark()

    def copy(self, values: torch.Tensor) -> None:
        """Copy numbers, int32 [size]; a graph may be captured with it."""
        self._page.copy_(values, non_blocking=True)

    def mark(self) -> None:
        """Let `wait` wait for what was asked of the device before now."""
        if self._is_there is not None:
            self._is_there.record()

    def wait(self) -> list[int]:
        """Wait for the copy alone, other threads running meanwhile, and read it."""
        if self._is_there is not None:
            self._is_there.synchronize()
        return self._numbers.tolist()
