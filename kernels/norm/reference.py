"""State the norms in plain torch with the model's rounding points.

With the default `mean_square` these are bit-equal, on a CPU, to `Qwen3_5RMSNorm` and
`Qwen3_5RMSNormGated` of transformers 5.24. With `mean_square_of_kernel` and `exact_torch.silu`, the
two things that differ in the kernels, the same statements predict the kernels' bits.
"""

from collections.abc import Callable

import torch
from torch.nn import functional

from kernels.common import exact_torch
from kernels.norm.tile import NormTile

RowMean = Callable[[torch.Tensor], torch.Tensor]


def mean_square_of_torch(x: torch.Tensor) -> torch.Tensor:
    """Average the squares of each row in torch's own order: fp32 [..., D] -> [..., 1]."""
    return x.pow(2).mean(-1, keepdim=True)


def mean_square_of_kernel(x: torch.Tensor) -> torch.Tensor:
    """Average the squares of each row in the kernels' order: fp32 [..., D] -> [..., 1]."""
    width = x.shape[-1]
    constants = NormTile(num_warps=1, rows_per_program=1).constants(width)
    return exact_torch.sum_rows(x * x, constants["FOLDS"], constants["PAIRS"]) / width


def rms_norm_reference(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    mean_square: RowMean = mean_square_of_torch,
) -> torch.Tensor:
    """Normalise rows and scale them by 1 + weight; fp32 throughout, one rounding at the end.

    Args:
        x: bf16 [T, D].
        weight: bf16 or fp32 [D].
        eps: added to the mean square.
        mean_square: order of the sum of squares.

    Returns:
        bf16 [T, D].
    """
    x32 = x.float()
    normed = x32 * torch.rsqrt(mean_square(x32) + eps)
    return (normed * (1.0 + weight.float())).to(x.dtype)


def add_rms_norm_reference(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    mean_square: RowMean = mean_square_of_torch,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Add in bf16, then normalise the rounded sum.

    Args:
        x: bf16 [T, D], what a layer adds.
        residual: bf16 [T, D], the stream before it.
        weight: bf16 or fp32 [D].
        eps: added to the mean square.
        mean_square: order of the sum of squares.

    Returns:
        bf16 [T, D] twice: the norm, and the sum that is the next residual.
    """
    total = residual + x
    return rms_norm_reference(total, weight, eps, mean_square), total


def gated_rms_norm_reference(
    x: torch.Tensor,
    gate: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    mean_square: RowMean = mean_square_of_torch,
    silu: Callable[[torch.Tensor], torch.Tensor] = functional.silu,
) -> torch.Tensor:
    """Normalise each head's row, scale it by weight, gate it by SiLU.

    Rounding points: the normalised row to bf16; its product with a bf16 weight to bf16 (with an
    fp32 weight the product stays fp32, by torch's type promotion); the gated result to bf16.

    Args:
        x: bf16 [T, H, D].
        gate: bf16 [T, H, D].
        weight: bf16 or fp32 [D].
        eps: added to the mean square.
        mean_square: order of the sum of squares.
        silu: fp32 -> fp32.

    Returns:
        bf16 [T, H, D].
    """
    x32 = x.float()
    normed = (x32 * torch.rsqrt(mean_square(x32) + eps)).to(x.dtype)
    return (weight * normed * silu(gate.float())).to(x.dtype)
