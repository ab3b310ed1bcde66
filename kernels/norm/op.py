"""Offer the norms: check arguments, choose the build, launch.

CUDA tensors go to the Triton kernels, overlapped sums of few rows to rows.cu, CPU tensors to the
torch references; in a process whose kernels were built for Triton's interpreter
(`common/interpreter.py`, checks only) CPU tensors go to the Triton kernels too. Nothing else
launches these kernels. The device code is imported at the first launch: a CPU without Triton runs
the references.
"""

import torch

from kernels.common import interpreter
from kernels.common.expect import Axes
from kernels.common.operands import Operands, order, places
from kernels.norm import tile as tiles
from kernels.norm.reference import (
    add_rms_norm_reference,
    gated_rms_norm_reference,
    rms_norm_reference,
)
from kernels.norm.rows_launch import launch_rows, takes
from kernels.norm.tile import NormTile

ACTIVATION = (torch.bfloat16,)
WEIGHT = (torch.bfloat16, torch.float32)


def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    *,
    tile: NormTile | None = None,
    overlap: bool = False,
    out: torch.Tensor | None = None,
    operands: Operands | None = None,
) -> torch.Tensor:
    """Normalise rows by their root mean square and scale them by 1 + weight.

    Args:
        x: bf16 [T, D], rows contiguous, any row stride. |x| <= 2^57, where squares still sum.
        weight: bf16 or fp32 [D], contiguous: the checkpoint's zero-centred weight.
        eps: added to the mean square.
        tile: launch choice; None for the default of the width. Changes no bit.
        overlap: start before the previous kernel of the stream has ended (programmatic dependent
            launch). Changes no bit; every kernel of the stream must then wait as this one does.
        out: bf16 [T, D] to write into, rows contiguous; may be x. None allocates.
        operands: written with the result as the product behind takes it; None where it does not.

    Returns:
        bf16 [T, D]; `out` where it was given.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree, or the tile does not fit the width.

    Numerics:
        fp32, sum of squares over a fixed tree, square root and division correctly rounded, one
        rounding to bf16. Bit-equal to `rms_norm_reference` wherever the row's 1 / rms has the bits
        of torch's own sum; else within one bf16 step of it. A row's bits depend on the row alone.

    Side effects:
        One launch on the current stream; safe in graph capture when `out` is given.

    Source:
        `Qwen3_5RMSNorm`, transformers 5.24.
    """
    axes = Axes("rms_norm")
    axes.tensor("x", x, ("T", "D"), ACTIVATION, "pass hidden states as bf16 rows")
    axes.tensor("weight", weight, ("D",), WEIGHT, "pass the norm weight of this width")
    if out is not None:
        axes.tensor("out", out, ("T", "D"), ACTIVATION, "allocate it like x")
    axes.same_device(x=x, weight=weight, out=out)
    if operands is not None:
        operands.expect("rms_norm", x)
    if not interpreter.on_kernels(x):
        normed = rms_norm_reference(x, weight, eps)
        if operands is not None:
            operands.fill(normed)
        return _placed(normed, out)
    out = torch.empty_like(x) if out is None else out
    tile = _fitting("rms_norm", tile, axes["D"])
    if num_rows := axes["T"]:
        from kernels.norm.kernel import rms_norm_kernel

        rms_norm_kernel[(tile.num_programs(num_rows),)](
            x, weight, out, *places(operands), num_rows, x.stride(0), out.stride(0), eps,
            **tile.constants(axes["D"]), ORDER=order(operands), OVERLAP=overlap,
            **tile.options(overlap=overlap),
        )  # fmt: skip
    return out


