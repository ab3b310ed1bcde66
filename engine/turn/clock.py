"""Split a round's time among its phases, so that they add up to the round.

Rounds lie end to end: one lasts until the next begins. On a GPU both are moments of its own: what
the host does while the GPU is at work costs no round anything, and what the GPU waits for counts
where it waits.

- draft: from the round's begin until its rows are on their way; all that is done for them.
- verify: its rows, their choice, and on a GPU the path that the target takes.
- accept: until what was accepted is taken in.
- host: until the next round begins, the last of a turn excepted; a GPU has nothing to do.
"""

import time
from collections.abc import Iterable
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


class Moments:
    """Takes the moments of a turn's rounds. Making an event costs a host more than recording one.

    Args:
        device: where the work runs; on a GPU on its current stream.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
        self._spare: list[torch.cuda.Event] = []

    def now(self) -> Stamp:
        """This moment."""
        if self._stream is None:
            return time.perf_counter()
        event = self._spare.pop() if self._spare else torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event

    def take_back(self, stamps: Iterable[Stamp]) -> None:
        """Use moments again that nobody looks at any more."""
        if self._stream is not None:
            self._spare.extend(stamps)


class PhaseClock:
    """Times one round; exactly one phase runs at any moment, ``draft`` first.

    Nothing is waited for before `ms` is asked for.

    Args:
        device: where the work runs.
        before: of the round before this one.
    """

    def __init__(self, device: torch.device, before: "PhaseClock | None" = None) -> None:
        self._device = device
        self._before = before
        self._moments = Moments(device) if before is None else before._moments
        self._phases = ["draft"]
        self._stamps = [self._moments.now()]
        self._ms: dict[str, float] | None = None

    def enter(self, phase: str) -> None:
        """End the running phase and begin ``phase``."""
        self._phases.append(phase)
        self._stamps.append(self._moments.now())

    def next(self) -> "PhaseClock":
        """End the round with the begin of the next, and begin to time that."""
        clock = PhaseClock(self._device, self)
        self._stamps.append(clock._stamps[0])
        return clock

    def ms(self) -> dict[str, float]:
        """Milliseconds by phase, once the round has ended or is the last of a turn."""
        if self._ms is None:
            self._ms = self._settle()
        return self._ms

    def _settle(self) -> dict[str, float]:
        if self._before is not None:  # its end is the begin of this one
            self._before.ms()
            self._before = None
        if self._device.type == "cuda":
            self._stamps[-1].synchronize()
        spent: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        # the last phase of a last round has no end
        for phase, moments in zip(self._phases, pairwise(self._stamps), strict=False):
            spent[phase] += _ms_between(*moments)
        self._moments.take_back(self._stamps[: len(self._phases)])
        return spent


def _ms_between(begin: Stamp, end: Stamp) -> float:
    return (end - begin) * 1e3 if isinstance(begin, float) else begin.elapsed_time(end)
