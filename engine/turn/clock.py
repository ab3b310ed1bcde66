"""Split a round's time among its phases, so that they add up to the round.

Rounds lie end to end: each begins where the one before ended. On a GPU both are moments of its own,
so that what the host does while the GPU is at work costs no round anything, and what the GPU waits
for counts where it waits:

- host: from the end of the round before until this one's first work; the GPU has nothing to do.
- draft: until its rows are on their way, whatever is computed for them and where.
- verify: its rows, their choice, and on a GPU the path that the target takes.
- accept: until its rows are taken in.
"""

import time
from itertools import pairwise
from typing import Any

import torch

from engine.records import PHASES

Stamp = Any
"""A moment: seconds on a CPU; on a GPU its event, when it has done what was asked of it before."""


def wait_for(device: torch.device) -> None:
    """Wait until a GPU has done what was asked of it; a CPU always has."""
    if device.type == "cuda":
        torch.cuda.synchronize()


class PhaseClock:
    """Times one round; exactly one phase runs at any moment, ``host`` first.

    Nothing is waited for before `ms` is asked for.

    Args:
        device: where the work runs.
        since: the end of the round before; None begins now.
    """

    def __init__(self, device: torch.device, since: Stamp | None = None) -> None:
        self._device = device
        self._stamps: list[Stamp] = [self._now() if since is None else since]
        self._phases = ["host"]

    def enter(self, phase: str) -> None:
        """End the running phase and begin ``phase``."""
        self._stamps.append(self._now())
        self._phases.append(phase)

    def stop(self) -> None:
        """End the round."""
        self._stamps.append(self._now())

    def next(self) -> "PhaseClock":
        """The clock of the round behind this one, which has ended."""
        return PhaseClock(self._device, self._stamps[-1])

    def ms(self) -> dict[str, float]:
        """Milliseconds by phase, once the round has ended and a GPU has come to its end."""
        if self._device.type == "cuda":
            self._stamps[-1].synchronize()
        spent: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        for phase, moments in zip(self._phases, pairwise(self._stamps), strict=True):
            spent[phase] += _ms_between(*moments)
        return spent

    def _now(self) -> Stamp:
        if self._device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event


def _ms_between(begin: Stamp, end: Stamp) -> float:
    return (end - begin) * 1e3 if isinstance(begin, float) else begin.elapsed_time(end)
