"""Hand a kernel in CUDA C++ the places where it writes operands (operands.cuh)."""

import ctypes

from kernels.common.operands import BLOCK_ROWS, Operands


class NextOperands(ctypes.Structure):
    """`NextOperands` of operands.cuh, field for field."""

    _fields_ = [
        ("image", ctypes.c_void_p),
        ("largest", ctypes.c_void_p),
        ("inputs", ctypes.c_int),
        ("shift", ctypes.c_int),
        ("lane", ctypes.c_int),
        ("pair", ctypes.c_int),
    ]


def next_operands(operands: Operands | None, first_row: int = 0) -> NextOperands:
    """Return the places of the rows from one on, a multiple of 8; none where nothing is written."""
    if operands is None:
        return NextOperands()
    image, largest = addresses(operands, first_row)
    shift = operands.order.bit_length() - 1
    lane, pair = (2, 64) if operands.order % 2 else (8, 2)
    return NextOperands(image, largest, operands.num_inputs, shift, lane, pair)


def addresses(operands: Operands, first_row: int = 0) -> tuple[int, int]:
    """Return where the operands and magnitudes of the rows from one on lie."""
    image, largest = operands.image, operands.largest
    return (
        image.data_ptr() + first_row // BLOCK_ROWS * image.stride(0) * image.element_size(),
        largest.data_ptr() + first_row * largest.stride(0) * largest.element_size(),
    )
