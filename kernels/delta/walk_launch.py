"""Compile, load and launch walk.cu and team.cu; `walk.py` and `fold.py` check arguments."""

import ctypes
from functools import cache
from pathlib import Path

import torch

from kernels.common import gpu, nvrtc
from kernels.common.chips import Capability
from kernels.common.cuda_kernel import CudaKernel, Launch
from kernels.common.operands_arguments import NextOperands, next_operands
from kernels.delta import team
from kernels.delta.gate import OutputGate
from kernels.delta.record import DeltaRecord
from kernels.delta.tile import WARP, WARPS, macros, most_kept, shared_bytes, tiles_of

SOURCE = Path(__file__).with_name("walk.cu")
TEAM_SOURCE = Path(__file__).with_name("team.cu")


class RecordArguments(ctypes.Structure):
    """`Record` of walk_tile.cuh, field for field."""

    _fields_ = [
        ("k", ctypes.c_void_p),
        ("u", ctypes.c_void_p),
        ("decay", ctypes.c_void_p),
        ("parity", ctypes.c_void_p),
        ("num_pending", ctypes.c_void_p),
        ("pending_rows", ctypes.c_void_p),
    ]


class GateArguments(ctypes.Structure):
    """`Gate` of walk_gate.cuh, field for field."""

    _fields_ = [
        ("z", ctypes.c_void_p),
        ("weight", ctypes.c_void_p),
        ("z_stride", ctypes.c_longlong),
        ("wide_weight", ctypes.c_int),
        ("eps", ctypes.c_float),
        ("next", NextOperands),
    ]


