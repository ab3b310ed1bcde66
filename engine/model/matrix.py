"""A weight matrix in its storage format: what is held, its bytes, and its values in BF16."""

from dataclasses import dataclass

import torch

from kernels.linear.reference import (
    e4m3_row_dequantise,
    fp8_block_dequantise,
    linear_reference,
    nvfp4_dequantise,
)


@dataclass(frozen=True, slots=True)
class Fp8Block:
    """Codes e4m3 [N, K] and one BF16 multiplier a 128 x 128 block [ceil(N/128), ceil(K/128)]."""

    codes: torch.Tensor
    scales: torch.Tensor

    def expand(self) -> torch.Tensor:
        """The values, bf16 [N, K]."""
        return fp8_block_dequantise(self.codes, self.scales)

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Everything held."""
        return self.codes, self.scales


@dataclass(frozen=True, slots=True)
class E4m3Row:
    """Codes e4m3 [N, K] and one fp32 multiplier a row [N]."""

    codes: torch.Tensor
    scales: torch.Tensor

    def expand(self) -> torch.Tensor:
        """The values, bf16 [N, K]."""
        return e4m3_row_dequantise(self.codes, self.scales)

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Everything held."""
        return self.codes, self.scales


@dataclass(frozen=True, slots=True)
class Nvfp4:
    """Codes uint8 [N, K/2] (low nibble first), e4m3 [N, K/16], one fp32 multiplier []."""

    codes: torch.Tensor
    scales: torch.Tensor
    tensor_scale: torch.Tensor

    def expand(self) -> torch.Tensor:
        """The values, bf16 [N, K]."""
        return nvfp4_dequantise(self.codes, self.scales, self.tensor_scale)

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Everything held."""
        return self.codes, self.scales, self.tensor_scale


Matrix = torch.Tensor | Fp8Block | E4m3Row | Nvfp4
"""A matrix [N, K]: plain BF16, or stored in one of the formats above."""


def expanded(matrix: Matrix) -> torch.Tensor:
    """The matrix as bf16 [N, K]; a plain one is returned as it is."""
    return matrix if isinstance(matrix, torch.Tensor) else matrix.expand()


def product(x: torch.Tensor, matrix: Matrix) -> torch.Tensor:
    """Multiply rows by a matrix in whatever format it is held.

    Args:
        x: bf16 [T, K].
        matrix: [N, K]; a stored format is expanded for this one product.

    Returns:
        bf16 [T, N].
    """
    return linear_reference(x, expanded(matrix))


def bytes_of(matrix: Matrix) -> int:
    """Bytes that a matrix or a tensor occupies."""
    held = (matrix,) if isinstance(matrix, torch.Tensor) else matrix.tensors()
    return sum(one.nbytes for one in held)
