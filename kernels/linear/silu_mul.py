"""Offer what stands between the two products of a feed-forward layer."""

import torch
from torch.nn import functional

from kernels.common import interpreter
from kernels.common.expect import Axes
from kernels.common.operands import Operands, order, places

BF16 = (torch.bfloat16,)
LANES, NUM_WARPS = 1024, 4
"""Columns and warps of a program: 16 bytes a lane and load, whole steps of operands."""


def silu_mul(
    gate: torch.Tensor,
    up: torch.Tensor,
    *,
    overlap: bool = False,
    out: torch.Tensor | None = None,
    operands: Operands | None = None,
) -> torch.Tensor:
    """Multiply by a gate that goes through SiLU.

    Args:
        gate: bf16 [T, N], rows contiguous, any row stride: a half of the gate|up product as it is.
        up: bf16 [T, N], rows contiguous, any row stride.
        overlap: start before the previous kernel of the stream has ended (programmatic dependent
            launch). Changes no bit; every kernel of the stream must then wait as this one does.
        out: bf16 [T, N] to write into, rows contiguous. None allocates.
        operands: written with the result as the product behind takes it; None where it does not.

    Returns:
        bf16 [T, N]; `out` where it was given.

    Raises:
        TypeError: a dtype is not bf16.
        ValueError: shapes, strides or devices disagree.

    Numerics:
        SiLU in fp32 -> bf16, the product -> bf16: the bits of `skinny_linear` with ``paired``,
        whose steps are not contracted.

    Side effects:
        One launch on the current stream; safe in graph capture.
    """
    axes = Axes("silu_mul")
    axes.tensor("gate", gate, ("T", "N"), BF16, "pass the gate's product as bf16 rows")
    axes.tensor("up", up, ("T", "N"), BF16, "pass the product of the same rows")
    if out is not None:
        axes.tensor("out", out, ("T", "N"), BF16, "allocate it like gate")
    axes.same_device(gate=gate, up=up, out=out)
    if operands is not None:
        operands.expect("silu_mul", gate)
    if not interpreter.on_kernels(gate):
        fed = functional.silu(gate) * up
        if operands is not None:
            operands.fill(fed)
        return fed if out is None else out.copy_(fed)
    out = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device) if out is None else out
    num_rows, width = gate.shape
    if num_rows and width:
        from kernels.linear.silu_mul_kernel import silu_mul_kernel

        silu_mul_kernel[(num_rows, -(-width // LANES))](
            gate, up, out, *places(operands), num_rows,
            gate.stride(0), up.stride(0), out.stride(0),
            WIDTH=width, LANES=LANES, ORDER=order(operands), OVERLAP=overlap, **_options(overlap),
        )  # fmt: skip
    return out


def _options(overlap: bool) -> dict[str, int | bool]:
    """Return Triton's launch options.

    Multiplications and additions may be contracted, as `launch_options` forbids elsewhere: SiLU of
    a bf16 number rounds to the same bf16 number either way, for all of them (a test computes both).
    """
    return {"num_warps": NUM_WARPS, "launch_pdl": overlap}
