"""Offer products on the FP8 tensor cores: activations rounded to e4m3, a declared option.

8-bit weights are multiplied as they are stored (W8A8); 4-bit ones are rounded to e4m3 first, once a
call (W4A8, `requantise.py`). Nothing chooses this path by itself: it rounds what the model
computes. CUDA tensors go to the Triton kernels or the library, CPU tensors to plain torch with the
same codes and scales.
"""

from dataclasses import dataclass

import torch

from kernels.common import gpu, interpreter
from kernels.common.chips import Capability, measured_like
from kernels.common.expect import Axes
from kernels.linear.arguments import expect_output, expect_rows
from kernels.linear.formats import STEP
from kernels.linear.pack import E4M3
from kernels.linear.quantise import quantise_rows, quantise_steps
from kernels.linear.reference import e4m3_values
from kernels.linear.requantise import requantise
from kernels.linear.weight import (
    E4m3RowWeight,
    Fp8BlockWeight,
    Nvfp4Weight,
    Weight,
    num_outputs,
    padded_inputs,
)

BF16 = (torch.bfloat16,)


@dataclass(frozen=True)
class PrefillTile:
    """One launch choice of the product; changes no bit.

    Attributes:
        tile_t: rows of a program.
        tile_n: outputs of a program; of a block format 32, 64 or 128, so that one scale serves it.
        num_warps: warps of a program.
        num_stages: steps in flight, the one in use included.
    """

    tile_t: int = 64
    tile_n: int = 128
    num_warps: int = 4
    num_stages: int = 3

    def options(self) -> dict[str, int]:
        """Return Triton's launch options."""
        return {"num_warps": self.num_warps, "num_stages": self.num_stages}


DEFAULT = PrefillTile()

ROWS_FROM: dict[int, dict[str, int]] = {
    90: {"nvfp4": 320, "fp8_block": 193, "e4m3_row": 193},
    121: {"nvfp4": 769, "fp8_block": 193, "e4m3_row": 193},
}
"""Rows from which this path is faster than the one of bf16 rows, by GPU family and format: a 4-bit
weight must first earn its rounding. An H200 loses at 256 rows of it and wins at 384. Of sm_121 this
is computed from bytes and operations, not measured."""

TAKEN = (Fp8BlockWeight, E4m3RowWeight, Nvfp4Weight)
"""Weights that this path multiplies."""


