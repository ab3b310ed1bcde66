"""Count the kernels that a GPU runs, whether a graph launches them or the host one by one."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch

_NO_KERNELS = ("Memcpy", "Memset")
"""How the profiler names copies and fills."""


def count_kernels(run: Callable[[], object], device: str) -> int | None:
    """Run something under the profiler and count its kernels; copies and fills are none.

    Args:
        run: has run before, so that nothing is compiled or captured.
        device: "cuda", or "cpu", where there are none.

    Returns:
        The number; None on a CPU, and where the driver lets nobody look.
    """
    if device != "cuda":
        return None
    profiler = cast("Any", torch.profiler)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its cycles, of which this is one
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as seen:
            run()
            torch.cuda.synchronize()
        return num_kernels(seen.events()) or None


def num_kernels(events: Iterable[Any]) -> int:
    """Count the kernels among a profiler's events."""
    return sum(
        one.device_type.name == "CUDA" and not one.name.startswith(_NO_KERNELS) for one in events
    )
