"""Refuse scales that no quantiser writes, by their bytes on disk, before anything is allocated."""

import numpy as np

from engine.errors import CheckpointError
from engine.model.layouts import StoredWeight
from engine.model.safetensors_header import StoredTensor

AGAIN = "Download the checkpoint again."

PIECE_BYTES = 16 << 20
"""Bytes looked at together."""

UNSIGNED = {"F8_E4M3": "u1", "BF16": "<u2", "F32": "<u4"}
ENDLESS = {"F8_E4M3": 0x7F, "BF16": 0x7F80, "F32": 0x7F80_0000}
"""The lowest bits that are no finite number. As unsigned numbers every negative's are higher."""

NEGATIVE_ZERO = {"BF16": 0x8000, "F32": 0x8000_0000}
"""It is 0 as well. E4M3 scales come without any sign: the 4-bit kernels use the bit otherwise."""

SMALLEST_DIVISOR, LARGEST_DIVISOR = 2.0**-126, 2.0**126
"""Between them a divisor's inverse is a normal fp32, so that inverting rounds by 2^-24 at most."""


def expect_scales(one: StoredWeight) -> None:
    """Look at every scale of a stored weight.

    Raises:
        CheckpointError: one is negative, infinite or not a number, or a divisor is 0 or has no
            inverse. The sentence names tensor and place.
    """
    for scales in (one.scales, one.tensor_scale):
        if scales is not None:
            _expect_finite(scales)
    if one.tensor_scale is not None and one.layout.divides:
        _expect_divisor(one.tensor_scale)


def _expect_finite(scales: StoredTensor) -> None:
    kind, endless = np.dtype(UNSIGNED[scales.dtype]), ENDLESS[scales.dtype]
    for start in range(0, scales.num_bytes, PIECE_BYTES):
        bits = np.frombuffer(_read(scales, start), dtype=kind)
        if not bits.size or bits.max() < endless:
            continue
        wrong = np.flatnonzero((bits >= endless) & (bits != NEGATIVE_ZERO.get(scales.dtype)))
        if wrong.size:
            place = int(wrong[0])
            magnitude = int(bits[place]) & ((1 << 8 * kind.itemsize - 1) - 1)
            raise CheckpointError(
                f"{scales.path}: scale {start // kind.itemsize + place} of '{scales.name[:200]}' "
                f"is {'not finite' if magnitude >= endless else 'negative'}.",
                AGAIN,
            )


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
        with scales.path.open("rb") as file:
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
