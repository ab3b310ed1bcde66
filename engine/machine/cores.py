"""Count the cores that a process may compute with."""

import os
from pathlib import Path


def num_physical_cores() -> int:
    """Cores that this process may use, hyper-threads left out where the machine names them."""
    has_affinity = hasattr(os, "sched_getaffinity")
    logical = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return logical
    physical = [line.split(":")[1] for line in lines if line.startswith("physical id")]
    core = [line.split(":")[1] for line in lines if line.startswith("core id")]
    return min(logical, len(set(zip(physical, core, strict=False)))) or logical
