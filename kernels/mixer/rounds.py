"""Play rounds through a recurrent layer, its rows in one launch or in two: for laws and timings."""

from dataclasses import dataclass
from typing import Self

import torch

from kernels.common.operands import Operands
from kernels.common.round import MAX_ROWS
from kernels.common.tree import StagedTree, TreePlan
from kernels.conv.arguments import PRODUCT_LANES as SUMS
from kernels.conv.arguments import GateInputs
from kernels.conv.op import conv_gates
from kernels.delta.gate import OutputGate
from kernels.delta.record import DeltaRecord
from kernels.delta.walk import delta_walk
from kernels.mixer.op import mixer_rows
from kernels.mixer.tile import HEAD_DIM


@dataclass(frozen=True)
class Sizes:
    """Key and value heads of a layer, and the inputs of its a | b."""

    key_heads: int
    heads: int
    inputs: int

    @property
    def channels(self) -> int:
        """C, of the convolution."""
        return (2 * self.key_heads + self.heads) * HEAD_DIM


@dataclass(frozen=True)
class Weights:
    """What a layer holds: as `mixer_rows` takes it."""

    taps: torch.Tensor
    gates: torch.Tensor
    decay_rate: torch.Tensor
    dt_bias: torch.Tensor
    norm: torch.Tensor

    @classmethod
    def draw(cls, sizes: Sizes, device: str, generator: torch.Generator) -> Self:
        """Draw weights like a model's."""
        normal = (
            0.5 * torch.randn((sizes.channels, 4), generator=generator),
            torch.randn((2 * sizes.heads, sizes.inputs), generator=generator) * 0.02,
            -torch.randn(sizes.heads, generator=generator).exp(),
            2.0 * torch.randn(sizes.heads, generator=generator),
            0.87 + 0.1 * torch.randn(HEAD_DIM, generator=generator),
        )
        taps, gates, rate, bias, norm = (one.to(device) for one in normal)
        gates[:, 1:SUMS:2] = gates[:, 0:SUMS:2]
        return cls(taps.bfloat16(), gates.bfloat16(), rate, bias, norm.bfloat16())


@dataclass(frozen=True)
class Rows:
    """What the rows of a round bring: x bf16 [T, C], the rows of a | b, bf16 [T, K], and z.

    z: bf16 [T, H, 128], the output's gate.
    """

    x: torch.Tensor
    inputs: torch.Tensor
    z: torch.Tensor

    @classmethod
    def draw(cls, num_rows: int, sizes: Sizes, device: str, generator: torch.Generator) -> Self:
        """Draw rows as products give them: x and z are parts of wider rows.

        Where a thread adds several inputs of a | b, the first are large and cancel in pairs: what
        is left shows the order in which the others were added to them.
        """
        gates = sizes.heads * HEAD_DIM
        wide = torch.randn((num_rows, sizes.channels + gates), generator=generator)
        inputs = torch.randn((num_rows, sizes.inputs), generator=generator)
        if sizes.inputs > SUMS:
            inputs[:, 0:SUMS:2] *= 1e5
            inputs[:, 1:SUMS:2] = -inputs[:, 0:SUMS:2]
        x, z = wide.bfloat16().to(device).split((sizes.channels, gates), 1)
        return cls(x, inputs.bfloat16().to(device), z.unflatten(1, (-1, HEAD_DIM)))

    def row(self, index: int) -> "Rows":
        """Return one row alone."""
        one = slice(index, index + 1)
        return Rows(self.x[one], self.inputs[one], self.z[one])


