"""Time checked kernels on cold data and relate the time to the bytes they must move.

Calls rotate over copies of their tensors that together exceed the last-level cache several times,
so that each call finds its data cold, as a layer finds its weights in a round. On CUDA the rotation
is captured in one graph and the graph is timed: no host time is in the figure. A family is timed
only with a green report in hand.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from kernels.common.capture import capture
from kernels.common.verdict import Report

COLD_FACTOR = 4
"""Times the last-level cache that a rotation covers: at 1 the replacement policy leaves hits."""

MAX_COPIES = 256
"""Copies of a problem at most; small problems stay warm in part, which their launch time hides."""


MIN_CALLS = 16
"""Calls of a timed graph at least: its start, 6 us on an H200, is spread over them."""

CPU_SECONDS = 5.0
"""Time after which no further pass is made on a CPU: a product of the 27B takes seconds there."""


@dataclass(frozen=True)
class Timing:
    """Time of one call, in microseconds: median over repetitions, and the 10 % and 90 % marks.

    Of fewer than ten repetitions the marks are the shortest and the longest.
    """

    median_us: float
    low_us: float
    high_us: float
    num_calls: int

    def gb_s(self, num_bytes: int) -> float:
        """Return bytes over the median time, in 1e9 bytes a second."""
        return num_bytes / self.median_us / 1e3

    def most_gb_s(self, num_bytes: int) -> float:
        """Return bytes over the 10 % mark, in 1e9 bytes a second."""
        return num_bytes / self.low_us / 1e3

    def share(self, num_bytes: int, read_gb_s: float) -> float:
        """Return the share, 0 to 1, of the read bandwidth measured in the same run."""
        return self.gb_s(num_bytes) / read_gb_s


def num_cold_copies(num_bytes: int, cache_bytes: int) -> int:
    """Return how many copies of a problem make a cold rotation.

    Args:
        num_bytes: bytes a call touches.
        cache_bytes: size of the last-level cache.
    """
    return min(MAX_COPIES, max(2, -(-COLD_FACTOR * cache_bytes // max(num_bytes, 1))))


def summarise(samples_us: Sequence[float], num_calls: int) -> Timing:
    """Turn times of whole rotations into the time of one call.

    Args:
        samples_us: microseconds of each repetition of the rotation.
        num_calls: calls in one rotation.
    """
    ordered = sorted(sample / num_calls for sample in samples_us)
    tenth = len(ordered) // 10
    return Timing(statistics.median(ordered), ordered[tenth], ordered[-1 - tenth], num_calls)


def time_checked(
    report: Report,
    family: str,
    calls: Sequence[Callable[[], object]],
    device: str,
    repetitions: int = 30,
) -> Timing:
    """Time a rotation of calls of a family whose check is green.

    Args:
        report: what the checks found in this run.
        family: the family that the calls belong to.
        calls: the same problem on different copies of its tensors.
        device: "cuda" times a captured graph, "cpu" the calls themselves.
        repetitions: timed passes over the rotation.

    Raises:
        RedCheckError: the family was not checked on this device, or is red.
    """
    report.require_green(family, "cuda" if device == "cuda" else "torch")
    return time_calls(calls, device, repetitions)


def time_calls(calls: Sequence[Callable[[], object]], device: str, repetitions: int = 30) -> Timing:
    """Time a rotation of calls that are no kernel of ours: copies, empty launches, peers."""
    if device == "cuda":
        return summarise(_graph_samples_us(calls, repetitions), len(calls))
    return summarise(_cpu_samples_us(calls, repetitions), len(calls))


def _graph_samples_us(calls: Sequence[Callable[[], object]], repetitions: int) -> list[float]:
    turns = -(-MIN_CALLS // len(calls))
    graph = capture([*calls] * turns)
    for _ in range(3):
        graph.replay()
    samples: list[float] = []
    for _ in range(repetitions):
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        samples.append(start.elapsed_time(end) * 1e3 / turns)
    return samples


def _cpu_samples_us(calls: Sequence[Callable[[], object]], repetitions: int) -> list[float]:
    """Time passes over the calls, the first to warm up; a slow problem gets few, at least one."""
    samples: list[float] = []
    for _ in range(1 + repetitions):
        start = time.perf_counter_ns()
        for call in calls:
            call()
        samples.append((time.perf_counter_ns() - start) / 1e3)
        if sum(samples) > CPU_SECONDS * 1e6:
            break
    return samples[1:] or samples
