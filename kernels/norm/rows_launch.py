"""Compile, load and launch rows.cu; arguments are checked by `op.py`."""

import ctypes
from functools import cache
from pathlib import Path

import torch

from kernels.common import gpu, nvrtc
from kernels.common.chips import Capability
from kernels.common.cuda_kernel import CudaKernel, Launch
from kernels.common.operands import STEP, Operands
from kernels.common.operands_arguments import NextOperands, next_operands
from kernels.common.round import MAX_ROWS

SOURCE = Path(__file__).with_name("rows.cu")

THREADS = 256
"""Of a block, each with eight neighbours of 2,048 inputs."""

SHARE = 1024
"""Inputs that a block writes at most: more blocks a row end sooner, until half their threads do
not write."""

MOST_INPUTS = 8192
"""Of a row; a thread holds a 256th of it, twice."""

WORD = 8
"""Inputs in one load of 16 bytes."""


class AddNormArguments(ctypes.Structure):
    """`AddNorm` of rows.cu, field for field."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("x", "residual", "weight", "out", "residual_out")),
        *(
            (f"{name}_stride", ctypes.c_longlong)
            for name in ("x", "residual", "out", "residual_out")
        ),
        ("next", NextOperands),
        ("eps", ctypes.c_float),
    ]


def takes(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    out: torch.Tensor,
    residual_out: torch.Tensor,
) -> bool:
    """Say whether the kernel takes rows: those of a round, in places of their own.

    Blocks of a row read all of it, so none may write over what another still reads.

    Args:
        x: bf16 [T, D], like the next and the two last; 1 to 32 rows of whole 128 up to 8,192, which
            start at whole 16 bytes.
        residual: what x is added to.
        weight: [D], taken if it is bf16.
        out: for the norm; neither x nor residual.
        residual_out: for the sum; likewise.
    """
    rows = (x, residual, out, residual_out)
    apart = {one.data_ptr() for one in rows[2:]}.isdisjoint(one.data_ptr() for one in rows[:2])
    whole = all(one.stride(0) % WORD == 0 and one.data_ptr() % 16 == 0 for one in rows)
    num_rows, width = x.shape
    fits = 1 <= num_rows <= MAX_ROWS and width % STEP == 0 and width <= MOST_INPUTS
    plain = weight.dtype == torch.bfloat16 and weight.data_ptr() % 16 == 0
    return x.is_cuda and fits and plain and whole and apart


def launch_rows(
    rows: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    eps: float,
    operands: Operands | None,
) -> None:
    """Launch the kernel on rows that it `takes`; the kernel before has not ended.

    Args:
        rows: as `takes` names them.
        eps: added to the mean square.
        operands: written with the norm; None writes none.
    """
    x, residual, _, out, residual_out = rows
    arguments = AddNormArguments(
        *(one.data_ptr() for one in rows),
        *(one.stride(0) for one in (x, residual, out, residual_out)),
        next_operands(operands),
        eps,
    )
    num_rows, width = x.shape
    load(width, x.get_device()).launch(_shape(num_rows, width), arguments)


def splits_of(width: int) -> int:
    """Return the blocks that share a row: all write as many whole eights."""
    splits = -(-width // SHARE)
    while width % (WORD * splits):
        splits += 1
    return splits


def cubin(width: int, capability: Capability) -> bytes:
    """Compile the kernel; needs no GPU.

    Args:
        width: of a row.
        capability: compute capability, such as (12, 1).
    """
    chosen = {"WIDTH": width, "SPLITS": splits_of(width)}
    return nvrtc.compile_file(SOURCE, capability, chosen)


@cache
def load(width: int, device: int) -> CudaKernel:
    """Compile and load the kernel on the current device, once."""
    return CudaKernel(cubin(width, gpu.chip(device)), "add_norm")


@cache
def _shape(num_rows: int, width: int) -> Launch:
    """Return the one object by which a kernel finds what the driver wants of a launch."""
    return Launch(num_rows * splits_of(width), THREADS, 0, overlap=True)
