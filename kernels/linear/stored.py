"""Refuse a checkpoint's tensors whose values a kernel would take on trust."""

import torch

NAN_BYTE = 0x7F
"""The byte of e4m3's NaN, without its sign; all lower bytes are numbers."""

DAMAGED = "the file is damaged or was quantised without saturation; take it from its source again"


def expect_stored(
    function: str,
    name: str,
    tensor: torch.Tensor,
    symbols: str,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    mend: str,
) -> None:
    """Check a tensor whose shape follows from another's by more than equal letters.

    Args:
        function: that was called, for the sentence.
        name: of the argument.
        tensor: as it was given.
        symbols: the shape in letters, such as "[N, K/16]".
        shape: the shape in numbers.
        dtype: expected.
        mend: what to do about another one.

    Raises:
        TypeError: its dtype is not `dtype`.
        ValueError: its shape is not `shape`, which `symbols` spells.
    """
    if tensor.dtype != dtype:
        wanted, got = (str(one).removeprefix("torch.") for one in (dtype, tensor.dtype))
        raise TypeError(f"{function}: {name} must be {wanted} {symbols}, got {got}; {mend}")
    if tensor.shape != shape:
        expected = symbols if symbols == str(list(shape)) else f"{symbols} = {list(shape)}"
        raise ValueError(f"{function}: {name} must be {expected}, got {list(tensor.shape)}; {mend}")


def refuse_empty(function: str, name: str, codes: torch.Tensor) -> None:
    """Refuse a matrix, of any dtype and shape, without rows or inputs.

    Raises:
        ValueError: it has none.
    """
    if not codes.numel():
        raise ValueError(
            f"{function}: {name} are {list(codes.shape)}, expected a row and an input at least; "
            "leave the empty matrix out"
        )


def refuse_nan(function: str, name: str, codes: torch.Tensor) -> None:
    """Refuse codes that are NaN: e4m3, or their bytes as uint8, of any shape but empty.

    Raises:
        ValueError: one is; the sentence names its place.
    """
    raw = codes.view(torch.uint8)
    # 0xff is the greatest byte and 0x7f the greatest signed one, so two maxima find both NaNs
    # without a mask of the matrix's size.
    greatest = torch.stack((raw.amax(), raw.view(torch.int8).amax().view(torch.uint8)))
    unsigned, signed = greatest.tolist()
    if unsigned == NAN_BYTE | 0x80 or signed == NAN_BYTE:
        where = _first((raw & NAN_BYTE) == NAN_BYTE)
        raise ValueError(
            f"{function}: {name}{where} is NaN (byte {raw[tuple(where)].item():#04x}), "
            f"expected a number; {DAMAGED}"
        )


def refuse_signed_or_nan(function: str, name: str, scales: torch.Tensor) -> None:
    """Refuse scales with the sign bit, and NaN: e4m3, of any shape but empty.

    Raises:
        ValueError: one is such; the sentence names its place.
    """
    raw = scales.view(torch.uint8)
    if raw.amax().item() >= NAN_BYTE:
        where = _first(raw >= NAN_BYTE)
        value, byte = scales[tuple(where)].item(), raw[tuple(where)].item()
        raise ValueError(
            f"{function}: {name}{where} is {value} (byte {byte:#04x}), "
            f"expected 0 to 448 with the sign bit clear; {DAMAGED}"
        )


def refuse_bad_scales(function: str, name: str, scales: torch.Tensor) -> None:
    """Refuse multipliers that are negative or not finite: of any floating dtype and shape.

    Raises:
        ValueError: one is; the sentence names its place.
    """
    # A NaN compares false, and so fails as it should.
    good = (scales >= 0) & (scales < torch.inf)
    if not good.all().item():
        where = _first(~good)
        raise ValueError(
            f"{function}: {name}{where or ''} is {scales[tuple(where)].item()}, "
            f"expected a finite number, 0 or more; {DAMAGED}"
        )


def _first(bad: torch.Tensor) -> list[int]:
    """Coordinates of the first true element."""
    index = bad.flatten().view(torch.uint8).argmax()
    return [int(one) for one in torch.unravel_index(index, bad.shape)]
