"""Memory that can still be had on a device, and what is said when there was none after all."""

import re
from pathlib import Path
from typing import Any, cast

import torch

from engine.errors import MemoryPlanError
from engine.sizes import size_text

CGROUP = Path("/sys/fs/cgroup")

_CPU_REFUSED = re.compile(r"DefaultCPUAllocator: .* allocate (\d+) bytes", re.DOTALL)
"""How torch tells of memory that the system does not give: by a plain RuntimeError."""


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


def is_refused(problem: BaseException) -> bool:
    """Whether an error says that a device or the system has no more memory to give."""
    return isinstance(problem, torch.OutOfMemoryError | MemoryError) or bool(
        isinstance(problem, RuntimeError) and _CPU_REFUSED.search(str(problem))
    )


def no_memory_left(problem: BaseException, device: str) -> MemoryPlanError:
    """What is said where an allocation is refused though the plan had room for it.

    Args:
        problem: what `is_refused` recognises. The words of torch's allocators go on without
            addresses and places in its sources.
        device: "cpu" or "cuda".
    """
    asked = _CPU_REFUSED.search(str(problem))
    said = f"{size_text(int(asked[1]))} could not be had" if asked else str(problem)
    said = said.split(" GPU ")[0].rstrip(".") or "the system gives no more"
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
