"""Widen a stored weight to bf16 and multiply by it with the library: the path of long prompts.

CUDA tensors go to the Triton kernels, CPU tensors to the torch reference; in a process whose
kernels were built for Triton's interpreter CPU tensors go to the kernels too.
"""

import torch
from torch.nn import functional

from kernels.common import interpreter
from kernels.common.expect import Axes
from kernels.common.launch_options import launch_options
from kernels.linear.arguments import expect_rows
from kernels.linear.formats import STEP, TILE_ROWS
from kernels.linear.reference import dequantise
from kernels.linear.weight import (
    Bf16Weight,
    Fp8BlockWeight,
    Nvfp4Weight,
    Weight,
    num_outputs,
    padded_inputs,
)

BF16 = (torch.bfloat16,)
NVFP4_STEPS = 2
"""Steps of 128 inputs x 16 rows that one program widens."""

E4M3_ROWS = 32
"""Rows of one step of 128 inputs that one program widens."""

OPTIONS = launch_options(4)


def expand(weight: Weight, out: torch.Tensor | None = None) -> torch.Tensor:
    """Widen a weight to the BF16 that its checkpoint means.

    Args:
        weight: N rows of K inputs in any format, 4-bit codes in either order.
        out: bf16 [N, K] to write into, rows contiguous. None allocates; a BF16 weight then gives a
            view of itself.

    Returns:
        bf16 [N, K], without the padding; `out` where it was given.

    Raises:
        TypeError: out is not bf16.
        ValueError: out's shape, strides or device disagree with the weight.

    Numerics:
        Bit-equal to `reference.dequantise`: fp32 products, rounded once to bf16.

    Side effects:
        One launch on the current stream; safe in graph capture when `out` is given.
    """
    if isinstance(weight, Bf16Weight):
        values = weight.values[:, : weight.K]
        return values if out is None else _checked(weight, out).copy_(values)
    if out is None:
        size = (num_outputs(weight), weight.K)
        out = torch.empty(size, dtype=torch.bfloat16, device=weight.codes.device)
    _checked(weight, out)
    if not interpreter.on_kernels(weight.codes):
        return out.copy_(dequantise(weight))
    _launch(weight, out)
    return out


def expanded_linear(
    x: torch.Tensor,
    weight: Weight,
    *,
    buffer: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Widen a weight to bf16, then multiply rows by it in one library product.

    Args:
        x: bf16 [T, K], rows contiguous, any row stride.
        weight: N rows of K inputs in any format, 4-bit codes in either order.
        buffer: bf16 [n], n >= N * K, contiguous: holds the widened weight and serves one call
            after another. None allocates; a BF16 weight needs none.
        out: bf16 [T, N] to write into, rows contiguous. None allocates.

    Returns:
        bf16 [T, N]; `out` where it was given.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree, or the buffer is too small.

    Numerics:
        `expand`, then fp32 sums in the library's order, one rounding. The library may choose
        another order for another number of rows.

    Side effects:
        One launch and one library product on the current stream; overwrites `buffer`.
    """
    axes = Axes("expanded_linear")
    expect_rows(axes, "expanded_linear", x, weight)
    axes.same_device(x=x, weight=weight.codes)
    if buffer is None or isinstance(weight, Bf16Weight):
        wide = expand(weight)
    else:
        wide = expand(weight, _room(buffer, num_outputs(weight), weight.K))
    if out is None:
        return functional.linear(x, wide)
    return torch.mm(x, wide.t(), out=out)


def _room(buffer: torch.Tensor, N: int, K: int) -> torch.Tensor:
    """Return the front of a buffer as [N, K]."""
    Axes("expanded_linear").tensor("buffer", buffer, ("n",), BF16, "allocate it as bf16 [N * K]")
    if buffer.numel() < N * K:
        raise ValueError(
            f"expanded_linear: buffer must hold N * K = {N * K} elements, got {buffer.numel()}; "
            "allocate it once for the largest weight"
        )
    return buffer[: N * K].view(N, K)


def _checked(weight: Weight, out: torch.Tensor) -> torch.Tensor:
    axes = Axes("expand")
    axes.tensor("out", out, ("N", "K"), BF16, "allocate it for this weight")
    if (axes["N"], axes["K"]) != (num_outputs(weight), weight.K):
        raise ValueError(
            f"expand: out must be [N, K] = [{num_outputs(weight)}, {weight.K}], "
            f"got {list(out.shape)}; allocate it for this weight"
        )
    axes.same_device(weight=weight.codes, out=out)
    return out


def _launch(weight: Weight, out: torch.Tensor) -> None:
    from kernels.linear.expand_kernel import expand_e4m3_kernel, expand_nvfp4_kernel

    N, num_steps = num_outputs(weight), padded_inputs(weight) // STEP
    sizes = (N, weight.K, num_steps, out.stride(0))
    if isinstance(weight, Nvfp4Weight):
        grid = (-(-num_steps // NVFP4_STEPS), -(-N // TILE_ROWS))
        codes = weight.codes.view(torch.int32) if weight.spread else weight.codes
        expand_nvfp4_kernel[grid](
            codes, weight.scale_runs.view(torch.uint8), weight.row_scales, out, *sizes,
            STEPS=NVFP4_STEPS, SPREAD=weight.spread, **OPTIONS,
        )  # fmt: skip
        return
    codes, scales = weight.tensors()
    expand_e4m3_kernel[(num_steps, -(-N // E4M3_ROWS))](
        codes.view(torch.uint8), scales, out, *sizes,
        ROWS=E4M3_ROWS, BY_ROW=not isinstance(weight, Fp8BlockWeight), **OPTIONS,
    )  # fmt: skip
