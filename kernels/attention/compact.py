"""Move the keys and values of accepted rows to the slots of their positions, after an accept."""

import ctypes

import torch

from kernels.attention.kv_codes import KV_DTYPES
from kernels.attention.verify_launch import load
from kernels.attention.verify_tile import HEAD_DIM
from kernels.common.cuda_kernel import Launch
from kernels.common.expect import Axes

INT32 = (torch.int32,)

_LANES = 32  # that move a slot together


class CompactArguments(ctypes.Structure):
    """`Problem` of compact.cu, field for field."""

    _fields_ = [
        ("keys", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("start", ctypes.c_void_p),
        ("num", ctypes.c_void_p),
        ("rows", ctypes.c_void_p),
        ("key_layer", ctypes.c_longlong),
        ("key_head", ctypes.c_longlong),
        ("value_layer", ctypes.c_longlong),
        ("value_head", ctypes.c_longlong),
        ("layers", ctypes.c_int),
        ("groups", ctypes.c_int),
        ("advanced", ctypes.c_int),
    ]


def attention_compact(
    keys: torch.Tensor,
    values: torch.Tensor,
    start: torch.Tensor,
    num: torch.Tensor,
    rows: torch.Tensor,
    *,
    advanced: bool = False,
    overlap: bool = False,
) -> None:
    """Move slot start + rows[j] to slot start + j for j < num, in all layers; in place.

    The verify of a tree leaves row i's key in slot start + i. Accepted rows are a path, whose
    positions are start, start + 1, ...; in a chain they lie there already and nothing is moved.

    Args:
        keys: bf16 or e4m3 [L, G, S, 256], slots contiguous, 16-byte aligned, any layer and head
            strides that are multiples of 8.
        values: [L, G, S, 256] of the keys' dtype, likewise.
        start: int32 [1] on the device: committed positions before the accepted rows.
        num: int32 [1] on the device: accepted rows, 0 to 32.
        rows: int32 [32] on the device: the accepted rows, ascending.
        advanced: `start` counts the accepted rows already; num is taken off.
        overlap: start before the previous kernel of the stream has ended, and let the next one.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides, alignment or devices disagree.

    Side effects:
        One launch on the current stream; safe in graph capture after a first call.
    """
    name = "attention_compact"
    axes = Axes(name)
    axes.tensor("keys", keys, ("L", "G", "S", "D"), KV_DTYPES, "pass all layers' keys")
    axes.tensor("values", values, ("L", "G", "S", "D"), (keys.dtype,), "pass all layers' values")
    axes.tensor("start", start, ("1",), INT32, "pass the engine's device scalar")
    axes.tensor("num", num, ("1",), INT32, "pass num_pending")
    axes.tensor("rows", rows, ("32",), INT32, "pass pending_rows")
    axes.same_device(keys=keys, values=values, start=start, num=num, rows=rows)
    if not keys.is_cuda:
        _on_cpu(keys, values, int(start) - (int(num) if advanced else 0), rows[: int(num)])
        return
    for kind, tensor in (("keys", keys), ("values", values)):
        strides = tensor.stride()
        aligned = tensor.data_ptr() % 16 == 0 and not (strides[0] % 8 or strides[1] % 8)
        if axes["D"] != HEAD_DIM or strides[2] != HEAD_DIM or not aligned:
            raise ValueError(
                f"{name}: {kind} must have slots of {HEAD_DIM} side by side, 16-byte aligned, got "
                f"{list(tensor.shape)} with strides {list(strides)}; pass the store itself"
            )
    choices = (("KV_BYTES", keys.itemsize),)
    kernel = load("compact", choices, overlap, keys.get_device())
    blocks = 2 * axes["L"] * axes["G"]
    kernel.launch(
        Launch(blocks, _LANES, 0, overlap=overlap),
        CompactArguments(
            keys.data_ptr(), values.data_ptr(), start.data_ptr(), num.data_ptr(), rows.data_ptr(),
            keys.stride(0) // 8, keys.stride(1) // 8, values.stride(0) // 8, values.stride(1) // 8,
            axes["L"], axes["G"], int(advanced),
        ),
    )  # fmt: skip


def _on_cpu(keys: torch.Tensor, values: torch.Tensor, first: int, rows: torch.Tensor) -> None:
    for store in (keys, values):
        own = store[:, :, first:]
        own[:, :, : rows.shape[0]] = own[:, :, rows.long()]
