"""Hold rows of activations as matrix instructions take them, beside the rows themselves.

A product of few rows turns its bf16 activations into fp16 operands before it multiplies, in every
block of its grid. Where the kernel in front of it has written them so already, the copy engine
brings them as they are. Rounding to fp16 is only right where a row's slice of K lies in the range
of fp16 (`range_factor` of skinny_activations.cuh), so the largest magnitudes stand beside the
operands: a product that needs another factor reads the rows.
"""

from dataclasses import dataclass

import torch

from kernels.common.round import MAX_ROWS

STEP = 128
"""Inputs that stand together; rows of another number of inputs have no operands."""

BLOCK_ROWS = 8
"""Rows of one matrix instruction."""

PART = 8
"""Inputs of a row whose largest magnitude is told: as few as a warp of any producer has."""

APART = 1
"""In an order: the pairs of 8 inputs lie apart, as matrices of 8 rows x 8 inputs of four lanes."""

ORDERS = (32, 16, 32 + APART)
"""Inputs beside each other that a lane holds: those of 16 bytes of 4-bit and of 8-bit codes. And
4-bit codes' as matrices, for instructions that read activations from shared memory (wgmma)."""


@dataclass(frozen=True, slots=True)
class Operands:
    """Places for up to 8 x blocks rows of K inputs, and their order.

    Attributes:
        image: fp16 [blocks, K/128, 4, 32, 8], contiguous: for a block of 8 rows and a step of 128
            inputs the vector v of lane 4 g + t, which is row 8 block + g and the eight inputs from
            32 t + 8 v on (order 32) or from 64 (v // 2) + 16 t + 8 (v % 2) on (order 16). In order
            33 a vector is [4, 8, 4, 2]: the same inputs' pairs, each of all rows and lanes.
        largest: int16 [8 x blocks, 2, K/16], contiguous: the largest magnitude of 8 inputs of a
            row, as the bits of a bf16 number: of the even eights, then of the odd ones, so that
            threads with neighbours store them apart and none is moved to be stored by another.
        order: one of `ORDERS`.
    """

    image: torch.Tensor
    largest: torch.Tensor
    order: int

    @property
    def num_inputs(self) -> int:
        """K."""
        return self.image.shape[1] * STEP

    def expect(self, function: str, rows: torch.Tensor) -> None:
        """Check that rows [T, K] have their places here.

        Args:
            function: public name that opens a message.
            rows: what the operands stand for.

        Raises:
            ValueError: they have other inputs, are too many, or on another device.
        """
        num_rows, width = rows.shape
        self._expect(function, num_rows, width, rows.device)

    def expect_heads(self, function: str, heads: torch.Tensor) -> None:
        """Check that rows of heads have their places here, and that a head is whole steps.

        Args:
            function: public name that opens a message.
            heads: bf16 [T, H, D], any strides: what the operands stand for as rows [T, H * D].

        Raises:
            ValueError: they have not, or D is no multiple of 128.
        """
        num_rows, num_heads, width = heads.shape
        if width % STEP:
            raise ValueError(
                f"{function}: heads of {width} values are no whole steps of {STEP}; "
                "pass no operands"
            )
        self._expect(function, num_rows, num_heads * width, heads.device)

    def _expect(self, function: str, num_rows: int, width: int, device: torch.device) -> None:
        most = BLOCK_ROWS * self.image.shape[0]
        if num_rows > most or width != self.num_inputs or device != self.image.device:
            raise ValueError(
                f"{function}: operands for {most} rows of {self.num_inputs} inputs on "
                f"{self.image.device} do not fit rows {[num_rows, width]} on {device}; "
                "make them with new_operands for these rows"
            )

    def fill(self, rows: torch.Tensor) -> None:
        """Write what a kernel writes for rows, bf16 [T, K]; places of other rows stay."""
        made = operands_of(rows, self.order)
        num_rows = rows.shape[0]
        self.largest[:num_rows] = made.largest[:num_rows]
        for at in range(0, num_rows, BLOCK_ROWS):
            block, count = at // BLOCK_ROWS, min(BLOCK_ROWS, num_rows - at)
            self.by_rows(block)[..., :count, :] = made.by_rows(block)[..., :count, :]

    def by_rows(self, block: int) -> torch.Tensor:
        """View a block's image as [K/128, 4, ..., 8, n]: n halves of each row side by side."""
        image = self.image[block]
        shape = (4, BLOCK_ROWS, 8) if self.order % 2 else (BLOCK_ROWS, 32)
        return image.view(*image.shape[:2], *shape)


def places(operands: Operands | None) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Return what a kernel that may write operands takes: image and magnitudes, or neither."""
    return (None, None) if operands is None else (operands.image, operands.largest)


def order(operands: Operands | None) -> int:
    """Return their order, which such a kernel is compiled for; 0 writes none."""
    return 0 if operands is None else operands.order


def new_operands(
    num_rows: int, num_inputs: int, order: int, device: torch.device | str
) -> Operands:
    """Allocate places.

    Args:
        num_rows: 1 to 32.
        num_inputs: K, a multiple of 128.
        order: one of `ORDERS`.
        device: of the rows.

    Raises:
        ValueError: a number is none of these.
    """
    if not 1 <= num_rows <= MAX_ROWS or num_inputs % STEP or order not in ORDERS:
        raise ValueError(
            f"new_operands: got {num_rows} rows of {num_inputs} inputs in order {order}, expected "
            f"1 to {MAX_ROWS} rows, a multiple of {STEP} inputs and an order of {ORDERS}"
        )
    blocks, steps = -(-num_rows // BLOCK_ROWS), num_inputs // STEP
    image = torch.empty((blocks, steps, 4, 32, 8), dtype=torch.float16, device=device)
    largest = torch.empty(
        (BLOCK_ROWS * blocks, 2, num_inputs // (2 * PART)), dtype=torch.int16, device=device
    )
    return Operands(image, largest, order)


def operands_of(rows: torch.Tensor, order: int) -> Operands:
    """State what operands are: those of rows, bf16 [T, K], zeros where a block has fewer rows."""
    num_rows, width = rows.shape
    operands = new_operands(num_rows, width, order, rows.device)
    blocks, steps = operands.image.shape[:2]
    padded = rows.new_zeros((BLOCK_ROWS * blocks, width))
    padded[:num_rows] = rows
    side_by_side = order - order % 2
    groups, pieces = STEP // (4 * side_by_side), side_by_side // 8
    apart = padded.view(blocks, BLOCK_ROWS, steps, groups, 4, pieces, 4, 2)
    image = apart.permute((0, 2, 3, 5, 6, 1, 4, 7) if order % 2 else (0, 2, 3, 5, 1, 4, 6, 7))
    image = image.reshape(blocks, steps, 4, 32, 8)
    operands.image.copy_(image.to(torch.float16))
    magnitudes = padded.view(torch.int16) & 0x7FFF
    eights = magnitudes.view(BLOCK_ROWS * blocks, -1, 2, PART).amax(3)
    operands.largest.copy_(eights.transpose(1, 2))
    return operands