def fp8_prefill_linear(
    x: torch.Tensor,
    weight: Weight,
    *,
    tile: PrefillTile = DEFAULT,
    by_library: bool | None = None,
    buffer: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Multiply rows, rounded to e4m3, by e4m3 codes.

    Args:
        x: bf16 [T, K], rows contiguous, any row stride.
        weight: N rows of K inputs in the block format, e4m3 with a multiplier a row, or NVFP4.
        tile: launch choice of the kernel.
        by_library: let torch's own product multiply. None leaves it to `library_is_faster`.
        buffer: bf16 [n], 2 n >= N * Kp, contiguous: holds the codes of a rounded 4-bit weight and
            serves one call after another. None allocates; 8-bit weights need none.
        out: bf16 [T, N] to write into, rows contiguous. None allocates.

    Returns:
        bf16 [T, N]; `out` where it was given.

    Raises:
        TypeError: a dtype is not one of those above, or the weight has another format.
        ValueError: shapes, strides or devices disagree, the tile spans two block scales, or the
            buffer is too small.

    Numerics:
        Rows are rounded as `quantise_steps` says for the block format and as `quantise_rows` says
        for the others; a 4-bit weight as `requantise` says. An output moves by at most the sum over
        k of what x_k moves times |w_k|, and the reverse; for normal x its relative error is about
        0.026 in norm, 0.035 with a 4-bit weight (bf16 operands: 0.002). Codes are multiplied
        exactly; the tensor core sums 128 inputs (Hopper keeps about 14 bits there), such sums are
        added in fp32, in order, times the scales; one rounding to bf16. A NaN stays in its row. By
        the kernel a row's bits depend on the row and the weight alone; the library may choose
        another order for another number of rows. Where multipliers stand by row, |x| may reach
        2^100 before a sum leaves fp32.

    Side effects:
        Two launches on the current stream, four for a 4-bit weight, and a workspace of T * Kp codes
        and their scales; overwrites `buffer`.
    """
    axes = Axes("fp8_prefill_linear")
    if not isinstance(weight, TAKEN):
        raise TypeError(
            f"fp8_prefill_linear: weight must be of 4 or 8 bits, got {type(weight).__name__}; "
            "use middle_linear or expanded_linear"
        )
    expect_rows(axes, "fp8_prefill_linear", x, weight)
    if out is not None:
        expect_output(axes, "fp8_prefill_linear", x, weight, out, BF16)
        axes.same_device(x=x, out=out)
    if isinstance(weight, Fp8BlockWeight) and tile.tile_n not in (32, 64, 128):
        raise ValueError(
            f"fp8_prefill_linear: {tile} spans two block scales; take tile_n of 32, 64 or 128"
        )
    axes.same_device(x=x, weight=weight.codes)
    num_rows = x.shape[0]
    if num_rows == 0:
        return x.new_empty((0, num_outputs(weight))) if out is None else out
    if isinstance(weight, Nvfp4Weight):
        weight = requantise(weight, _room(buffer, weight))
    is_block = isinstance(weight, Fp8BlockWeight)
    codes, scales = quantise_steps(x) if is_block else quantise_rows(x)
    if library_is_faster(weight, num_rows) if by_library is None else by_library:
        product = _by_library(codes, scales, weight)
    elif interpreter.on_kernels(x):
        return _by_kernel(codes, scales, weight, tile, out)
    else:
        product = _product_reference(codes, scales, weight)
    return product if out is None else out.copy_(product)


def has_library(capability: Capability) -> bool:
    """Say whether a GPU that launches so takes torch's own FP8 product: on an H200 it is faster."""
    return measured_like(capability) == 90


def library_is_faster(weight: Fp8BlockWeight | E4m3RowWeight, num_rows: int) -> bool:
    """Say whether torch's own FP8 product serves a weight: by `has_library`, if its shapes allow.

    At 1,024 rows of 34816x5120 on an H200 it takes 266 us with scales by row, 271 with blocks; the
    kernel takes 386 and 360.
    """
    codes = weight.codes
    if not codes.is_cuda or not has_library(gpu.choices(codes.device)):
        return False
    by_row = isinstance(weight, E4m3RowWeight)
    return codes.shape[0] % (16 if by_row else STEP) == 0 and (by_row or num_rows % 16 == 0)


def _by_library(
    codes: torch.Tensor, scales: torch.Tensor, weight: Fp8BlockWeight | E4m3RowWeight
) -> torch.Tensor:
    """Multiply with fp32 sums of whole steps: the fast accumulation keeps 14 bits throughout."""
    from torch.nn.functional import ScalingType, scaled_mm

    if isinstance(weight, Fp8BlockWeight):
        kinds = ScalingType.BlockWise1x128, ScalingType.BlockWise128x128
        of_rows, of_weight = scales.t(), weight.scales.t()
    else:
        kinds = ScalingType.RowWise, ScalingType.RowWise
        of_rows, of_weight = scales[:, None], weight.row_scales[None, :]
    return scaled_mm(
        codes, weight.codes.t(), of_rows, kinds[0], of_weight, kinds[1],
        output_dtype=torch.bfloat16, use_fast_accum=False,
    )  # fmt: skip


def _by_kernel(
    codes: torch.Tensor,
    scales: torch.Tensor,
    weight: Fp8BlockWeight | E4m3RowWeight,
    tile: PrefillTile,
    out: torch.Tensor | None,
) -> torch.Tensor:
    from triton.tools.tensor_descriptor import TensorDescriptor

    from kernels.linear.prefill_fp8_kernel import prefill_fp8_kernel

    num_rows, N = codes.shape[0], num_outputs(weight)
    if out is None:
        out = torch.empty((num_rows, N), dtype=torch.bfloat16, device=codes.device)
    x_map = TensorDescriptor.from_tensor(codes, [tile.tile_t, STEP])
    codes_map = TensorDescriptor.from_tensor(weight.codes, [tile.tile_n, STEP])
    grid = (-(-num_rows // tile.tile_t) * -(-N // tile.tile_n),)
    prefill_fp8_kernel[grid](
        x_map, scales, codes_map, weight.tensors()[1], out, num_rows, N,
        padded_inputs(weight) // STEP, out.stride(0), TILE_T=tile.tile_t, TILE_N=tile.tile_n,
        BY_ROW=isinstance(weight, E4m3RowWeight), **tile.options(), **lowering(_capability(codes)),
    )  # fmt: skip
    return out


def lowering(capability: tuple[int, int]) -> dict[str, str]:
    """Return what the product's launch on a GPU needs beside its tile.

    Triton 3.6 and 3.7 multiply e4m3 on the FP8 tensor cores of sm_120 and widen it to fp16 on
    sm_121, which has the same ones. What is lowered for sm_120 is still assembled for sm_121.
    """
    return {"arch": "sm120"} if capability == (12, 1) else {}


def _capability(tensor: torch.Tensor) -> tuple[int, int]:
    return gpu.chip(tensor.device) if tensor.is_cuda else (0, 0)


def _room(buffer: torch.Tensor | None, weight: Nvfp4Weight) -> torch.Tensor | None:
    """Return the front of a buffer as e4m3 [N, Kp]."""
    if buffer is None:
        return None
    N, Kp = num_outputs(weight), padded_inputs(weight)
    axes = Axes("fp8_prefill_linear")
    axes.tensor("buffer", buffer, ("n",), BF16, "allocate it as bf16 [N * Kp / 2]")
    if 2 * buffer.numel() < N * Kp:
        raise ValueError(
            f"fp8_prefill_linear: buffer must hold N * Kp / 2 = {N * Kp // 2} elements, got "
            f"{buffer.numel()}; allocate it once for the largest weight"
        )
    return buffer.view(E4M3)[: N * Kp].view(N, Kp)


def _product_reference(
    codes: torch.Tensor, scales: torch.Tensor, weight: Fp8BlockWeight | E4m3RowWeight
) -> torch.Tensor:
    """Multiply scaled codes, 128 inputs at a time, in plain torch.

    The sum of a step is exact in fp64 in any order, so that a row has its bits in any company.
    """
    total = torch.zeros((codes.shape[0], num_outputs(weight)), device=codes.device)
    for step in range(codes.shape[1] // STEP):
        inputs = slice(step * STEP, (step + 1) * STEP)
        left, right = (e4m3_values(one[:, inputs]).double() for one in (codes, weight.codes))
        part = (left @ right.t()).float()
        if isinstance(weight, Fp8BlockWeight):
            wide = weight.scales[:, step].repeat_interleave(STEP)[: total.shape[1]]
            total += part * (scales[step][:, None] * wide)
        else:
            total += part * scales[:, None]
    if isinstance(weight, E4m3RowWeight):
        total *= weight.row_scales
    return total.bfloat16()
