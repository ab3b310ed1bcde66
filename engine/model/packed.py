"""A matrix packed for a GPU's kernels: its weight, and how each number of rows is multiplied.

Launch choices are made once, at load. Up to 32 rows go through the skinny kernel, where a row's
bits are the same in any company; decode lives there. More rows are prefill, whose chunks are cut
by position, so the same range of a text always takes the same way.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch

from kernels.common import gpu
from kernels.common.chips import measured_like
from kernels.common.operands import Operands
from kernels.common.round import MAX_ROWS
from kernels.linear import middle_tile, prefill_fp8
from kernels.linear.expand import expanded_linear
from kernels.linear.formats import STEP
from kernels.linear.middle import middle_linear
from kernels.linear.middle_tile import MiddleTile
from kernels.linear.prefill_fp8 import fp8_prefill_linear
from kernels.linear.reference import dequantise
from kernels.linear.skinny import operands_for, order_of, skinny_linear
from kernels.linear.tile import SkinnyTiles
from kernels.linear.weight import (
    Nvfp4Weight,
    Weight,
    format_name,
    num_outputs,
    padded_inputs,
)


@dataclass(frozen=True, slots=True)
class Crossovers:
    """Rows that the middle kernel is for; below it is skinny's, above the expanded weight's."""

    middle_from: int
    middle_to: int


@dataclass(frozen=True, slots=True)
class Way:
    """Which kernel computes a product, and why."""

    kernel: Literal["skinny", "middle", "expand", "fp8"]
    reason: str


def crossovers_of(capability: tuple[int, int]) -> Crossovers:
    """The measured crossovers of a GPU family (``kernels.linear.middle_tile``)."""
    return Crossovers(*middle_tile.MIDDLE_ROWS[measured_like(capability)])


def fp8_rows_from(capability: tuple[int, int], format_name: str) -> int | None:
    """Rows from which FP8 operands pay on a GPU family, for weights of a format; None is never."""
    return prefill_fp8.ROWS_FROM[measured_like(capability)].get(format_name)


@cache
def way_of(num_rows: int, crossovers: Crossovers, fp8_from: int | None = None) -> Way:
    """Choose the kernel of a product by its number of rows alone.

    Args:
        num_rows: of the product.
        crossovers: of the GPU.
        fp8_from: rows from which FP8 operands serve, where the person chose them and they pay for
            the weight's format; more than a round has.
    """
    first, last = crossovers.middle_from, crossovers.middle_to
    if fp8_from is not None and num_rows >= fp8_from:
        return Way("fp8", f"{num_rows} rows are {fp8_from} or more: the FP8 tensor cores, as set")
    if num_rows <= MAX_ROWS:
        return Way("skinny", f"{num_rows} rows are at most {MAX_ROWS}: the weight is read once")
    if num_rows < first:
        return Way("skinny", f"{num_rows} rows are fewer than {first}: slices of {MAX_ROWS} rows")
    if num_rows <= last:
        return Way("middle", f"{num_rows} rows are {first} to {last}: decoded while multiplied")
    return Way("expand", f"{num_rows} rows are more than {last}: widened once, library product")


class Workspace:
    """Memory in which the matrices of a model are widened, or rounded to 8 bits, one after another.

    It is made when needed.
    """

    def __init__(self) -> None:
        self.num_elements = 0
        self._buffer: torch.Tensor | None = None

    def make_room_for(self, weight: Weight) -> None:
        """Be large enough for a weight in BF16, and in e4m3, whose inputs are padded."""
        width = max(weight.K, padded_inputs(weight) // 2)
        self.num_elements = max(self.num_elements, num_outputs(weight) * width)

    def buffer(self, device: torch.device) -> torch.Tensor:
        """The memory: bf16 [num_elements]."""
        if self._buffer is None:
            self._buffer = torch.empty(self.num_elements, dtype=torch.bfloat16, device=device)
        return self._buffer


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A weight with its launch choices.

    Attributes:
        weight: N rows of K inputs, one matrix or several joined along N.
        tiles: of the skinny kernel, for up to 32 rows; they change no bit.
        crossovers: of the GPU.
        workspace: shared with the model's other matrices.
        fp8_from: rows from which prompts are multiplied by FP8 operands; None is never.
        overlap: launch the skinny kernel before its predecessor ends; changes no bit.
        pair_tiles: for gate over up, to end in silu(gate) * up; None multiplies them apart.
        paired_to: rows up to which they do.
    """

    weight: Weight
    tiles: SkinnyTiles
    crossovers: Crossovers
    workspace: Workspace
    overlap: bool = False
    pair_tiles: SkinnyTiles | None = None
    paired_to: int = 0
    fp8_from: int | None = None

    def operands_for(self, num_rows: int) -> Operands | None:
        """Places to write rows as operands too, where so many are multiplied faster for it."""
        return operands_for(self.weight, self.tiles_for(num_rows), num_rows)

    def tiles_for(self, num_rows: int) -> SkinnyTiles:
        """The launch choices that so many rows go by: those of a pair where they are `gated`."""
        pair = self.pair_tiles
        return pair if pair is not None and self.gates(num_rows) else self.tiles

    def product(self, x: torch.Tensor, operands: Operands | None = None) -> torch.Tensor:
        """Multiply rows: bf16 [T, K] -> bf16 [T, N], the kernel as `way_of` says.

        ``operands`` are x for some weight of its readers; another order than this one's is left.
        """
        num_rows = x.shape[0]
        if num_rows <= MAX_ROWS:
            order = order_of(self.weight, self.tiles.serving(num_rows))
            fits = operands is not None and operands.order == order
            return skinny_linear(
                x, self.weight, tiles=self.tiles, overlap=self.overlap,
                operands=operands if fits else None,
            )  # fmt: skip
        kernel = way_of(num_rows, self.crossovers, self.fp8_from).kernel
        if kernel == "middle":
            return middle_linear(x, self.weight, tile=_middle_tile(self.weight, x))
        if kernel == "fp8":
            return fp8_prefill_linear(x, self.weight, buffer=self._buffer(x))
        if kernel == "expand":
            return expanded_linear(x, self.weight, buffer=self.workspace.buffer(x.device))
        return self._sliced(x, x.new_empty((num_rows, num_outputs(self.weight))))

    def logits(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Multiply rows without rounding: bf16 [T, K] -> fp32 [T, N], into ``out`` if given.

        One order for every number of rows: a row has the bits of a call with that row alone.
        """
        if out is None:
            size = (x.shape[0], num_outputs(self.weight))
            out = torch.empty(size, dtype=torch.float32, device=x.device)
        return self._sliced(x, out)

    def gates(self, num_rows: int) -> bool:
        """Say whether gate and up of so many rows end in one output."""
        return self.pair_tiles is not None and num_rows <= self.paired_to

    def gated(
        self,
        x: torch.Tensor,
        operands: Operands | None = None,
        ready: Operands | None = None,
    ) -> torch.Tensor:
        """Compute silu(gate) * up of rows that it `gates`, rounded as if apart.

        ``operands`` are x for this weight; ``ready`` are written with the result.
        """
        return skinny_linear(
            x, self.weight, tiles=self.pair_tiles, paired=True, overlap=self.overlap,
            operands=operands, ready=ready,
        )  # fmt: skip

    def expand(self) -> torch.Tensor:
        """The values, bf16 [N, K]."""
        return dequantise(self.weight)

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Everything held, the shared workspace aside."""
        return self.weight.tensors()

    def _buffer(self, x: torch.Tensor) -> torch.Tensor | None:
        """Where a 4-bit weight is rounded; an 8-bit one needs no place."""
        is_rounded = isinstance(self.weight, Nvfp4Weight)
        return self.workspace.buffer(x.device) if is_rounded else None

    def _sliced(self, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        for start in range(0, x.shape[0], MAX_ROWS):
            rows = slice(start, start + MAX_ROWS)
            skinny_linear(
                x[rows], self.weight, tiles=self.tiles, overlap=self.overlap, out=out[rows]
            )
        return out


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """Rows of a packed weight that several matrices share."""

    whole: Packed
    rows: slice

    def expand(self) -> torch.Tensor:
        """The values, bf16 [N, K]."""
        return self.whole.expand()[self.rows]

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Everything the whole weight holds."""
        return self.whole.tensors()


def _middle_tile(weight: Weight, x: torch.Tensor) -> MiddleTile | None:
    """The middle kernel's default tile, looked up once a size; None on a CPU, which needs none."""
    if not x.is_cuda:
        return None
    N, num_steps = num_outputs(weight), padded_inputs(weight) // STEP
    return _middle_tile_of(format_name(weight), N, num_steps, x.shape[0], x.get_device())


@cache
def _middle_tile_of(name: str, N: int, num_steps: int, num_rows: int, device: int) -> MiddleTile:
    measured = measured_like(gpu.choices(device))
    return middle_tile.default(name, N, num_steps, num_rows, measured)
