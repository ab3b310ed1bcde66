"""Offer products on the FP8 tensor cores: activations rounded to e4m3, a declared option.

Nothing chooses this path by itself: it rounds what the model computes. CUDA tensors go to the
Triton kernels, CPU tensors to plain torch with the same codes and scales.
"""

from dataclasses import dataclass

import torch
from torch.nn import functional

from kernels.common import interpreter
from kernels.common.e4m3 import E4M3_MAX
from kernels.common.expect import Axes
from kernels.linear.arguments import expect_output, expect_rows
from kernels.linear.formats import STEP
from kernels.linear.reference import e4m3_values
from kernels.linear.weight import Fp8BlockWeight, num_outputs, padded_inputs

BF16 = (torch.bfloat16,)
QUANTISE_ROWS = 16
"""Rows of one step of 128 inputs that one program rounds."""

QUANTISE_OPTIONS = {"num_warps": 4}
SMALLEST_LARGEST = E4M3_MAX * 2.0**-126
"""Largest magnitude of a group below which its scale stops at 2^-126."""


@dataclass(frozen=True)
class PrefillTile:
    """One launch choice of the product; changes no bit.

    Attributes:
        tile_t: rows of a program.
        tile_n: outputs of a program: 32, 64 or 128, so that one block scale serves it.
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


def fp8_prefill_linear(
    x: torch.Tensor,
    weight: Fp8BlockWeight,
    *,
    tile: PrefillTile = DEFAULT,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Multiply rows, rounded to e4m3, by e4m3 codes.

    Args:
        x: bf16 [T, K], rows contiguous, any row stride.
        weight: N rows of K inputs in the block format.
        tile: launch choice.
        out: bf16 [T, N] to write into, rows contiguous. None allocates.

    Returns:
        bf16 [T, N]; `out` where it was given.

    Raises:
        TypeError: a dtype is not one of those above, or the weight has another format.
        ValueError: shapes, strides or devices disagree, or the tile spans two block scales.

    Numerics:
        Each row's 128 inputs are divided by max |x| / 448 and rounded to e4m3: an element moves by
        at most 2^-4 of itself or 2^-10 of the scale, whichever is more, so an output moves by at
        most sum over k of max(2^-4 |x_k|, 2^-10 scale) |w_k|; for normal x the relative error of
        an output row is about 0.026 in norm (bf16 operands: 0.002). Codes are multiplied exactly;
        a step of 128 inputs is summed on the tensor core (Hopper keeps about 14 bits there), then
        scaled by both scales and added in fp32, steps in order; one rounding to bf16. A row's bits
        depend on the row and the weight alone; a NaN stays in its row.

    Side effects:
        Two launches on the current stream and a workspace of T * Kp codes and their scales.
    """
    axes = Axes("fp8_prefill_linear")
    if not isinstance(weight, Fp8BlockWeight):
        raise TypeError(
            f"fp8_prefill_linear: weight must be an Fp8BlockWeight, got {type(weight).__name__}; "
            "use middle_linear or expanded_linear for other formats"
        )
    expect_rows(axes, "fp8_prefill_linear", x, weight)
    out = expect_output(axes, "fp8_prefill_linear", x, weight, out, BF16)
    num_rows, N = out.shape
    if tile.tile_n not in (32, 64, 128):
        raise ValueError(
            f"fp8_prefill_linear: {tile} spans two block scales; take tile_n of 32, 64 or 128"
        )
    axes.same_device(x=x, weight=weight.codes, out=out)
    if num_rows == 0:
        return out
    codes, scales = quantise_rows(x)
    if not interpreter.on_kernels(x):
        return out.copy_(_product_reference(codes, scales, weight))
    from triton.tools.tensor_descriptor import TensorDescriptor

    from kernels.linear.prefill_fp8_kernel import prefill_fp8_kernel

    x_map = TensorDescriptor.from_tensor(codes, [tile.tile_t, STEP])
    codes_map = TensorDescriptor.from_tensor(weight.codes, [tile.tile_n, STEP])
    grid = (-(-num_rows // tile.tile_t) * -(-N // tile.tile_n),)
    prefill_fp8_kernel[grid](
        x_map, scales, codes_map, weight.scales, out, num_rows, N,
        padded_inputs(weight) // STEP, out.stride(0), TILE_T=tile.tile_t, TILE_N=tile.tile_n,
        **tile.options(),
    )  # fmt: skip
    return out


def quantise_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Round rows to e4m3 with one scale for each 128 inputs.

    Args:
        x: bf16 [T, K], rows contiguous, any row stride; T at least 1.

    Returns:
        Codes, e4m3 [T, Kp] with zeros past K, and scales, fp32 [Kp/128, T].

    Numerics:
        scale = max(max |x|, 448 * 2^-126) / 448 and x / scale are IEEE divisions in fp32; codes
        round to nearest even. The bits are the same on every device.
    """
    num_rows, K = x.shape
    num_steps = -(-K // STEP)
    if not interpreter.on_kernels(x):
        groups = functional.pad(x.float(), (0, num_steps * STEP - K)).view(num_rows, -1, STEP)
        largest = groups.abs().amax(2).clamp(min=SMALLEST_LARGEST)
        scales = largest / E4M3_MAX
        codes = (groups / scales[:, :, None]).clamp(-E4M3_MAX, E4M3_MAX)
        return codes.to(torch.float8_e4m3fn).view(num_rows, -1), scales.t().contiguous()
    from kernels.linear.prefill_fp8_kernel import quantise_kernel

    codes = torch.empty((num_rows, num_steps * STEP), dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty((num_steps, num_rows), dtype=torch.float32, device=x.device)
    quantise_kernel[(num_steps, -(-num_rows // QUANTISE_ROWS))](
        x,
        codes,
        scales,
        num_rows,
        K,
        num_steps,
        x.stride(0),
        ROWS=QUANTISE_ROWS,
        **QUANTISE_OPTIONS,
    )
    return codes, scales


def _product_reference(
    codes: torch.Tensor, scales: torch.Tensor, weight: Fp8BlockWeight
) -> torch.Tensor:
    """Multiply scaled codes in fp32, 128 inputs at a time, in plain torch."""
    total = torch.zeros((codes.shape[0], num_outputs(weight)), device=codes.device)
    for step in range(scales.shape[0]):
        inputs = slice(step * STEP, (step + 1) * STEP)
        part = e4m3_values(codes[:, inputs]) @ e4m3_values(weight.codes[:, inputs]).t()
        wide = weight.scales[:, step].repeat_interleave(STEP)[: total.shape[1]]
        total += part * (scales[step][:, None] * wide)
    return total.bfloat16()
