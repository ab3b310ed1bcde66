"""Compile, load and launch mixer.cu; arguments are checked by `op.py`."""

import ctypes
from functools import cache
from pathlib import Path

import torch

from kernels.common import gpu, nvrtc
from kernels.common.chips import Capability
from kernels.common.cuda_kernel import CudaKernel, Launch
from kernels.common.tree import TreeTables
from kernels.conv.arguments import GateInputs
from kernels.delta.gate import OutputGate
from kernels.delta.record import DeltaRecord
from kernels.delta.walk_launch import GateArguments, RecordArguments, gate_arguments
from kernels.mixer.tile import blocks_of_head, macros, num_blocks, num_threads

SOURCE = Path(__file__).with_name("mixer.cu")


class MixerArguments(ctypes.Structure):
    """`Mixer` of mixer_problem.cuh, field for field."""

    _fields_ = [
        ("x", ctypes.c_void_p),
        ("inputs", ctypes.c_void_p),
        ("gates_weight", ctypes.c_void_p),
        ("taps", ctypes.c_void_p),
        ("decay_rate", ctypes.c_void_p),
        ("dt_bias", ctypes.c_void_p),
        ("tails", ctypes.c_void_p),
        ("raw", ctypes.c_void_p),
        ("parents", ctypes.c_void_p),
        ("saves", ctypes.c_void_p),
        ("restores", ctypes.c_void_p),
        ("state", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("record", RecordArguments),
        ("gate", GateArguments),
        ("x_stride", ctypes.c_longlong),
        ("inputs_stride", ctypes.c_longlong),
        ("weight_stride", ctypes.c_longlong),
        ("key_heads", ctypes.c_int),
        ("value_heads", ctypes.c_int),
    ]


def launch_rows(
    x: torch.Tensor,
    gates: GateInputs,
    taps: torch.Tensor,
    decay_rate: torch.Tensor,
    dt_bias: torch.Tensor,
    tails: torch.Tensor,
    record: DeltaRecord,
    state: torch.Tensor,
    pending: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    tree: TreeTables,
    out: torch.Tensor,
    gate: OutputGate | None,
    *,
    overlap: bool,
) -> None:
    """Launch the rows of one layer; `mixer_rows` has checked the arguments.

    Args:
        x: bf16 [T, C].
        gates: what a | b are the product of.
        taps: bf16 [C, 4].
        decay_rate: fp32 [H].
        dt_bias: fp32 [H].
        tails: bf16 [2, 3, C].
        record: of one layer.
        state: fp32 [H, D, E].
        pending: parity, num_pending and pending_rows.
        tree: of the rows.
        out: bf16 [T, H, E].
        gate: what follows the walk; None writes its outputs.
        overlap: start before the previous kernel of the stream has ended.
    """
    tensors = (
        x, gates.rows, gates.weight, taps, decay_rate, dt_bias, tails, record.raw,
        tree.parents, tree.saves, tree.restores, state, out,
    )  # fmt: skip
    recorded = (record.k, record.u, record.decay, *pending)
    arguments = MixerArguments(
        *(tensor.data_ptr() for tensor in tensors),
        RecordArguments(*(tensor.data_ptr() for tensor in recorded)),
        gate_arguments(gate),
        x.stride(0), gates.rows.stride(0), gates.weight.stride(0), record.k.shape[-2],
        state.shape[0],
    )  # fmt: skip
    gated = gate is not None
    shape = _shape(state.shape[0], gated=gated, overlap=overlap)
    load(x.shape[0], gates.rows.shape[1], x.get_device(), gated=gated).launch(shape, arguments)


def cubin(num_rows: int, num_inputs: int, capability: Capability, *, gated: bool) -> bytes:
    """Compile the kernel; needs no GPU.

    Args:
        num_rows: of the call.
        num_inputs: of the product of a | b.
        capability: compute capability, such as (12, 1).
        gated: the walk ends in a gate.
    """
    chosen = macros(num_rows, num_inputs, gated=gated)
    return nvrtc.compile_file(SOURCE, capability, chosen)


@cache
def load(num_rows: int, num_inputs: int, device: int, *, gated: bool) -> CudaKernel:
    """Compile and load the kernel on the current device, once."""
    capability = gpu.chip(device)
    return CudaKernel(cubin(num_rows, num_inputs, capability, gated=gated), "mixer_rows")


@cache
def _shape(heads: int, *, gated: bool, overlap: bool) -> Launch:
    """Return the one object by which a kernel finds what the driver wants of a launch."""
    cluster = blocks_of_head() if gated else 1
    return Launch(num_blocks(heads), num_threads(), 0, cluster=cluster, overlap=overlap)
