"""Measure what this machine can do: read bandwidth and launch time, once per process.

Every share of bandwidth that is shown divides by this figure, never by a data sheet's.
"""

# torch gives its device properties no type.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from functools import cache

import torch

from kernels.common.timing import Timing, time_calls

CUDA_READ_BYTES = 4 << 30
"""Bytes read per pass: 70 times the H200's cache, and 17 ms on a DGX Spark."""

CPU_READ_BYTES = 256 << 20
"""Bytes read per pass on a CPU: above the last-level cache of a desktop or a server's share."""


def read_bandwidth_gbps(device: str) -> float:
    """Measure the bandwidth of reading memory once, in 1e9 bytes a second.

    Args:
        device: "cuda" or "cpu". On the CPU: with torch's current number of threads.

    Returns:
        The median of seven passes; the same number for the rest of the process, on the CPU for
        each number of threads.
    """
    return _cuda_read_gbps() if device == "cuda" else _cpu_read_gbps(torch.get_num_threads())


@cache
def launch_time() -> Timing:
    """Measure the time of an empty kernel as a node of a CUDA graph."""
    from kernels.common.stream import launch_nothing

    nothing = torch.empty(1, dtype=torch.int32, device="cuda")
    return time_calls([lambda: launch_nothing(nothing)] * 200, "cuda")


def cache_bytes(device: str) -> int:
    """Return the size of the last-level cache: the GPU's L2, or 32 MiB for a CPU."""
    if device == "cuda":
        return int(torch.cuda.get_device_properties().L2_cache_size)
    return 32 << 20


@cache
def _cuda_read_gbps() -> float:
    rate = _time_cuda_reads()
    torch.cuda.empty_cache()  # what was read is not left with this process
    return rate


def _time_cuda_reads() -> float:
    from kernels.common.stream import ELEMENTS_PER_PROGRAM, read_all

    free_bytes, _ = torch.cuda.mem_get_info()
    element_bytes = torch.int32.itemsize
    program_bytes = ELEMENTS_PER_PROGRAM * element_bytes
    num_programs = min(CUDA_READ_BYTES, free_bytes // 4) // program_bytes
    x = torch.ones(num_programs * ELEMENTS_PER_PROGRAM, dtype=torch.int32, device="cuda")
    sums = torch.empty(num_programs, dtype=torch.int32, device="cuda")
    timing = time_calls([lambda: read_all(x, sums)], "cuda", repetitions=7)
    return timing.gbps(num_programs * program_bytes)


@cache
def _cpu_read_gbps(_num_threads: int) -> float:
    x = torch.ones(CPU_READ_BYTES // torch.float32.itemsize)
    timing = time_calls([x.sum], "cpu", repetitions=7)
    return timing.gbps(CPU_READ_BYTES)
