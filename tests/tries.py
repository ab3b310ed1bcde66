"""Time, on a machine that may be busy with something else: how long to wait, how often to try."""

import time
from collections.abc import Iterator

PATIENCE_S = 60.0
"""How long anything is waited for, and how long a bar is tried: what else runs makes a figure worse
and never better, so the best one is what the code takes, and one that meets the bar meets it."""


def tries() -> Iterator[int]:
    """Count tries to meet a bar, at least two, until `PATIENCE_S` is over."""
    end = time.monotonic() + PATIENCE_S
    number = 0
    while number < 2 or time.monotonic() < end:
        yield number
        number += 1