class Layer:
    """The buffers of one layer over rounds, as an engine keeps them."""

    def __init__(self, sizes: Sizes, weights: Weights, device: str) -> None:
        """Start with an empty state and tail."""
        self.sizes, self.weights = sizes, weights
        self.state = torch.zeros((sizes.heads, HEAD_DIM, HEAD_DIM), device=device)
        self.tails = torch.zeros((2, 3, sizes.channels), dtype=torch.bfloat16, device=device)
        self.record = DeltaRecord.allocate(
            1, channels=sizes.channels, key_heads=sizes.key_heads, value_heads=sizes.heads,
            key_dim=HEAD_DIM, value_dim=HEAD_DIM, device=device,
        ).layer(0)  # fmt: skip
        scalars = torch.zeros(2, dtype=torch.int32, device=device)
        self.parity, self.num_pending = scalars[:1], scalars[1:]
        self.pending_rows = torch.zeros(MAX_ROWS, dtype=torch.int32, device=device)
        self.tree = StagedTree(torch.device(device))

    def copy(self) -> "Layer":
        """Return a layer that goes on from here by itself; it shares weights and tables."""
        copied = Layer(self.sizes, self.weights, str(self.state.device))
        for own, other in zip(copied.buffers(), self.buffers(), strict=True):
            own.copy_(other)
        copied.tree = self.tree
        return copied

    def follow(self, leader: "Layer") -> None:
        """Take the round's scalars and tables from another layer, as all layers of a model do."""
        self.parity, self.num_pending = leader.parity, leader.num_pending
        self.pending_rows, self.tree = leader.pending_rows, leader.tree

    def buffers(self) -> tuple[torch.Tensor, ...]:
        """All that a round reads or writes."""
        record = self.record
        return (
            self.state, self.tails, record.raw, record.k, record.u, record.decay,
            self.parity, self.num_pending, self.pending_rows,
        )  # fmt: skip

    def begin(self, plan: TreePlan) -> None:
        """Load a plan once no kernel reads the one before, and spoil what the round writes."""
        if self.state.is_cuda:
            torch.cuda.synchronize()
        self.tree.load(plan)
        half, record = int(self.parity), self.record
        for one in (self.tails, record.raw, record.k, record.u, record.decay):
            one[half] = torch.nan

    def gate(self, rows: Rows, operands: Operands | None = None) -> OutputGate:
        """Return what may follow the rows' walk."""
        return OutputGate(rows.z, self.weights.norm, 1e-6, operands)

    def joined(
        self,
        rows: Rows,
        out: torch.Tensor,
        *,
        gate: OutputGate | None = None,
        overlap: bool = False,
    ) -> None:
        """Run the rows of the loaded plan in one launch."""
        weights = self.weights
        mixer_rows(
            rows.x, GateInputs(rows.inputs, weights.gates), weights.taps, weights.decay_rate,
            weights.dt_bias, self.tails, self.record, self.state, self.parity, self.num_pending,
            self.pending_rows, self.tree, out=out, gate=gate, overlap=overlap,
        )  # fmt: skip

    def apart(
        self,
        rows: Rows,
        out: torch.Tensor,
        *,
        gate: OutputGate | None = None,
        overlap: bool = False,
    ) -> None:
        """Run them in two."""
        sizes, weights, record = self.sizes, self.weights, self.record
        q = torch.empty(
            (len(out), sizes.key_heads, HEAD_DIM), dtype=torch.float32, device=out.device
        )
        v = torch.empty_like(out)
        beta = torch.empty((len(out), sizes.heads), dtype=torch.float32, device=out.device)
        conv_gates(
            rows.x, GateInputs(rows.inputs, weights.gates), weights.taps, weights.decay_rate,
            weights.dt_bias, self.tails, record.raw, record.k, record.decay, self.parity,
            self.num_pending, self.pending_rows, self.tree.parents, q=q, v=v, beta=beta,
            overlap=overlap,
        )  # fmt: skip
        delta_walk(
            q, v, beta, self.state, record, self.parity, self.num_pending, self.pending_rows,
            self.tree.saves, self.tree.restores, out=out, gate=gate,
            overlap=overlap,
        )  # fmt: skip

    def accept(self, path: tuple[int, ...]) -> None:
        """Keep the rows of a path."""
        self.pending_rows.fill_(-1)  # what is beyond the pending rows is never looked up
        self.pending_rows[: len(path)] = torch.tensor(path, dtype=torch.int32)
        self.num_pending.fill_(len(path))
        self.parity.bitwise_xor_(1)
