"""Compile, load and launch rows.cu; arguments are checked by `op.py`."""

import ctypes
from functools import cache
from pathlib import Path

import torch

from kernels.common import nvrtc
from kernels.common.cuda_kernel import CudaKernel, Launch
from kernels.conv.arguments import GateInputs, LayerArguments

SOURCE = Path(__file__).with_name("rows.cu")

HEAD_DIM = 128
"""Channels of a head: a warp convolves one, four channels a lane."""

WARPS = 8
TILE_ROWS, TILE_HEADS = 4, 2
"""What a block multiplies to a | b, as in rows_gates.cuh."""

SHARE = 2
"""Inputs of a | b that a thread reads at a time."""

ROWS_FROM = 12
"""Rows from which this is quicker than conv_gates_kernel, whose bits are the same (README)."""


class ConvArguments(LayerArguments):
    """`Conv` of rows_gates.cuh, field for field."""

    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in (
                "k", "decay", "parity", "num_pending", "pending_rows", "parents", "q", "v", "beta",
            )
        ),
        *((name, ctypes.c_longlong) for name in ("x_stride", "inputs_stride", "weight_stride")),
        *((name, ctypes.c_int) for name in ("rows", "key_heads", "value_heads")),
    )  # fmt: skip


def takes(x: torch.Tensor, gates: GateInputs, head_dim: int) -> bool:
    """Say whether the kernel takes rows: many, of heads of 128, that start at whole words."""
    wide = x.stride(0) % 4 == 0 and x.data_ptr() % 8 == 0
    even = all(
        one.stride(0) % SHARE == 0 and one.data_ptr() % 4 == 0 for one in (gates.rows, gates.weight)
    )
    fits = head_dim == HEAD_DIM and gates.rows.shape[1] % SHARE == 0
    return x.shape[0] >= ROWS_FROM and fits and wide and even


def launch_rows(
    x: torch.Tensor,
    gates: GateInputs,
    heads: tuple[int, int],
    others: tuple[torch.Tensor, ...],
    *,
    overlap: bool,
) -> None:
    """Launch the rows of one layer; `conv_gates` has checked the arguments.

    Args:
        x: bf16 [T, C].
        gates: what a | b are the product of.
        heads: G and H.
        others: from `taps` to `beta`, as `ConvArguments` names them.
        overlap: start before the previous kernel of the stream has ended.
    """
    tensors = (x, gates.rows, gates.weight, *others)
    strides = (one.stride(0) for one in tensors[:3])
    arguments = ConvArguments(*(one.data_ptr() for one in tensors), *strides, x.shape[0], *heads)
    shape = _shape(x.shape[0], *heads, overlap=overlap)
    load(gates.rows.shape[1], x.get_device()).launch(shape, arguments)


def cubin(num_inputs: int, capability: tuple[int, int]) -> bytes:
    """Compile the kernel; needs no GPU.

    Args:
        num_inputs: of the product of a | b.
        capability: compute capability, such as (12, 1).
    """
    target = nvrtc.architecture(capability)
    return nvrtc.compile_cubin(_source(), target, {"INPUTS": num_inputs})


def num_blocks(num_rows: int, key_heads: int, heads: int) -> int:
    """Return the blocks of a launch: those that multiply, then those that convolve."""
    multiply = -(-num_rows // TILE_ROWS) * -(-heads // TILE_HEADS)
    return multiply + -(-num_rows * (2 * key_heads + heads) // WARPS)


@cache
def load(num_inputs: int, device: int) -> CudaKernel:
    """Compile and load the kernel on the current device, once."""
    capability = torch.cuda.get_device_capability(device)
    return CudaKernel(cubin(num_inputs, capability), "conv_rows")


@cache
def _shape(num_rows: int, key_heads: int, heads: int, *, overlap: bool) -> Launch:
    """Return the one object by which a kernel finds what the driver wants of a launch."""
    return Launch(num_blocks(num_rows, key_heads, heads), 32 * WARPS, 0, overlap=overlap)


@cache
def _source() -> str:
    return nvrtc.read_source(SOURCE)
