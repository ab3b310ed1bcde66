"""Describe one problem of a kernel: its axes, tensors, value domains, bound and bytes.

Cases are data. Checks, timings and compile tests read the same ones, so what is timed is what was
checked.
"""

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from kernels.common.compare import Tolerance, bits_of
from kernels.common.domain import Domain

Tensors = Mapping[str, torch.Tensor]

GUARD = 128
"""Poisoned elements kept before and after each output; 128 keeps it aligned to 16 bytes."""


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of a case: its argument name, axis letters, dtype and, if an input, its values."""

    name: str
    axes: tuple[str, ...]
    dtype: torch.dtype
    domain: Domain | None = None

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape under given axis sizes."""
        return tuple(sizes[axis] for axis in self.axes)

    def num_bytes(self, sizes: Mapping[str, int]) -> int:
        """Return the bytes of the tensor under given axis sizes."""
        return math.prod(self.shape(sizes)) * self.dtype.itemsize


@dataclass(frozen=True)
class Outputs:
    """Poisoned outputs of a case, and the larger buffers that they lie in."""

    tensors: Tensors
    buffers: Tensors

    def written_outside(self) -> str | None:
        """Say which output was overrun: a guard element that is no longer NaN."""
        for name, buffer in self.buffers.items():
            guards = torch.cat((buffer[:GUARD], buffer[-GUARD:]))
            if not bool(guards.isnan().all()):
                return f"{name}: wrote outside its {self.tensors[name].numel()} elements"
        return None


@dataclass(frozen=True)
class Case:
    """One problem of one public function.

    Attributes:
        op: name of the function, a key of its family's `ops`.
        sizes: number of each axis letter.
        inputs: specs in argument order; each names its domain.
        outputs: specs of what the function writes.
        tolerance: bound on the outputs against the fp64 truth.
        interpreted: small enough for Triton's interpreter, about 1 ms a program.
        cuda_only: too large for a CPU, or means nothing there.
        note: what a label must say besides: the storage format of a weight.
    """

    op: str
    sizes: Mapping[str, int]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    tolerance: Tolerance
    interpreted: bool
    cuda_only: bool = False
    note: str = ""

    @property
    def label(self) -> str:
        """Name the case: sizes, then note, domain of the first input and unusual dtypes.

        Sizes that follow from others, such as K/16, are left out.
        """
        sizes = " ".join(f"{axis}={size}" for axis, size in self.sizes.items() if "/" not in axis)
        first = self.inputs[0]
        domain = first.domain.name if first.domain else ""
        others = [f"{s.name}:fp32" for s in self.inputs if s.dtype == torch.float32]
        return " ".join(part for part in (sizes, self.note, domain, *others) if part)

    @property
    def read_bytes(self) -> int:
        """Bytes the kernel must read: every input once."""
        return sum(spec.num_bytes(self.sizes) for spec in self.inputs)

    @property
    def written_bytes(self) -> int:
        """Bytes the kernel must write: every output once."""
        return sum(spec.num_bytes(self.sizes) for spec in self.outputs)

    def draw(self, seed: int, device: str) -> dict[str, torch.Tensor]:
        """Draw the inputs; one seed gives the same values on every device.

        Args:
            seed: any integer.
            device: where the tensors go; they are drawn on the CPU, and repeated there where
                their domain has a period.

        Raises:
            ValueError: an input names no domain.
        """
        drawn: dict[str, torch.Tensor] = {}
        for spec in self.inputs:
            if spec.domain is None:
                raise ValueError(f"{self.op} {self.label}: input {spec.name} names no domain")
            key = zlib.crc32(f"{self.op}/{self.label}/{spec.name}/{seed}".encode())
            generator = torch.Generator().manual_seed(key)
            shape, period = spec.shape(self.sizes), spec.domain.period
            if period is None or math.prod(shape) <= period:
                drawn[spec.name] = spec.domain.draw(shape, generator).to(spec.dtype).to(device)
            else:
                values = spec.domain.draw((period,), generator).to(spec.dtype).to(device)
                drawn[spec.name] = _repeated(values, shape)
        return drawn

    def poisoned_outputs(self, device: str, sizes: Mapping[str, int] | None = None) -> Outputs:
        """Allocate outputs full of NaN between guards full of NaN.

        An element that the kernel leaves unwritten stays NaN and fails every comparison; one that
        it writes outside shows in `Outputs.written_outside`.

        Args:
            device: where the tensors go.
            sizes: axis sizes where they are not the case's own (fewer rows, say).
        """
        sizes = self.sizes if sizes is None else sizes
        tensors: dict[str, torch.Tensor] = {}
        buffers: dict[str, torch.Tensor] = {}
        for spec in self.outputs:
            shape = spec.shape(sizes)
            count = math.prod(shape)
            buffer = torch.full((count + 2 * GUARD,), math.nan, dtype=spec.dtype, device=device)
            buffers[spec.name] = buffer
            tensors[spec.name] = buffer[GUARD : GUARD + count].view(shape)
        return Outputs(tensors, buffers)


def _repeated(values: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Fill a shape with values one after another, from the first again after the last."""
    count = math.prod(shape)
    bits = bits_of(values).repeat(-(-count // values.numel()))[:count]
    return bits.view(values.dtype).view(shape)
