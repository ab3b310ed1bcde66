"""Measure what this machine can do: read bandwidth and launch time.

Every share of bandwidth that is shown divides by this figure, never by a data sheet's. Other
programs take of memory's time and never give any, so that the fastest pass is the machine's.
"""

# torch gives its device properties no type.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from dataclasses import dataclass
from functools import cache

import torch

from engine.machine.facts import now
from engine.machine.free_memory import available_bytes
from kernels.common.timing import Timing, time_calls

CUDA_READ_BYTES = 4 << 30
"""Bytes read per pass: 70 times the H200's cache, and 17 ms on a DGX Spark."""

NUM_PASSES = 5

CPU_READ_BYTES = 256 << 20
"""Bytes read per pass on a CPU: above the last-level cache of a desktop or a server's share."""


@dataclass(frozen=True, slots=True)
class ReadBandwidth:
    """The fastest pass over memory so far, in 1e9 bytes a second, and when it was made."""

    gb_s: float
    measured_at: str


_fastest: dict[tuple[str, int], ReadBandwidth] = {}


def read_bandwidth(device: str) -> ReadBandwidth:
    """The bandwidth of reading memory: the fastest pass of this process so far.

    Args:
        device: "cuda" or "cpu". On the CPU: with torch's current number of threads, each of which
            has a figure of its own.

    Returns:
        Measured now where it was not before: the fastest of five passes.
    """
    return _fastest.get(_measured_as(device)) or measure_again(device)


def measure_again(device: str) -> ReadBandwidth:
    """Read memory five times more; a figure that is lower than the one before does not count."""
    measured_as = _measured_as(device)
    gb_s = _cuda_read_gb_s() if device == "cuda" else _cpu_read_gb_s()
    before = _fastest.get(measured_as)
    if before is None or gb_s > before.gb_s:
        _fastest[measured_as] = ReadBandwidth(gb_s, now())
    return _fastest[measured_as]


def _measured_as(device: str) -> tuple[str, int]:
    return device, 0 if device == "cuda" else torch.get_num_threads()


@cache
def launch_time() -> Timing:
    """Measure the time of an empty kernel as a node of a CUDA graph."""
    from kernels.common.stream import launch_nothing

    nothing = torch.empty(1, dtype=torch.int32, device="cuda")
    return time_calls([lambda: launch_nothing(nothing)] * 200, "cuda")


def _cuda_read_gb_s() -> float:
    rate = _time_cuda_reads()
    torch.cuda.empty_cache()  # what was read is not left with this process
    return rate


def cuda_read_bytes() -> int:
    """Bytes of a pass over a GPU's memory: less where little can be had."""
    return min(CUDA_READ_BYTES, available_bytes("cuda") // 4)


def _time_cuda_reads() -> float:
    from kernels.common.stream import ELEMENTS_PER_PROGRAM, read_all

    program_bytes = ELEMENTS_PER_PROGRAM * torch.int32.itemsize
    num_programs = cuda_read_bytes() // program_bytes
    x = torch.ones(num_programs * ELEMENTS_PER_PROGRAM, dtype=torch.int32, device="cuda")
    sums = torch.empty(num_programs, dtype=torch.int32, device="cuda")
    timing = time_calls([lambda: read_all(x, sums)], "cuda", repetitions=NUM_PASSES)
    return timing.most_gb_s(num_programs * program_bytes)


def _cpu_read_gb_s() -> float:
    x = torch.ones(CPU_READ_BYTES // torch.float32.itemsize)
    timing = time_calls([x.sum], "cpu", repetitions=NUM_PASSES)
    return timing.most_gb_s(CPU_READ_BYTES)
