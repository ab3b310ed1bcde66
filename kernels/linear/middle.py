"""Offer the products of more rows than a skinny call takes: check, choose the build, launch.

CUDA tensors go to the Triton kernel, CPU tensors to the torch reference; in a process whose kernels
were built for Triton's interpreter CPU tensors go to the kernel too.
"""

from typing import Any

import torch

from kernels.common import gpu, interpreter
from kernels.common.chips import has_wgmma, measured_like
from kernels.common.expect import Axes
from kernels.linear import middle_tile as tiles
from kernels.linear.arguments import expect_output, expect_rows
from kernels.linear.formats import STEP
from kernels.linear.middle_tile import MiddleTile
from kernels.linear.reference import dequantise, linear_reference
from kernels.linear.weight import (
    Bf16Weight,
    E4m3RowWeight,
    Fp8BlockWeight,
    Nvfp4Weight,
    Weight,
    format_name,
    num_outputs,
    padded_inputs,
)

OUT = (torch.bfloat16, torch.float32)
SLICE_BLOCK = 1024
"""Outputs that one program adds up when K was split."""

SLICE_OPTIONS = {"num_warps": 4}

MAX_TILE_ELEMENTS = 2**31 - 1
"""Offsets within a tile are 32-bit."""


def middle_linear(
    x: torch.Tensor,
    weight: Weight,
    *,
    tile: MiddleTile | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Multiply rows by a weight, decoded in registers while it is multiplied.

    Args:
        x: bf16 [T, K], rows contiguous, any row stride. Any T; made for 33 to about 1,024.
        weight: N rows of K inputs in any format, 4-bit codes in either order.
        tile: launch choice; None for the default of the shape and T.
        out: bf16 or fp32 [T, N] to write into, rows contiguous. None allocates bf16.

    Returns:
        bf16 [T, N]; `out` where it was given.

    Raises:
        TypeError: a dtype is not one of those above.
        ValueError: shapes, strides or devices disagree, or the tile does not fit the product.

    Numerics:
        bf16 operands, fp32 sums in a fixed order, one rounding to the output. NVFP4 operands are
        e2m1 x e4m3, exact; the row's fp32 multiplier, below 2^119, comes last; in which order the
        codes are held changes no bit. e4m3_row: the code, exact; the multiplier last. fp8_block:
        `tile.fold_scale` says whether code x scale is rounded to bf16 (then the operands are those
        of `dequantise`) or the fp32 sum of each 128 inputs is scaled. A row's bits depend on the
        row, the weight's numbers and `tile.order`; a NaN stays in its row.

    Side effects:
        One launch on the current stream, two and an fp32 workspace [splits, T, N - whole] when
        the tile splits K; safe in graph capture when `out` is given.
    """
    axes = Axes("middle_linear")
    expect_rows(axes, "middle_linear", x, weight)
    out = expect_output(axes, "middle_linear", x, weight, out, OUT)
    num_rows = x.shape[0]
    axes.same_device(x=x, weight=weight.codes, out=out)
    if not interpreter.on_kernels(x):
        return out.copy_(linear_reference(x, dequantise(weight)))
    tile = _fitting(tile, weight, num_rows)
    _check_strides(tile, x, out)
    if num_rows:
        _launch(x, weight, tile, out)
    return out


def _launch(x: torch.Tensor, weight: Weight, tile: MiddleTile, out: torch.Tensor) -> None:
    from kernels.linear.middle_kernel import add_slices_kernel, middle_kernel

    num_rows, N, name = x.shape[0], num_outputs(weight), format_name(weight)
    codes, scales, row_scales = _operands(weight)
    num_whole, slices = N, row_scales
    if tile.splits > 1:
        num_whole = tile.whole
        size = (tile.splits, num_rows, N - num_whole)
        slices = torch.empty(size, dtype=torch.float32, device=x.device)
    mapped = tile.tensor_map and _is_mappable(x)
    middle_kernel[(tile.num_programs(num_rows, N),)](
        _tensor_map(x, tile) if mapped else x, codes, scales, row_scales, out, slices,
        num_rows, N, weight.K, padded_inputs(weight) // STEP, num_whole, tile.splits,
        x.stride(0), out.stride(0), **tile.constants(name, weight.K, mapped),
        SPREAD=isinstance(weight, Nvfp4Weight) and weight.spread,
        NATIVE=_native(x), **tile.options(),
    )  # fmt: skip
    if tile.splits > 1:
        add_slices_kernel[(-(-(N - num_whole) // SLICE_BLOCK), num_rows)](
            slices, row_scales, out, num_rows, N, num_whole, out.stride(0),
            **tile.slice_constants(name), BLOCK=SLICE_BLOCK, **SLICE_OPTIONS,
        )  # fmt: skip


def _operands(weight: Weight) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return codes, step scales and row scales in the dtypes that the kernel takes.

    A format without one of them passes another tensor in its place, which the kernel never reads.
    """
    match weight:
        case Nvfp4Weight():
            codes = weight.codes.view(torch.int32) if weight.spread else weight.codes
            return codes, weight.scale_runs.view(torch.uint8), weight.row_scales
        case Fp8BlockWeight():
            return weight.codes.view(torch.int16), weight.scales, weight.scales
        case E4m3RowWeight():
            return weight.codes.view(torch.int16), weight.row_scales, weight.row_scales
        case Bf16Weight():
            return weight.values, weight.values, weight.values


def _is_mappable(x: torch.Tensor) -> bool:
    return x.data_ptr() % 16 == 0 and x.stride(0) * x.element_size() % 16 == 0


def _tensor_map(x: torch.Tensor, tile: MiddleTile) -> Any:  # noqa: ANN401  triton is imported late
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor.from_tensor(x, [tile.tile_t, STEP])


def _fitting(tile: MiddleTile | None, weight: Weight, num_rows: int) -> MiddleTile:
    name, N, num_steps = format_name(weight), num_outputs(weight), padded_inputs(weight) // STEP
    if tile is None:
        return tiles.default(name, N, num_steps, num_rows, _tiles_of(weight.codes))
    if not tiles.fits(tile, name, N, num_steps):
        raise ValueError(
            f"middle_linear: {tile} does not fit {name} with N = {N}, Kp = {num_steps * STEP}; "
            "take one of kernels.linear.middle_tile.candidates"
        )
    return tile


def _tiles_of(tensor: torch.Tensor) -> int:
    """Return the capability, 90 or 121, whose tiles the device of a tensor takes."""
    return measured_like(gpu.choices(tensor.device)) if tensor.is_cuda else 90


def _native(x: torch.Tensor) -> int:
    """Return the kernel's `NATIVE`: whose instructions it may name."""
    if interpreter.is_installed():
        return 0
    return 90 if has_wgmma(gpu.chip(x.device)) else 121


def _check_strides(tile: MiddleTile, x: torch.Tensor, out: torch.Tensor) -> None:
    for name, tensor in (("x", x), ("out", out)):
        if tile.tile_t * tensor.stride(0) > MAX_TILE_ELEMENTS:
            raise ValueError(
                f"middle_linear: {name} has a row stride of {tensor.stride(0)} elements, the most "
                f"is {MAX_TILE_ELEMENTS // tile.tile_t}; call .contiguous() first"
            )
