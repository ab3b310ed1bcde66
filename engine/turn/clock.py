"""Split a round's time among its phases, so that they add up to the round.

Rounds lie end to end: one lasts until the next begins.

- draft: from the round's begin until its rows are on their way; all that is done for them.
- verify: its rows, their choice, and on a GPU the path that the target takes.
- accept: until what was accepted is taken in.
- host: until the next round begins, the last of a turn excepted; a GPU has nothing to do.
"""

import time
from itertools import pairwise

import torch

from engine.records import PHASES


def wait_for(device: torch.device) -> None:
    """Wait until a GPU has done what was asked of it; a CPU always has."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def clock_for(device: torch.device) -> "PhaseClock":
    """The clock of the first round of a turn, which begins now."""
    return DeviceClock(EventPool(device)) if device.type == "cuda" else PhaseClock()


class PhaseClock:
    """Times one round by the host's moments; one phase runs at any time, ``draft`` first."""

    def __init__(self) -> None:
        self._phases = ["draft"]
        self._moments = [time.perf_counter()]

    def enter(self, phase: str) -> None:
        """End the running phase and begin ``phase``."""
        self._phases.append(phase)
        self._moments.append(time.perf_counter())

    def next(self, *, is_ahead: bool = False) -> "PhaseClock":  # noqa: ARG002  nothing runs ahead
        """End the round with the begin of the next, and begin to time that.

        Args:
            is_ahead: the next round is launched before it is known what came of this one.
        """
        clock = PhaseClock()
        self._moments.append(clock._moments[0])
        return clock

    def ms(self) -> dict[str, float]:
        """Milliseconds by phase, once the round has ended or is the last of a turn."""
        spent: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        # the last phase of a last round has no end
        for phase, (begin, end) in zip(self._phases, pairwise(self._moments), strict=False):
            spent[phase] += (end - begin) * 1e3
        return spent


class EventPool:
    """Moments of a GPU, which are used again: making one costs a host more than recording one."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.current_stream(device)
        self._spare: list[torch.cuda.Event] = []

    def record(self) -> torch.cuda.Event:
        """The moment when the GPU has done what was asked of it before."""
        event = self._spare.pop() if self._spare else torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event

    def take_back(self, events: list[torch.cuda.Event]) -> None:
        """Use moments again that nobody looks at any more."""
        self._spare += events


class DeviceClock(PhaseClock):
    """Times one round of a GPU by its own moments: when its rows began, and when they ended.

    What the host does while the GPU is at work costs no round anything. From a round's end to the
    next one's begin the GPU waits for the host, or runs a drafter that the host waits for: of that
    time, which is the GPU's, the host's moments tell the phases apart. Where the next round is
    launched ahead nobody is waited for, and all of it is ``accept``.

    Nothing is waited for before `ms` is asked for; rounds are asked for it in their order.

    Attributes:
        began_s: the host's moment when the round began.
        rows_began: the GPU's moment when its rows began; None before.
        is_ahead: it was launched before it was known what came of the round before.
        draft_ms: of its draft, once the round before has been measured.
    """

    def __init__(self, events: EventPool, before: "DeviceClock | None" = None) -> None:
        super().__init__()
        self.began_s = self._moments[0]
        self._events = events
        self._before = before
        self._next: DeviceClock | None = None
        self.is_ahead = False
        self._began = events.record() if before is None else None
        self.rows_began: torch.cuda.Event | None = None
        self._rows_ended: torch.cuda.Event | None = None
        self.draft_ms: float | None = None
        self._ms: dict[str, float] | None = None

    def enter(self, phase: str) -> None:
        """End the running phase and begin ``phase``."""
        super().enter(phase)
        if phase == "verify":
            self.rows_began = self._events.record()
        elif phase == "accept":
            self._rows_ended = self._events.record()

    def next(self, *, is_ahead: bool = False) -> "DeviceClock":
        """See `PhaseClock.next`."""
        self._next = DeviceClock(self._events, self)
        self._next.is_ahead = is_ahead
        return self._next

    def ms(self) -> dict[str, float]:
        """See `PhaseClock.ms`."""
        if self._ms is None:
            if self._before is not None:  # which says what of the time between is this one's
                self._before.ms()
                self._before = None
            self._ms = self._measured()
        return self._ms

    def _measured(self) -> dict[str, float]:
        spent: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        began, ended = self.rows_began, self._rows_ended
        if began is None or ended is None:
            return spent
        ended.synchronize()
        spent["verify"] = began.elapsed_time(ended)
        if self.draft_ms is not None:
            spent["draft"] = self.draft_ms
        elif self._began is not None:
            spent["draft"] = self._began.elapsed_time(began)
        following = self._next
        if following is not None and (next_began := following.rows_began) is not None:
            next_began.synchronize()
            spent["accept"] = between = ended.elapsed_time(next_began)
            following.draft_ms = 0.0
            if not following.is_ahead:
                following.draft_ms = min(following.host_ms("draft", "verify"), between)
                taken_in = self._moments[self._phases.index("host")]
                host_ms = (following.began_s - taken_in) * 1e3
                spent["host"] = min(max(host_ms, 0.0), between - following.draft_ms)
                spent["accept"] = between - following.draft_ms - spent["host"]
        self._events.take_back([one for one in (self._began, began, ended) if one is not None])
        return spent

    def host_ms(self, begin: str, end: str) -> float:
        """Milliseconds of the host from the begin of one phase to that of another."""
        moments = [self._moments[self._phases.index(one)] for one in (begin, end)]
        return (moments[1] - moments[0]) * 1e3
