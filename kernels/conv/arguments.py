"""Check the arguments of the convolution, and name what its launches are made of."""

from dataclasses import dataclass

import torch

from kernels.common.expect import Axes

BF16, FP32, INT32 = (torch.bfloat16,), (torch.float32,), (torch.int32,)

TAPS = 4
"""Taps of the convolution: a window is a row and the three before it."""

PRODUCT_LANES = 512
"""Sums side by side in the product of a | b; each takes every 512th input."""


@dataclass(frozen=True, slots=True)
class GateInputs:
    """What a | b are the product of, for the kernel to multiply.

    Attributes:
        rows: bf16 [T, K], rows contiguous, any row stride.
        weight: bf16 [2 H, K] or wider, rows contiguous; what is beyond K is not read.
    """

    rows: torch.Tensor
    weight: torch.Tensor


def checked_gates(axes: Axes, ab: torch.Tensor | GateInputs) -> None:
    """Check a | b, or what they are the product of, and bind T and 2 H.

    Args:
        axes: of the call.
        ab: bf16 [T, 2 H], or what makes it.

    Raises:
        TypeError: a dtype is not bf16.
        ValueError: a shape or a last stride does not fit, or the weight has too few inputs.
    """
    if isinstance(ab, torch.Tensor):
        axes.tensor("ab", ab, ("T", "2 H"), BF16, "pass the a | b product of the same rows")
        return
    axes.tensor("ab.rows", ab.rows, ("T", "K"), BF16, "pass the rows that x is the product of")
    weight, inputs = ab.weight, axes["K"]
    axes.tensor("ab.weight", weight, ("2 H", "Kp"), BF16, "pass a over b as bf16 rows")
    if axes["Kp"] < inputs:
        raise ValueError(
            f"conv_gates: ab.weight has {axes['Kp']} inputs and ab.rows {inputs}; "
            "pass the weight of these rows"
        )


def checked_layer(
    axes: Axes,
    x: torch.Tensor,
    ab: torch.Tensor | GateInputs,
    weight: torch.Tensor,
    decay_rate: torch.Tensor,
    dt_bias: torch.Tensor,
) -> Axes:
    """Check the inputs that both forms have, and bind T, C and H.

    Args:
        axes: of the call; returned.
        x: bf16 [T, C].
        ab: bf16 [T, 2 H], or what makes it.
        weight: bf16 [C, taps].
        decay_rate: fp32 [H].
        dt_bias: fp32 [H].

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: a shape or a last stride is not.
    """
    axes.tensor("x", x, ("T", "C"), BF16, "pass the q | k | v part of the fused product")
    checked_gates(axes, ab)
    axes.tensor("weight", weight, ("C", "taps"), BF16, "pass conv1d.weight without its middle axis")
    axes.tensor("decay_rate", decay_rate, ("H",), FP32, "pass -exp(A_log) of every value head")
    axes.tensor("dt_bias", dt_bias, ("H",), FP32, "pass the bias of every value head")
    return axes


def expect_width(function: str, axes: Axes) -> None:
    """Check that heads, channels, gates and taps belong together.

    Raises:
        ValueError: they do not.
    """
    heads, width = 2 * axes["G"] + axes["H"], axes["D"]
    if (axes["C"], axes["2 H"], axes["taps"]) != (heads * width, 2 * axes["H"], TAPS):
        raise ValueError(
            f"{function}: {axes['G']} key and {axes['H']} value heads of {width} have "
            f"C = {heads * width} channels, 2 H = {2 * axes['H']} gates and {TAPS} taps; got "
            f"x of {axes['C']}, ab of {axes['2 H']}, weight of {axes['taps']} taps; "
            "pass q | k | v, a | b and the weight of one layer"
        )


def expect_contiguous(function: str, **tensors: torch.Tensor) -> None:
    """Check tensors that the kernels index without strides.

    Raises:
        ValueError: one is not contiguous.
    """
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(
                f"{function}: {name} must be contiguous, got strides {list(tensor.stride())} for "
                f"{list(tensor.shape)}; call .contiguous() first"
            )


def constants_of(function: str, axes: Axes) -> dict[str, int]:
    """Return the compile-time constants of a layer's heads.

    Raises:
        ValueError: the heads are no power of two from 16 on, which the kernels' blocks are.
    """
    width, heads = axes["D"], axes["H"]
    if width < 16 or width & (width - 1):
        raise ValueError(
            f"{function}: the kernel takes heads of a power of two from 16 on, got {width}; "
            "a model with other heads runs on the CPU"
        )
    return {
        "KEY_HEADS": axes["G"],
        "VALUE_HEADS": heads,
        "HEAD_LANES": 1 << (heads - 1).bit_length(),
        "D": width,
    }
