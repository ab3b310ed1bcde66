"""Refuse scales that no quantiser writes, by their bytes on disk, before anything is allocated."""

from collections.abc import Mapping

import numpy as np

from engine.errors import CheckpointError
from engine.model.layouts import StoredWeight
from engine.model.plain_file import open_plain
from engine.model.safetensors_header import StoredTensor

AGAIN = "Download the checkpoint again."

PIECE_BYTES = 16 << 20
"""Bytes looked at together."""

UNSIGNED = {"F8_E4M3": "u1", "BF16": "<u2", "F32": "<u4"}
ENDLESS = {"F8_E4M3": 0x7F, "BF16": 0x7F80, "F32": 0x7F80_0000}
"""The lowest bits that are no finite number. As unsigned numbers every negative's are higher."""

TOO_LARGE = {"F8_E4M3": 0x7F, "BF16": 0x7980, "F32": 0x7980_0000}
"""2^116, and NaN for e4m3: beyond it the largest code, 6 x 448 for 4 bits, is no finite BF16."""

NEGATIVE_ZERO = {"BF16": 0x8000, "F32": 0x8000_0000}
"""It is 0 as well. E4M3 scales come without any sign: the 4-bit kernels use the bit otherwise."""

SMALLEST_DIVISOR, LARGEST_DIVISOR = 2.0**-116, 2.0**126
"""Between them a divisor's inverse is a normal fp32, so that inverting rounds by 2^-24 at most, and
not too large for a scale."""


def expect_scales(one: StoredWeight) -> None:
    """Look at every scale of a stored weight.

    Raises:
        CheckpointError: one is negative, infinite, not a number or so large that codes times it
            would be, or a divisor is 0 or has no such inverse. The sentence names tensor and
            place.
    """
    if one.scales is not None:
        _expect_below(TOO_LARGE, one.scales)
    if one.tensor_scale is not None and one.layout.divides:
        _expect_below(ENDLESS, one.tensor_scale)
        _expect_divisor(one.tensor_scale)
    elif one.tensor_scale is not None:
        _expect_below(TOO_LARGE, one.tensor_scale)


def _expect_below(limits: Mapping[str, int], scales: StoredTensor) -> None:
    """Refuse a scale whose bits are at or beyond its dtype's limit, negative zero apart."""
    kind, limit = np.dtype(UNSIGNED[scales.dtype]), limits[scales.dtype]
    for start in range(0, scales.num_bytes, PIECE_BYTES):
        bits = np.frombuffer(_read(scales, start), dtype=kind)
        if not bits.size or bits.max() < limit:
            continue
        wrong = np.flatnonzero((bits >= limit) & (bits != NEGATIVE_ZERO.get(scales.dtype)))
        if wrong.size:
            place = int(wrong[0])
            raise CheckpointError(
                f"{scales.path}: scale {start // kind.itemsize + place} of '{scales.name[:200]}' "
                f"is {_fault(int(bits[place]), scales.dtype)}.",
                AGAIN,
            )


def _fault(bits: int, dtype: str) -> str:
    sign = 1 << 8 * np.dtype(UNSIGNED[dtype]).itemsize - 1
    if bits & (sign - 1) >= ENDLESS[dtype]:
        return "not finite"
    return "negative" if bits & sign else "too large for any weight"


def _expect_divisor(scale: StoredTensor) -> None:
    (value,) = np.frombuffer(_read(scale, 0), dtype="<f4").tolist()
    if not SMALLEST_DIVISOR <= value <= LARGEST_DIVISOR:
        raise CheckpointError(
            f"{scale.path}: '{scale.name[:200]}' is {value:g}, expected a divisor from "
            f"{SMALLEST_DIVISOR:.3g} to {LARGEST_DIVISOR:.3g}.",
            AGAIN,
        )


def _read(scales: StoredTensor, start: int) -> bytes:
    num_bytes = min(PIECE_BYTES, scales.num_bytes - start)
    try:
        with open_plain(scales.path) as file:
            file.seek(scales.offset + start)
            raw = file.read(num_bytes)
    except OSError as problem:
        raise CheckpointError(f"{scales.path} does not read: {problem.strerror}.", AGAIN) from None
    if len(raw) != num_bytes:
        raise CheckpointError(
            f"{scales.path} ended while '{scales.name[:200]}' was read.",
            "Something changed the file; load again.",
        )
    return raw
