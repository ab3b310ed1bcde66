"""Time, on a machine that may be slow, or busy with something else: how long to wait and to try."""

import time
from collections.abc import Iterator
from functools import cache

PATIENCE_S = 60.0
"""How long anything is waited for, and how long a bar is tried: what else runs makes a figure worse
and never better, so the best one is what the code takes, and one that meets the bar meets it."""

WORK_S = 0.0032
"""What `_work` takes at its best on the core that the bars of plain Python are set for: a shared
x86 core without AVX-512."""


def tries() -> Iterator[int]:
    """Count tries to meet a bar, at least two, until `PATIENCE_S` is over."""
    end = time.monotonic() + PATIENCE_S
    number = 0
    while number < 2 or time.monotonic() < end:
        yield number
        number += 1


@cache
def slowness() -> float:
    """How many times as long as that core this one takes for plain Python; 1 for a faster one."""
    taken: list[float] = []
    for _ in range(100):
        began = time.perf_counter()
        _work()
        taken.append(time.perf_counter() - began)
    return max(1.0, min(taken) / WORK_S)


def _work() -> None:
    """Fill and walk dicts, sort and slice tuples, as what is timed does."""
    for size in range(8, 96):
        found = {(size, one): one * 7919 % 101 for one in range(size)}
        best = sorted(found.items(), key=lambda item: (-item[1], item[0]))
        sum(value * 0.5 for _, value in best[: size // 2])
