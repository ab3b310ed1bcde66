"""Say what may follow a walk: a norm of each head's outputs, and a gate."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from kernels.common.expect import Axes
from kernels.common.operands import Operands
from kernels.delta.tile import MAX_GATED_DIM

GATED_FROM = 4
"""Rows of a round from which norm and gate are quicker as the end of a walk than in a launch of
their own, whose bits are the same (README)."""

RowMean = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class OutputGate:
    """A norm over each head's E outputs, a weight and a gate.

    out <- o / rms(o) * weight * silu(z), rms(o) = sqrt(mean(o^2) + eps).

    Attributes:
        z: bf16 [T, H, E], heads contiguous, any row stride of whole 16 bytes.
        weight: bf16 or fp32 [E], contiguous, on a GPU 16 bytes aligned.
        eps: added to the mean square.
        operands: of rows of H E inputs, E a multiple of 128: written with the result as the product
            behind takes it; None where it does not.

    Numerics:
        fp32; squares summed by a tree of neighbours, square root and divisions correctly rounded.
        The normalised output -> bf16; its product with a bf16 weight -> bf16 (an fp32 weight's
        stays fp32); the gated result -> bf16. The bits of `gated_rms_norm` of the norm family.

    Source:
        `Qwen3_5RMSNormGated`, transformers 5.24.
    """

    z: torch.Tensor
    weight: torch.Tensor
    eps: float
    operands: Operands | None = None


def gate_reference(
    out: torch.Tensor,
    gate: OutputGate,
    mean_square: RowMean = lambda x: x.pow(2).mean(-1, keepdim=True),
    silu: Callable[[torch.Tensor], torch.Tensor] = functional.silu,
) -> torch.Tensor:
    """Normalise and gate outputs in plain torch.

    Args:
        out: bf16 [T, H, E].
        gate: of the same rows.
        mean_square: order of the sum of squares: fp32 [..., E] -> [..., 1].
        silu: fp32 -> fp32.

    Returns:
        bf16 [T, H, E].
    """
    wide = out.float()
    normed = (wide * torch.rsqrt(mean_square(wide) + gate.eps)).to(out.dtype)
    return (gate.weight * normed * silu(gate.z.float())).to(out.dtype)


def expect_gate(axes: Axes, name: str, gate: OutputGate, q: torch.Tensor) -> None:
    """Check a gate against a walk.

    Args:
        axes: of the call, T, H and E bound.
        name: public name that opens a message.
        gate: as `OutputGate` describes it.
        q: of the walk, for its device.

    Raises:
        TypeError: a dtype is not one of `OutputGate`.
        ValueError: a shape, stride, alignment or device disagrees, operands are for other rows, or
            E is above 128.
    """
    axes.tensor("gate.z", gate.z, ("T", "H", "E"), (torch.bfloat16,), "pass z of the same rows")
    weights = (torch.bfloat16, torch.float32)
    axes.tensor("gate.weight", gate.weight, ("E",), weights, "pass the norm weight of a head")
    axes.same_device(**{"q": q, "gate.z": gate.z, "gate.weight": gate.weight})
    if gate.operands is not None:
        gate.operands.expect_heads(name, gate.z)
    if axes["E"] > MAX_GATED_DIM:
        raise ValueError(
            f"{name}: heads of E = {axes['E']} values came with a gate, which takes up to "
            f"{MAX_GATED_DIM}; pass gate=None and norm the outputs apart"
        )
    z, width = gate.z, axes["E"]
    whole = z.stride(1) == width or axes["H"] == 1
    if not whole or z.stride(0) % 8 or z.data_ptr() % 16 or not gate.weight.is_contiguous():
        raise ValueError(
            f"{name}: gate.z must hold its heads side by side, rows 16 bytes aligned, and "
            f"gate.weight be contiguous; got strides {list(z.stride())} from {z.data_ptr():#x} and "
            f"{list(gate.weight.stride())}; pass the part z of the fused product"
        )
    if gate.weight.is_cuda and gate.weight.data_ptr() % 16:
        raise ValueError(
            f"{name}: gate.weight lies at {gate.weight.data_ptr():#x}, where 16-byte loads cannot "
            "read it; pass a copy of it"
        )
