"""Compile, load and launch walk.cu; arguments are checked by `walk.py` and `fold.py`."""

import ctypes
from functools import cache
from pathlib import Path

import torch

from kernels.common import nvrtc
from kernels.common.nvrtc import CudaKernel, Launch
from kernels.delta.record import DeltaRecord
from kernels.delta.tile import WARP, kept_bytes, macros, num_tiles

SOURCE = Path(__file__).with_name("walk.cu")


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


class WalkArguments(ctypes.Structure):
    """`Walk` of walk.cu, field for field."""

    _fields_ = [
        ("q", ctypes.c_void_p),
        ("v", ctypes.c_void_p),
        ("beta", ctypes.c_void_p),
        ("state", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("saves", ctypes.c_void_p),
        ("restores", ctypes.c_void_p),
        ("record", RecordArguments),
        ("rows", ctypes.c_int),
        ("key_heads", ctypes.c_int),
        ("value_heads", ctypes.c_int),
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
        num_rows,
        key_heads,
        heads,
        overlap,
    )
    shape = _walk_shape(num_rows, heads, key_dim, value_dim, overlap)
    load("delta_walk", key_dim, value_dim, q.get_device()).launch(shape, arguments)


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
    shape = Launch(layers * num_tiles(heads, value_dim), WARP, 0)
    load("delta_fold", key_dim, value_dim, state.get_device()).launch(shape, arguments)


def cubin(key_dim: int, value_dim: int, target: str) -> bytes:
    """Compile both kernels for a target such as "sm_121a"; needs no GPU."""
    return nvrtc.compile_cubin(_source(), target, macros(key_dim, value_dim))


@cache
def load(name: str, key_dim: int, value_dim: int, device: int) -> CudaKernel:
    """Compile and load a kernel of walk.cu on the current device, once."""
    target = nvrtc.architecture(torch.cuda.get_device_capability(device))
    return CudaKernel(cubin(key_dim, value_dim, target), name)


@cache
def _walk_shape(num_rows: int, heads: int, key_dim: int, value_dim: int, overlap: bool) -> Launch:
    """Return the one object by which a kernel finds what the driver wants of a launch."""
    kept = kept_bytes(num_rows, key_dim)
    return Launch(num_tiles(heads, value_dim), WARP, kept, overlap=overlap)


@cache
def _source() -> str:
    return nvrtc.read_source(SOURCE)


def _record(
    record: DeltaRecord, pending: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
) -> RecordArguments:
    tensors = (record.k, record.u, record.decay, *pending)
    return RecordArguments(*(tensor.data_ptr() for tensor in tensors))