class WalkArguments(ctypes.Structure):
    """`Walk` of walk_arguments.cuh, field for field."""

    _fields_ = [
        ("q", ctypes.c_void_p),
        ("v", ctypes.c_void_p),
        ("beta", ctypes.c_void_p),
        ("state", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("saves", ctypes.c_void_p),
        ("restores", ctypes.c_void_p),
        ("record", RecordArguments),
        ("gate", GateArguments),
        ("rows", ctypes.c_int),
        ("key_heads", ctypes.c_int),
        ("value_heads", ctypes.c_int),
        ("slots", ctypes.c_int),
        ("overlap", ctypes.c_int),
    ]


class FoldArguments(ctypes.Structure):
    """`Fold` of walk.cu, field for field."""

    _fields_ = [
        ("state", ctypes.c_void_p),
        ("record", RecordArguments),
        ("key_heads", ctypes.c_int),
        ("value_heads", ctypes.c_int),
    ]


def launch_walk(
    q: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
    record: DeltaRecord,
    pending: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    tables: tuple[torch.Tensor, torch.Tensor],
    out: torch.Tensor,
    gate: OutputGate | None,
    *,
    overlap: bool,
) -> None:
    """Launch one walk; `delta_walk` has checked the arguments.

    Args:
        q: fp32 [T, G, D].
        v: bf16 [T, H, E].
        beta: fp32 [T, H].
        state: fp32 [H, D, E].
        record: of one layer.
        pending: parity, num_pending and pending_rows.
        tables: saves and restores.
        out: bf16 [T, H, E].
        gate: what follows the walk; None writes its outputs.
        overlap: start before the previous kernel of the stream has ended.
    """
    num_rows, key_heads = q.shape[:2]
    heads, key_dim, value_dim = state.shape
    arguments = WalkArguments(
        q.data_ptr(),
        v.data_ptr(),
        beta.data_ptr(),
        state.data_ptr(),
        out.data_ptr(),
        *(table.data_ptr() for table in tables),
        _record(record, pending),
        gate_arguments(gate),
        num_rows,
        key_heads,
        heads,
        most_kept(num_rows),
        overlap,
    )
    device, gated = q.get_device(), gate is not None
    size = (num_rows, heads, key_dim, value_dim)
    if _goes_by_teams(num_rows, value_dim, device, gated=gated):
        kernel = load_team(key_dim, value_dim, device, gated=gated)
        kernel.launch(_team_shape(*size, gated=gated, overlap=overlap), arguments)
    else:
        kernel = load("delta_walk", key_dim, value_dim, device, gated=gated)
        kernel.launch(_walk_shape(*size, gated=gated, overlap=overlap), arguments)


def launch_fold(
    state: torch.Tensor,
    record: DeltaRecord,
    pending: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> None:
    """Launch the fold of all layers; `delta_fold` has checked the arguments.

    Args:
        state: fp32 [layers, H, D, E].
        record: of all layers.
        pending: parity, num_pending and pending_rows.
    """
    layers, heads, key_dim, value_dim = state.shape
    arguments = FoldArguments(state.data_ptr(), _record(record, pending), record.k.shape[-2], heads)
    shape = Launch(layers * heads * tiles_of(value_dim, gated=False), WARP, 0)
    fold = load("delta_fold", key_dim, value_dim, state.get_device(), gated=False)
    fold.launch(shape, arguments)


def cubin(key_dim: int, value_dim: int, capability: Capability, *, gated: bool) -> bytes:
    """Compile both kernels of walk.cu; needs no GPU.

    Args:
        key_dim: D.
        value_dim: E.
        capability: compute capability, such as (12, 1).
        gated: the walk ends in a gate.
    """
    chosen = macros(key_dim, value_dim, gated=gated)
    return nvrtc.compile_file(SOURCE, capability, chosen)


def team_cubin(key_dim: int, value_dim: int, capability: Capability, *, gated: bool) -> bytes:
    """Compile the walk of team.cu, as `cubin` does those of walk.cu."""
    chosen = team.macros(key_dim, value_dim, gated=gated)
    return nvrtc.compile_file(TEAM_SOURCE, capability, chosen)


@cache
def load(name: str, key_dim: int, value_dim: int, device: int, *, gated: bool) -> CudaKernel:
    """Compile and load a kernel of walk.cu on the current device, once."""
    capability = gpu.chip(device)
    return CudaKernel(cubin(key_dim, value_dim, capability, gated=gated), name)


@cache
def load_team(key_dim: int, value_dim: int, device: int, *, gated: bool) -> CudaKernel:
    """Compile and load the walk of team.cu on the current device, once."""
    capability = gpu.chip(device)
    return CudaKernel(team_cubin(key_dim, value_dim, capability, gated=gated), "delta_walk_team")


@cache
def _goes_by_teams(num_rows: int, value_dim: int, device: int, *, gated: bool) -> bool:
    return team.takes(num_rows, value_dim, gpu.choices(device), gated=gated)


@cache
def _walk_shape(
    num_rows: int, heads: int, key_dim: int, value_dim: int, *, gated: bool, overlap: bool
) -> Launch:
    """Return the one object by which a kernel finds what the driver wants of a launch."""
    of_a_head = tiles_of(value_dim, gated=gated) // WARPS[gated]
    shared = shared_bytes(num_rows, key_dim, value_dim, gated=gated)
    cluster = of_a_head if gated else 1
    return Launch(heads * of_a_head, WARP * WARPS[gated], shared, cluster=cluster, overlap=overlap)


@cache
def _team_shape(
    num_rows: int, heads: int, key_dim: int, value_dim: int, *, gated: bool, overlap: bool
) -> Launch:
    """Return the one object of a launch of team.cu, as `_walk_shape` does."""
    of_a_head = team.blocks_of(value_dim)
    shared = team.shared_bytes(num_rows, key_dim)
    cluster = of_a_head if gated else 1
    return Launch(heads * of_a_head, team.THREADS, shared, cluster=cluster, overlap=overlap)


def _record(
    record: DeltaRecord, pending: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
) -> RecordArguments:
    tensors = (record.k, record.u, record.decay, *pending)
    return RecordArguments(*(tensor.data_ptr() for tensor in tensors))


def gate_arguments(gate: OutputGate | None) -> GateArguments:
    """Return a gate as kernels take it; of none, what is never read."""
    if gate is None:
        return GateArguments()
    wide = gate.weight.dtype == torch.float32
    return GateArguments(
        gate.z.data_ptr(), gate.weight.data_ptr(), gate.z.stride(0), wide, gate.eps,
        next_operands(gate.operands),
    )  # fmt: skip
