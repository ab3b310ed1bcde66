"""Compile, load and launch rows.cu; arguments are checked by `op.py`."""

import ctypes
from functools import cache
from pathlib import Path

import torch

from kernels.common import gpu, nvrtc
from kernels.common.chips import Capability, measured_like
from kernels.common.cuda_kernel import CudaKernel, Launch
from kernels.conv.arguments import GateInputs

SOURCE = Path(__file__).with_name("rows.cu")

HEAD_DIM = 128
"""Channels of a head: a warp convolves one, four channels a lane."""

WARPS = 4
"""Warps of a block."""

TILE_ROWS = 4
"""Rows that a block multiplies to a | b of one head."""

STAGES = 3
"""Steps of a product that a warp has under way, each of pieces of two weights and of all rows."""

PIECE_BYTES = 256
"""What half a warp copies at a time: 128 inputs, or a head's channels."""

SHARED_BYTES = WARPS * STAGES * (2 + TILE_ROWS) * PIECE_BYTES
"""Dynamic shared memory of a block. A warp's windows take less: four pieces a row."""

EIGHT = 8
"""Elements of one copy: rows are read from multiples of it on."""

UNPADDED = 128
"""Inputs of a row come in multiples of it where a product takes rows as they are.

Of others it makes a padded copy, whose memory may be given out again as beta; and beta is written
before the product has ended.
"""

ROWS_FROM = 4
"""Rows from which this is quicker than conv_gates_kernel, whose bits are the same (README)."""


class ConvArguments(ctypes.Structure):
    """`Conv` of rows_gates.cuh, field for field."""

    _fields_ = [
        *(
            (name, ctypes.c_void_p)
            for name in (
                "x", "inputs", "gates_weight", "taps", "decay_rate", "dt_bias", "tails", "raw", "k",
                "decay", "parity", "num_pending", "pending_rows", "parents", "q", "v", "beta",
            )
        ),
        *((name, ctypes.c_longlong) for name in ("x_stride", "inputs_stride", "weight_stride")),
        *((name, ctypes.c_int) for name in ("rows", "key_heads", "value_heads", "each")),
    ]  # fmt: skip


def serves(num_rows: int, capability: Capability) -> bool:
    """Say whether rounds of so many rows are this kernel's on a GPU: where it was measured."""
    return num_rows >= ROWS_FROM and measured_like(capability) == 90


def takes(
    x: torch.Tensor, gates: GateInputs, head_dim: int, others: tuple[torch.Tensor, ...]
) -> bool:
    """Say whether rows are this kernel's: many, on an H200, of heads of 128, in whole copies.

    Args:
        x: bf16 [T, C].
        gates: what a | b are the product of.
        head_dim: D.
        others: from `taps` to `beta`, as `ConvArguments` names them. What has rows is loaded or
            stored 16 bytes at a time.
    """
    rows = (x, gates.rows, gates.weight)
    whole = (*rows, *(one for one in others if one.dim() > 1))
    eights = all(one.stride(0) % EIGHT == 0 for one in rows)
    eights = eights and all(one.data_ptr() % (2 * EIGHT) == 0 for one in whole)
    fits = head_dim == HEAD_DIM and gates.rows.shape[1] % UNPADDED == 0
    return x.is_cuda and fits and eights and serves(x.shape[0], _choices(x.get_device()))


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
    num_rows = x.shape[0]
    arguments = ConvArguments(
        *(one.data_ptr() for one in tensors), *strides, num_rows, *heads, rows_of_a_warp(num_rows)
    )
    kernel = load(gates.rows.shape[1], x.get_device())
    kernel.launch(_shape(num_rows, *heads, overlap=overlap), arguments)


def rows_of_a_warp(num_rows: int) -> int:
    """Return the rows that a warp convolves: so many that the blocks are there at once."""
    return -(-num_rows // 8)


def num_blocks(num_rows: int, key_heads: int, heads: int) -> int:
    """Return the blocks of a launch: those that multiply, then those that convolve."""
    vectors, rows = 2 * key_heads + heads, rows_of_a_warp(num_rows)
    return -(-num_rows // TILE_ROWS) * heads + -(-(-(-num_rows // rows) * vectors) // WARPS)


def cubin(num_inputs: int, capability: Capability) -> bytes:
    """Compile the kernel; needs no GPU.

    Args:
        num_inputs: of the product of a | b.
        capability: compute capability, such as (9, 0).
    """
    return nvrtc.compile_file(SOURCE, capability, {"INPUTS": num_inputs})


@cache
def load(num_inputs: int, device: int) -> CudaKernel:
    """Compile and load the kernel on the current device, once."""
    return CudaKernel(cubin(num_inputs, gpu.chip(device)), "conv_rows")


@cache
def _choices(device: int) -> Capability:
    return gpu.choices(device)


@cache
def _shape(num_rows: int, key_heads: int, heads: int, *, overlap: bool) -> Launch:
    """Return the one object by which a kernel finds what the driver wants of a launch."""
    blocks = num_blocks(num_rows, key_heads, heads)
    return Launch(blocks, 32 * WARPS, SHARED_BYTES, overlap=overlap)
