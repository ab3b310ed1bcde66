"""State the preparation of attention in plain torch with the model's rounding points."""

from collections.abc import Callable

import torch

from kernels.attention.reference import rotate_reference
from kernels.common import exact_torch

RowMean = Callable[[torch.Tensor], torch.Tensor]


def mean_square_of_torch(x: torch.Tensor) -> torch.Tensor:
    """Average the squares of each row in torch's own order: fp32 [..., D] -> [..., 1]."""
    return x.pow(2).mean(-1, keepdim=True)


def mean_square_of_kernel(x: torch.Tensor) -> torch.Tensor:
    """Average the squares of each row in the kernel's order: fp32 [..., D] -> [..., 1]."""
    width = x.shape[-1]
    return exact_torch.sum_rows(x * x, 0, width.bit_length() - 1) / width


def prepared_heads_reference(
    x: torch.Tensor,
    weight: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    eps: float,
    mean_square: RowMean = mean_square_of_torch,
) -> torch.Tensor:
    """Normalise every head by its root mean square, scale it by 1 + weight, rotate it.

    Args:
        x: bf16 [T, H, D].
        weight: bf16 or fp32 [D].
        cos: bf16 [T, R], the angles of each row's position.
        sin: bf16 [T, R].
        eps: added to the mean square.
        mean_square: order of the sum of squares; with `mean_square_of_kernel` the result has the
            kernel's bits.

    Returns:
        bf16 [T, H, D].

    Numerics:
        fp32 norm, one rounding to bf16; then `rotate_reference`.
    """
    x32 = x.float()
    normed = x32 * torch.rsqrt(mean_square(x32) + eps) * (1.0 + weight.float())
    return rotate_reference(normed.to(x.dtype), cos, sin)
