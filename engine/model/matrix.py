"""A weight matrix in its storage format: what is held, its bytes, and its values in BF16."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from engine.model.packed import Member, Packed
from kernels.common.operands import Operands
from kernels.linear.reference import (
    e4m3_row_dequantise,
    fp8_block_dequantise,
    linear_reference,
    logits_reference,
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


@dataclass(frozen=True, slots=True)
class Identity:
    """The matrix I [K, K]: a layer that ends in it returns what its last matrix would be given."""

    width: int

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """The rows themselves."""
        return x

    def expand(self) -> torch.Tensor:
        """The values, bf16 [K, K]."""
        return torch.eye(self.width, dtype=torch.bfloat16)

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Nothing is held."""
        return ()


Stored = torch.Tensor | Fp8Block | E4m3Row | Nvfp4
"""A matrix [N, K] as checkpoints store it: plain BF16, or in one of the formats above."""

Matrix = Stored | Packed | Member | Identity
"""A matrix [N, K] as a model holds it: as stored, or packed for a GPU's kernels."""


def expanded(matrix: Matrix) -> torch.Tensor:
    """The matrix as bf16 [N, K]; a plain one is returned as it is."""
    return matrix if isinstance(matrix, torch.Tensor) else matrix.expand()


def operands_for(matrix: Matrix, num_rows: int) -> Operands | None:
    """Places to write the rows of a product as operands too, where it is faster for it."""
    whole = matrix.whole if isinstance(matrix, Member) else matrix
    return whole.operands_for(num_rows) if isinstance(whole, Packed) else None


def product(x: torch.Tensor, matrix: Matrix, operands: Operands | None = None) -> torch.Tensor:
    """Multiply rows by a matrix in whatever format it is held.

    Args:
        x: bf16 [T, K].
        matrix: [N, K]; a stored format is expanded for this one product.
        operands: x as the kernel before has written it into `operands_for` the matrix.

    Returns:
        bf16 [T, N]; rows are contiguous, of a member with the stride of the whole product.
    """
    (out,) = products(x, matrix, operands=operands)
    return out


def products(
    x: torch.Tensor, *matrices: Matrix, operands: Operands | None = None
) -> tuple[torch.Tensor, ...]:
    """Multiply rows by several matrices; those that share a packed weight read it once.

    Args:
        x: bf16 [T, K].
        matrices: [N, K] each, held in any way.
        operands: x as the kernel before has written it into `operands_for` one of them.

    Returns:
        bf16 [T, N] for each matrix in order, as `product` returns it.
    """
    wholes: dict[int, torch.Tensor] = {}
    found: list[torch.Tensor] = []
    for matrix in matrices:
        if isinstance(matrix, Member):
            key = id(matrix.whole)
            if key not in wholes:
                wholes[key] = matrix.whole.product(x, operands)
            found.append(wholes[key][:, matrix.rows])
        elif isinstance(matrix, Packed):
            found.append(matrix.product(x, operands))
        elif isinstance(matrix, Identity):
            found.append(matrix.product(x))
        else:
            found.append(linear_reference(x, expanded(matrix)))
    return tuple(found)


def logits_of(hidden: torch.Tensor, head: Matrix, out: torch.Tensor | None = None) -> torch.Tensor:
    """Score the vocabulary for each row, each row computed alone: bf16 [T, D] -> fp32 [T, V]."""
    if isinstance(head, Packed):
        return head.logits(hidden, out)
    logits = logits_reference(hidden, expanded(head))
    return logits if out is None else out.copy_(logits)


def bytes_of(matrices: Iterable[Matrix]) -> int:
    """Bytes that matrices and tensors occupy together; what they share counts once."""
    held: dict[int, torch.Tensor] = {}
    for matrix in matrices:
        tensors = (matrix,) if isinstance(matrix, torch.Tensor) else matrix.tensors()
        held |= {id(one): one for one in tensors}
    return sum(one.nbytes for one in held.values())
