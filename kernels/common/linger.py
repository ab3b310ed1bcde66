"""Launch a kernel that lets the next one start long before it ends, for laws of overlap.

Behind it the order of what overlaps is not left to chance: the kernel that comes next starts, lets
its own successor start, and waits; whatever any of them reads without waiting is read by then.
"""

import ctypes
from functools import cache
from pathlib import Path

import torch

from kernels.common import gpu, nvrtc
from kernels.common.cuda_kernel import CudaKernel, Launch

SOURCE = Path(__file__).with_name("linger.cu")

CYCLES = 400_000
"""Some 200 us: a host launches several kernels in less, and they read ahead what they do."""

_SHAPE = Launch(1, 32, 0)


class LingerArguments(ctypes.Structure):
    """`Linger` of linger.cu, field for field."""

    _fields_ = [("cycles", ctypes.c_longlong)]


def linger() -> None:
    """Launch it on torch's current stream, behind all that was launched there before."""
    _load(torch.cuda.current_device()).launch(_SHAPE, LingerArguments(CYCLES))


@cache
def _load(device: int) -> CudaKernel:
    """Compile and load the kernel on the current device, once."""
    return CudaKernel(nvrtc.compile_file(SOURCE, gpu.chip(device), {}), "linger")
