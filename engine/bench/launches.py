"""Watch the kernels that a GPU runs, whether a graph launches them or the host one by one."""

import statistics
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

_NO_KERNELS = ("Memcpy", "Memset")
"""How the profiler names copies and fills."""


@dataclass(frozen=True, slots=True)
class Place:
    """A kernel in its place: all launches of it that followed the same other one.

    Kernels overlap, so a duration says little of what a kernel costs. What it adds does: the time
    by which its end lies behind all ends before it. What all places add is the whole span.

    Attributes:
        name: of the kernel.
        after: of the one that ended before it; empty for the first.
        launches: how many.
        each_us: median of what one adds.
        adds_ms: what all of them add.
    """

    name: str
    after: str
    launches: int
    each_us: float
    adds_ms: float


@dataclass(frozen=True, slots=True)
class Kernels:
    """What a GPU ran.

    Attributes:
        number: of kernels; copies and fills are none.
        span_ms: from the start of the first to the end of the last.
        gaps_ms: of that, when none ran.
        places: what adds most first.
    """

    number: int
    span_ms: float
    gaps_ms: float
    places: tuple[Place, ...]

    @property
    def gap_share(self) -> float:
        """Share of the span in which no kernel ran."""
        return self.gaps_ms / self.span_ms if self.span_ms else 0.0


def watch_kernels(run: Callable[[], object], device: str) -> Kernels | None:
    """Run something under the profiler and look at its kernels.

    Args:
        run: has run before, so that nothing is compiled or captured.
        device: "cuda", or "cpu", where there are none.

    Returns:
        What ran; None on a CPU, and where the driver lets nobody look.
    """
    if device != "cuda":
        return None
    profiler = cast("Any", torch.profiler)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its cycles, of which this is one
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as seen:
            run()
            torch.cuda.synchronize()
        return kernels_among(seen.events())


def kernels_among(events: Iterable[Any]) -> Kernels | None:
    """The kernels among a profiler's events, whose times are in microseconds; None without any."""
    kernels = [
        one
        for one in events
        if one.device_type.name == "CUDA" and not one.name.startswith(_NO_KERNELS)
    ]
    if not kernels:
        return None
    times = sorted((one.time_range.start, one.time_range.end) for one in kernels)
    first, end, gaps_us = times[0][0], times[0][0], 0.0
    for begins, ends in times:  # one may begin before the one before it ends
        gaps_us += max(0.0, begins - end)
        end = max(end, ends)
    return Kernels(len(kernels), (end - first) / 1e3, gaps_us / 1e3, _places(kernels, first))


def _places(kernels: Sequence[Any], first: float) -> tuple[Place, ...]:
    """Tell the kernels of a run by what they add, the run having begun at ``first``."""
    added: dict[tuple[str, str], list[float]] = defaultdict(list)
    end, after = first, ""
    for one in sorted(kernels, key=lambda kernel: kernel.time_range.end):
        name = short_name(one.name)
        added[name, after].append(one.time_range.end - end)
        end, after = one.time_range.end, name
    places = (
        Place(name, before, len(us), statistics.median(us), sum(us) / 1e3)
        for (name, before), us in added.items()
    )
    return tuple(sorted(places, key=lambda place: -place.adds_ms))


def short_name(name: str) -> str:
    """A kernel's name without what a compiler adds: its result, arguments and template values."""
    name = name.replace("::(anonymous namespace)::", "::")
    return name.removeprefix("void ").split("<")[0].split("(")[0].rsplit("::", 1)[-1] or name