def add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    *,
    tile: NormTile | None = None,
    overlap: bool = False,
    out: torch.Tensor | None = None,
    residual_out: torch.Tensor | None = None,
    operands: Operands | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Add a sublayer's output to the residual stream and normalise the sum.

    Args:
        x: bf16 [T, D], rows contiguous, any row stride: the sublayer's output.
        residual: bf16 [T, D], rows contiguous. |x + residual| <= 2^57.
        weight: bf16 or fp32 [D], contiguous: zero-centred, as in `rms_norm`.
        eps: added to the mean square.
        tile: launch choice; None for the default of the width. Changes no bit. Few rows that
            overlap (`rows_launch.takes`) have none.
        overlap: start before the previous kernel of the stream has ended (programmatic dependent
            launch). Changes no bit; every kernel of the stream must then wait as this one does.
            The residual is read before that kernel ends: it must be older, and a kernel between
            must have waited before it let its successor start, as products do.
        out: bf16 [T, D] for the norm; may be x. None allocates.
        residual_out: bf16 [T, D] for the sum; may be residual. None allocates.
        operands: written with the norm as the product behind takes it; None where it does not.

    Returns:
        The norm and the sum, bf16 [T, D] each.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree, or the tile does not fit the width.

    Numerics:
        The sum is rounded to bf16 and the norm reads the rounded sum, so both outputs equal, bit
        for bit, an addition followed by `rms_norm`.

    Side effects:
        One launch on the current stream; safe in graph capture when both outputs are given.

    Source:
        `Qwen3_5DecoderLayer` and `Qwen3_5RMSNorm`, transformers 5.24.
    """
    axes = Axes("add_rms_norm")
    axes.tensor("x", x, ("T", "D"), ACTIVATION, "pass the sublayer's output as bf16 rows")
    axes.tensor("residual", residual, ("T", "D"), ACTIVATION, "pass the residual of the same rows")
    axes.tensor("weight", weight, ("D",), WEIGHT, "pass the norm weight of this width")
    for name, given in (("out", out), ("residual_out", residual_out)):
        if given is not None:
            axes.tensor(name, given, ("T", "D"), ACTIVATION, "allocate it like x")
    axes.same_device(x=x, residual=residual, weight=weight, out=out, residual_out=residual_out)
    if operands is not None:
        operands.expect("add_rms_norm", x)
    if not interpreter.on_kernels(x):
        normed, total = add_rms_norm_reference(x, residual, weight, eps)
        if operands is not None:
            operands.fill(normed)
        return _placed(normed, out), _placed(total, residual_out)
    out = torch.empty_like(x) if out is None else out
    residual_out = torch.empty_like(residual) if residual_out is None else residual_out
    tile = _fitting("add_rms_norm", tile, axes["D"])
    if overlap and takes(x, residual, weight, out, residual_out):
        rows = x, residual, weight, out, residual_out
        launch_rows(rows, eps, operands)
    elif num_rows := axes["T"]:
        from kernels.norm.kernel import add_rms_norm_kernel

        add_rms_norm_kernel[(tile.num_programs(num_rows),)](
            x, residual, weight, out, residual_out, *places(operands), num_rows,
            x.stride(0), residual.stride(0), out.stride(0), residual_out.stride(0), eps,
            **tile.constants(axes["D"]), ORDER=order(operands), OVERLAP=overlap,
            **tile.options(overlap=overlap),
        )  # fmt: skip
    return out, residual_out


def gated_rms_norm(
    x: torch.Tensor,
    gate: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    *,
    tile: NormTile | None = None,
    overlap: bool = False,
    out: torch.Tensor | None = None,
    operands: Operands | None = None,
) -> torch.Tensor:
    """Normalise each head's row, scale it by weight and gate it by SiLU.

    Args:
        x: bf16 [T, H, D], rows contiguous, any token and head stride: the delta layer's output.
            |x| <= 2^57.
        gate: bf16 [T, H, D], rows contiguous, any token and head stride: z, before its SiLU; a
            slice of the fused qkv|z product serves as it is.
        weight: bf16 or fp32 [D], contiguous: plain, not zero-centred.
        eps: added to the mean square.
        tile: launch choice; None for the default of the width. Changes no bit.
        overlap: start before the previous kernel of the stream has ended (programmatic dependent
            launch). Changes no bit; every kernel of the stream must then wait as this one does.
        out: bf16 [T, H, D] to write into; may be x. None allocates.
        operands: of rows [T, H * D], written with the result as the product behind takes it, D a
            multiple of 128; None where it does not.

    Returns:
        bf16 [T, H, D]; `out` where it was given.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree, the tile does not fit the width, or
            operands are asked for and D is no multiple of 128.

    Numerics:
        fp32 normalise -> bf16; times weight, product -> bf16 when the weight is bf16 and kept in
        fp32 when it is fp32; times silu(gate) in fp32 -> bf16. SiLU by IEEE operations
        (`common/exact.py`), so the bits are the same on every GPU and in the torch model; against
        `gated_rms_norm_reference` (torch's exponential and sum order) rarely a bf16 step apart.

    Side effects:
        One launch on the current stream; safe in graph capture when `out` is given.

    Source:
        `Qwen3_5RMSNormGated`, transformers 5.24.
    """
    axes = Axes("gated_rms_norm")
    axes.tensor("x", x, ("T", "H", "D"), ACTIVATION, "view the delta output as bf16 heads")
    axes.tensor("gate", gate, ("T", "H", "D"), ACTIVATION, "view z as heads like x")
    axes.tensor("weight", weight, ("D",), WEIGHT, "pass the norm weight of one head")
    if out is not None:
        axes.tensor("out", out, ("T", "H", "D"), ACTIVATION, "allocate it like x")
    axes.same_device(x=x, gate=gate, weight=weight, out=out)
    if operands is not None:
        operands.expect_heads("gated_rms_norm", x)
    if not interpreter.on_kernels(x):
        normed = gated_rms_norm_reference(x, gate, weight, eps)
        if operands is not None:
            operands.fill(normed.flatten(1))
        return _placed(normed, out)
    out = torch.empty_like(x) if out is None else out
    tile = _fitting("gated_rms_norm", tile, axes["D"])
    if num_rows := axes["T"] * axes["H"]:
        from kernels.norm.kernel import gated_rms_norm_kernel

        gated_rms_norm_kernel[(tile.num_programs(num_rows),)](
            x, gate, weight, out, *places(operands), num_rows, axes["H"], x.stride(0), x.stride(1),
            gate.stride(0), gate.stride(1), out.stride(0), out.stride(1), eps,
            **tile.constants(axes["D"]), ROUND_PRODUCT=weight.dtype == torch.bfloat16,
            INPUTS=0 if operands is None else operands.num_inputs, ORDER=order(operands),
            OVERLAP=overlap, **tile.options(overlap=overlap),
        )  # fmt: skip
    return out


def _placed(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    return result if out is None else out.copy_(result)


def _fitting(function: str, tile: NormTile | None, width: int) -> NormTile:
    tile = tiles.default(width) if tile is None else tile
    if not tiles.fits(tile, width):
        raise ValueError(
            f"{function}: {tile} does not fit rows of D = {width}; "
            f"take one of kernels.norm.tile.candidates({width})"
        )
    return tile
