"""Memory that can still be had on a device, and what is said when there was none after all."""

from pathlib import Path
from typing import Any, cast

import torch

from engine.errors import MemoryPlanError

CGROUP = Path("/sys/fs/cgroup")


def shares_memory(device: str) -> bool:
    """Whether GPU and host have one memory, as on a GB10."""
    return bool(cast("Any", torch.cuda).get_device_properties(device).is_integrated)


def available_bytes(device: str) -> int:
    """Bytes that can be had on a device, within this process's control group."""
    if device == "cpu":
        return _host_bytes()
    if shares_memory(device):
        # the driver counts page cache that can be given back as used, the kernel does not
        return _host_bytes()
    return torch.cuda.mem_get_info(device)[0]


def no_memory_left(problem: torch.OutOfMemoryError, device: str) -> MemoryPlanError:
    """What is said where an allocation is refused though the plan had room for it.

    Args:
        problem: of torch, whose message goes on with the addresses of its allocator.
        device: "cpu" or "cuda".
    """
    said = str(problem).split(" GPU ")[0].rstrip(".")
    mend = "Close other programs, or lower model.context_tokens."
    if device == "cuda" and shares_memory(device):
        mend += (
            " GPU and system share one memory here: files that were read may hold it until "
            "'sync; echo 3 | sudo tee /proc/sys/vm/drop_caches'."
        )
    return MemoryPlanError(f"The model fitted, but memory was refused: {said}.", mend)


def _host_bytes() -> int:
    return min(_meminfo_bytes(), _control_group_bytes())


def _meminfo_bytes() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 1 << 62


def _control_group_bytes() -> int:
    """What the control group still allows; unlimited where there is none.

    Files that nobody reads any more count as used there, and make room when it is asked for.
    """
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        used = int((CGROUP / "memory.current").read_text()) - _unread_file_bytes()
        return (1 << 62) if limit == "max" else max(0, int(limit) - used)
    except (OSError, ValueError):
        return 1 << 62


def _unread_file_bytes() -> int:
    try:
        lines = (CGROUP / "memory.stat").read_text().splitlines()
        return int(dict(line.split() for line in lines)["inactive_file"])
    except (OSError, ValueError, KeyError):
        return 0
