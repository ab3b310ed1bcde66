"""Play rounds through the walk as the engine does, on drawn tokens: for laws, timing and tests."""

from dataclasses import dataclass
from typing import Self

import torch

from kernels.common.round import MAX_ROWS
from kernels.common.tree import StagedTree, TreePlan, plan_chain
from kernels.delta.fold import delta_fold
from kernels.delta.gate import OutputGate
from kernels.delta.problems import BETAS, DECAYS, EPS
from kernels.delta.record import DeltaRecord
from kernels.delta.walk import delta_walk


@dataclass(frozen=True)
class Sizes:
    """Heads of a layer: G, H, D and E."""

    key_heads: int
    heads: int
    key_dim: int = 128
    value_dim: int = 128


@dataclass(frozen=True)
class Tokens:
    """What the rows of a round bring: q, k fp32 [T, G, D]; v bf16 [T, H, E]; beta, decay [T, H]."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    beta: torch.Tensor
    decay: torch.Tensor

    @classmethod
    def draw(cls, num_rows: int, sizes: Sizes, device: str, generator: torch.Generator) -> Self:
        """Draw rows on the CPU, so that every device sees the same."""
        keys = (num_rows, sizes.key_heads, sizes.key_dim)
        q, k = (torch.randn(keys, generator=generator) for _ in range(2))
        q, k = (x / x.norm(dim=-1, keepdim=True) for x in (q, k))
        v = torch.randn((num_rows, sizes.heads, sizes.value_dim), generator=generator)
        gates = (num_rows, sizes.heads)
        beta, decay = (domain.draw(gates, generator) for domain in (BETAS, DECAYS))
        q = q * sizes.key_dim**-0.5
        return cls(*(x.to(device) for x in (q, k, v.bfloat16(), beta, decay)))

    def row(self, index: int) -> "Tokens":
        """Return one row alone."""
        parts = (self.q, self.k, self.v, self.beta, self.decay)
        return Tokens(*(part[index : index + 1].contiguous() for part in parts))


def draw_gate(num_rows: int, sizes: Sizes, device: str, generator: torch.Generator) -> OutputGate:
    """Draw a gate of rows as a fused product gives it: a part of wider rows."""
    shape = (num_rows, sizes.heads + 1, sizes.value_dim)
    z = 2.0 * torch.randn(shape, generator=generator)
    weight = torch.randn(sizes.value_dim, generator=generator)
    return OutputGate(z.bfloat16().to(device)[:, 1:], weight.bfloat16().to(device), EPS)


class Layer:
    """The state of one layer, and the rows that wait to be folded into it."""

    def __init__(self, sizes: Sizes, device: str) -> None:
        """Start with an empty state."""
        self._sizes, self._device = sizes, device
        self.state = torch.zeros((1, sizes.heads, sizes.key_dim, sizes.value_dim), device=device)
        self.records = DeltaRecord.allocate(
            1,
            channels=0,
            key_heads=sizes.key_heads,
            value_heads=sizes.heads,
            key_dim=sizes.key_dim,
            value_dim=sizes.value_dim,
            device=device,
        )
        self.parity = torch.zeros(1, dtype=torch.int32, device=device)
        self.num_pending = torch.zeros(1, dtype=torch.int32, device=device)
        self.pending_rows = torch.zeros(MAX_ROWS, dtype=torch.int32, device=device)
        self.tables = StagedTree(torch.device(device))

    def copy(self) -> "Layer":
        """Return a layer that goes on from here by itself."""
        copied = Layer(self._sizes, self._device)
        copied.state.copy_(self.state)
        for name in ("k", "u", "decay"):
            getattr(copied.records, name).copy_(getattr(self.records, name))
        for name in ("parity", "num_pending", "pending_rows"):
            getattr(copied, name).copy_(getattr(self, name))
        return copied

    def follow(self, leader: "Layer") -> None:
        """Take the round's scalars and tables from another layer, as all layers of a model do."""
        self.parity, self.tables = leader.parity, leader.tables
        self.num_pending, self.pending_rows = leader.num_pending, leader.pending_rows

    def load(self, plan: TreePlan) -> None:
        """Load a plan, once no kernel reads the one before."""
        if self.state.is_cuda:
            torch.cuda.synchronize()
        self.tables.load(plan)

    def write(self, tokens: Tokens) -> None:
        """Write the keys and decays of a round's rows, as conv_gates does, and spoil their u."""
        rows, half, record = tokens.q.shape[0], int(self.parity), self.records.layer(0)
        record.k[half, :rows] = tokens.k
        record.decay[half, :rows] = tokens.decay
        record.u[half, :rows] = torch.nan

    def walk(
        self,
        tokens: Tokens,
        out: torch.Tensor | None = None,
        gate: OutputGate | None = None,
        *,
        overlap: bool = False,
    ) -> torch.Tensor:
        """Walk the rows of the loaded plan; their keys and decays were written."""
        out = torch.full_like(tokens.v, torch.nan) if out is None else out
        return delta_walk(
            tokens.q,
            tokens.v,
            tokens.beta,
            self.state[0],
            self.records.layer(0),
            self.parity,
            self.num_pending,
            self.pending_rows,
            self.tables.saves,
            self.tables.restores,
            out=out,
            gate=gate,
            overlap=overlap,
        )

    def verify(self, tokens: Tokens, plan: TreePlan) -> torch.Tensor:
        """Run a round up to its outputs."""
        self.load(plan)
        self.write(tokens)
        return self.walk(tokens)

    def step(self, token: Tokens) -> torch.Tensor:
        """Decode one row and accept it."""
        out = self.verify(token, plan_chain(1))
        self.accept((0,))
        return out

    def written_u(self, num_rows: int) -> torch.Tensor:
        """Return the u that the last walk wrote, before rows of it are accepted."""
        return self.records.u[0, int(self.parity), :num_rows]

    def accept(self, rows: tuple[int, ...]) -> None:
        """Make rows of the last walk pending, and turn the record over."""
        self.num_pending.fill_(len(rows))
        self.pending_rows.fill_(-1)  # what is beyond the pending rows is never looked up
        self.pending_rows[: len(rows)] = torch.tensor(rows, dtype=torch.int32)
        self.parity.copy_(1 - self.parity)

    def fold_again(self) -> torch.Tensor:
        """Fold what is pending and leave it pending, and return the state."""
        delta_fold(self.state, self.records, self.parity, self.num_pending, self.pending_rows)
        return self.state

    def fold(self) -> torch.Tensor:
        """Fold what is pending, and return the state."""
        self.fold_again()
        self.num_pending.zero_()
        return self.state
