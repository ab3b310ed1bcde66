"""Repair what Triton's interpreter computes wrong without a word, by way of torch.

Triton 3.7 keeps bf16 as raw 16-bit integers. Unrepaired it truncates fp32 -> bf16, gives about 2 %
wrong e4m3 codes, and adds, multiplies and dots the raw bits. `tl.sum` of bf16 stays wrong: kernels
convert to fp32 before they reduce.
"""
# ruff: noqa: ANN401, SLF001  the interpreter's internals are private and untyped

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

from kernels.common.e4m3 import E4M3_MAX

TORCH_DTYPES: dict[Any, torch.dtype] = {
    tl.float64: torch.float64,
    tl.float32: torch.float32,
    tl.float16: torch.float16,
    tl.bfloat16: torch.bfloat16,
    tl.float8e4nv: torch.float8_e4m3fn,
    tl.float8e5: torch.float8_e5m2,
}
INTEGERS: dict[int, Any] = {1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64}
STORED_AS_BITS: dict[torch.dtype, tuple[torch.dtype, Any]] = {
    torch.bfloat16: (torch.int16, np.uint16),
    torch.float8_e4m3fn: (torch.uint8, np.uint8),
    torch.float8_e5m2: (torch.uint8, np.uint8),
}
"""Dtypes that numpy lacks: torch's integer of the size, and the array dtype Triton keeps."""

_unrepaired_convert = interpreter._convert_float


def apply() -> None:
    """Replace the faulty steps of the interpreter in this process."""
    builder: Any = interpreter.InterpreterBuilder
    interpreter._convert_float = _convert
    builder.create_dot = _dot
    builder.create_fadd = _in_fp32(builder.create_fadd, np.add)
    builder.create_fsub = _in_fp32(builder.create_fsub, np.subtract)
    builder.create_fmul = _in_fp32(builder.create_fmul, np.multiply)
    builder.create_fdiv = _in_fp32(builder.create_fdiv, np.divide)


def _to_torch(array: Any, dtype: Any) -> torch.Tensor:
    kind = TORCH_DTYPES[dtype]
    array = np.array(array, copy=True, order="C")
    return torch.from_numpy(array.view(INTEGERS[kind.itemsize]).reshape(array.shape)).view(kind)


def _to_numpy(tensor: torch.Tensor) -> Any:
    if tensor.dtype not in STORED_AS_BITS:
        return tensor.numpy()
    as_integer, kept = STORED_AS_BITS[tensor.dtype]
    return tensor.view(as_integer).numpy().view(kept)


def _convert(data: Any, source: Any, target: Any, rounding: Any) -> Any:
    """Convert between float dtypes, to nearest even unless truncation is asked for."""
    known = source in TORCH_DTYPES and target in TORCH_DTYPES
    if not known or rounding == interpreter._ir.ROUNDING_MODE.RTZ:
        return _unrepaired_convert(data, source, target, rounding)
    values = _to_torch(data, source)
    if target == tl.float8e4nv:
        # the hardware saturates where torch gives NaN; a NaN stays one through clamp.
        values = values.float().clamp(-E4M3_MAX, E4M3_MAX)
    return _to_numpy(values.to(TORCH_DTYPES[target]).contiguous())


def _widen(handle: Any) -> Any:
    """Return a handle's values as fp32, integers as they are."""
    dtype = handle.dtype.scalar
    return _to_torch(handle.data, dtype).float().numpy() if dtype in TORCH_DTYPES else handle.data


def _dot(self: Any, a: Any, b: Any, d: Any, *_precision: Any) -> Any:
    del self
    product = np.matmul(_widen(a), _widen(b), dtype=d.data.dtype)
    return interpreter.TensorHandle(product + d.data, d.dtype.scalar)


def _in_fp32(unrepaired: Callable[..., Any], operation: Callable[..., Any]) -> Any:
    """Compute an operation of bf16 operands in fp32 and round it; leave other dtypes alone."""

    def compute(self: Any, left: Any, right: Any) -> Any:
        if left.dtype.scalar != tl.bfloat16:
            return unrepaired(self, left, right)
        result = torch.from_numpy(np.asarray(operation(_widen(left), _widen(right))))
        return interpreter.TensorHandle(_to_numpy(result.bfloat16()), tl.bfloat16)

    return compute
