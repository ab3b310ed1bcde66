"""Read memory as fast as the device can, and launch nothing: the two floors of a kernel's time."""

import torch
import triton
import triton.language as tl

from kernels.common.typing import constexpr

LANES = 4096
STEPS = 16
ELEMENTS_PER_PROGRAM = LANES * STEPS
"""int32 elements that one program reads; callers pass a multiple."""

READ_OPTIONS = {"num_warps": 8}


@triton.jit
def read_kernel(x_ptr, sums_ptr, LANES: constexpr, STEPS: constexpr) -> None:
    """Add up STEPS blocks of LANES int32 and write one sum a program."""
    program = tl.program_id(0).to(tl.int64)
    total = tl.zeros((LANES,), tl.int32)
    for step in range(STEPS):
        total += tl.load(x_ptr + (program * STEPS + step) * LANES + tl.arange(0, LANES))
    tl.store(sums_ptr + program, tl.sum(total, 0))


@triton.jit
def empty_kernel(x_ptr) -> None:
    """Do nothing with an argument, for the time of a bare launch."""


def read_all(x: torch.Tensor, sums: torch.Tensor) -> None:
    """Read a buffer once.

    Args:
        x: int32 [n], n a multiple of `ELEMENTS_PER_PROGRAM`, CUDA.
        sums: int32 [n / ELEMENTS_PER_PROGRAM], overwritten with partial sums.
    """
    grid = (x.numel() // ELEMENTS_PER_PROGRAM,)
    read_kernel[grid](x, sums, LANES=LANES, STEPS=STEPS, **READ_OPTIONS)


def launch_nothing(x: torch.Tensor) -> None:
    """Launch one program that does nothing."""
    empty_kernel[(1,)](x)
