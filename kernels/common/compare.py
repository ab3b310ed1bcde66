"""Compare what a kernel wrote with what it should have: by bits, or against an error bound.

Both answers are None when all is well, else a sentence that names the first bad coordinate, both
values and how many elements are wrong. NaN never passes an error bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

BF16_ROUNDING = 2.0**-8
"""Largest relative error of one rounding to bf16."""

FP32_ROUNDING = 2.0**-24
"""Largest relative error of one rounding to fp32."""

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integer dtype that shows the bits of an element, by its size in bytes."""


@dataclass(frozen=True)
class Tolerance:
    """Bound |got - truth| <= relative * |truth| + absolute, with the derivation in words."""

    relative: float
    absolute: float
    reason: str


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements' bits as integers of the same size, contiguous."""
    return tensor.contiguous().view(BITS[tensor.element_size()])


def different_bits(got: torch.Tensor, want: torch.Tensor, axes: Sequence[str]) -> str | None:
    """Say how two tensors differ in bits; None when they do not.

    Args:
        got: what the kernel wrote.
        want: same shape and dtype.
        axes: letters of the axes, for the coordinate in the message.
    """
    if got.dtype != want.dtype or got.shape != want.shape:
        return (
            f"got {got.dtype} {list(got.shape)} where {want.dtype} {list(want.shape)} was expected"
        )
    if got.device != want.device:
        got, want = got.cpu(), want.cpu()
    return _first_wrong(bits_of(got) != bits_of(want), got, want, axes, "differ in bits")


def beyond_tolerance(
    got: torch.Tensor,
    truth: torch.Tensor,
    tolerance: Tolerance,
    axes: Sequence[str],
    slack: torch.Tensor | None = None,
) -> str | None:
    """Say where an output leaves its error bound; None when it nowhere does.

    Args:
        got: what the kernel wrote.
        truth: fp64, same shape.
        tolerance: the bound. An infinite truth is met only by the same infinity.
        axes: letters of the axes, for the coordinate in the message.
        slack: fp64, same shape: an error that each element may have besides, where it follows
            from the inputs.
    """
    if got.device != truth.device:
        got, truth = got.cpu(), truth.cpu()
    got64, truth = got.double(), truth.double()
    error = torch.where(got64 == truth, 0.0, (got64 - truth).abs())
    bound = tolerance.relative * truth.abs() + tolerance.absolute
    bound = bound if slack is None else bound + slack.to(bound.device)
    bound = torch.where(truth.isinf(), 0.0, bound)
    # "not within" instead of "beyond": a NaN on either side compares false and so is wrong.
    wrong = ~(error <= bound)
    rule = f"are beyond {tolerance.relative:.3g} |truth| + {tolerance.absolute:.3g}"
    rule = rule if slack is None else f"{rule} + slack up to {slack.max().item():.3g}"
    return _first_wrong(wrong, got64, truth, axes, rule)


def share_of_different_bits(got: torch.Tensor, want: torch.Tensor) -> float:
    """Return the share of elements, 0 to 1, whose bits differ."""
    wrong = bits_of(got.cpu()) != bits_of(want.cpu())
    return wrong.float().mean().item()


def bf16_steps(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """Count the bf16 numbers between two bf16 tensors, element by element.

    Returns:
        int32, 0 where the values are equal (also +0 and -0); a NaN counts as 65536 steps.
    """
    steps = (_place(got) - _place(want)).abs()
    return torch.where(got.isnan() | want.isnan(), 1 << 16, steps)


def _place(tensor: torch.Tensor) -> torch.Tensor:
    """Number the bf16 values in their order along the real line, both zeros at 0."""
    bits = bits_of(tensor).int()
    return torch.where(bits < 0, -(bits & 0x7FFF), bits)


def _first_wrong(
    wrong: torch.Tensor, got: torch.Tensor, want: torch.Tensor, axes: Sequence[str], rule: str
) -> str | None:
    count = int(wrong.sum())
    if count == 0:
        return None
    first = tuple(int(index) for index in wrong.nonzero()[0])
    where = ", ".join(f"{axis}={index}" for axis, index in zip(axes, first, strict=True))
    return (
        f"{count} of {wrong.numel()} elements {rule}; "
        f"first at [{where}]: got {got[first].item()!r}, want {want[first].item()!r}"
    )
