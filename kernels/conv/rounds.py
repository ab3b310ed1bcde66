"""Run one layer's convolution over rounds as an engine does, for laws and timings."""

import random
from dataclasses import dataclass, field

import torch

from kernels.common.round import MAX_ROWS
from kernels.common.tree import depth_first
from kernels.conv.arguments import GateInputs
from kernels.conv.op import conv_gates


@dataclass
class Layer:
    """The weights of one layer, drawn from a seed."""

    device: str
    seed: int
    key_heads: int
    value_heads: int
    width: int
    channels: int = field(init=False)

    def __post_init__(self) -> None:
        self.channels = (2 * self.key_heads + self.value_heads) * self.width
        self._generator = torch.Generator().manual_seed(self.seed)
        self.weight = self.draw(self.channels, 4)
        self.decay_rate = -self.draw(self.value_heads).float().exp()
        self.dt_bias = self.draw(self.value_heads).float()

    def draw(self, *shape: int) -> torch.Tensor:
        """Draw bf16 normal values."""
        values = torch.randn(shape, generator=self._generator)
        return values.bfloat16().to(self.device)

    def rows(self, num_rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw x and ab of some rows."""
        return self.draw(num_rows, self.channels), self.draw(num_rows, 2 * self.value_heads)

    def product_rows(self, num_rows: int, num_inputs: int) -> tuple[torch.Tensor, GateInputs]:
        """Draw x of some rows, and what their a | b are the product of."""
        weight = self.draw(2 * self.value_heads, num_inputs) * num_inputs**-0.5
        return self.draw(num_rows, self.channels), GateInputs(
            self.draw(num_rows, num_inputs), weight
        )


def small_layer(device: str, seed: int) -> Layer:
    """Make a layer whose laws are tried in a second or two: on a CPU it is interpreted."""
    return Layer(device, seed, 2, 6, 128) if device == "cuda" else Layer(device, seed, 1, 2, 16)


class Rounds:
    """The buffers of one layer over rounds, as an engine keeps them."""

    def __init__(self, layer: Layer, tail: torch.Tensor) -> None:
        self.layer = layer
        self.tails = torch.full(
            (2, 3, layer.channels), torch.nan, dtype=torch.bfloat16, device=layer.device
        )
        self.tails[1] = tail
        record = (2, MAX_ROWS)
        self.raw = self.tails.new_full((*record, layer.channels), torch.nan)
        wide = {"dtype": torch.float32, "device": layer.device}
        keys = (layer.key_heads, layer.width)
        self.k = torch.full((*record, *keys), torch.nan, **wide)
        self.decay = torch.full((*record, layer.value_heads), torch.nan, **wide)
        scalars = torch.zeros(2 + 2 * MAX_ROWS, dtype=torch.int32, device=layer.device)
        self.use_scalars(scalars)

    def use_scalars(self, scalars: torch.Tensor) -> None:
        """Take parity, pending rows and tree from int32 [66], which layers may share."""
        self.scalars = scalars
        self.parity, self.num_pending = scalars[:1], scalars[1:2]
        self.pending_rows = scalars[2 : 2 + MAX_ROWS]
        self.parents = scalars[2 + MAX_ROWS :]

    def copy(self) -> "Rounds":
        """Copy all buffers."""
        other = Rounds(self.layer, self.tails[1])
        for name in ("tails", "raw", "k", "decay", "scalars"):
            getattr(other, name).copy_(getattr(self, name))
        return other

    def verify(
        self,
        x: torch.Tensor,
        ab: torch.Tensor | GateInputs,
        parents: tuple[int, ...],
        *,
        overlap: bool = False,
    ) -> dict[str, torch.Tensor]:
        """Run one round, with NaN where it writes, and return what it wrote.

        Args:
            x: bf16 [T, C].
            ab: bf16 [T, 2 H], or what makes it.
            parents: row that each row follows, -1 for row 0.
            overlap: as `conv_gates` takes it.
        """
        self.parents[: len(parents)] = torch.tensor(parents, dtype=torch.int32)
        half, num_rows = int(self.parity), len(x)
        for record in (self.tails, self.raw, self.k, self.decay):
            record[half] = torch.nan
        outputs = self.outputs(num_rows)
        self.launch(x, ab, outputs, overlap=overlap)
        return outputs | {
            "raw": self.raw[half, :num_rows].clone(),
            "k": self.k[half, :num_rows].clone(),
            "decay": self.decay[half, :num_rows].clone(),
            "tail": self.tails[half].clone(),
        }

    def outputs(self, num_rows: int) -> dict[str, torch.Tensor]:
        """Allocate the outputs of a call, full of NaN."""
        layer = self.layer
        return {
            "q": self.k.new_full((num_rows, layer.key_heads, layer.width), torch.nan),
            "v": self.raw.new_full((num_rows, layer.value_heads, layer.width), torch.nan),
            "beta": self.k.new_full((num_rows, layer.value_heads), torch.nan),
        }

    def launch(
        self,
        x: torch.Tensor,
        ab: torch.Tensor | GateInputs,
        outputs: dict[str, torch.Tensor],
        *,
        overlap: bool = False,
    ) -> None:
        """Call conv_gates on the buffers; x bf16 [T, C], ab bf16 [T, 2 H], `outputs`' tensors."""
        layer = self.layer
        conv_gates(
            x, ab, layer.weight, layer.decay_rate, layer.dt_bias, self.tails, self.raw, self.k,
            self.decay, self.parity, self.num_pending, self.pending_rows, self.parents,
            q=outputs["q"], v=outputs["v"], beta=outputs["beta"], overlap=overlap,
        )  # fmt: skip

    def accept(self, path: tuple[int, ...]) -> None:
        """Keep the rows of a path."""
        self.pending_rows[: len(path)] = torch.tensor(path, dtype=torch.int32)
        self.num_pending.fill_(len(path))
        self.parity.bitwise_xor_(1)


def random_tree(num_rows: int, chance: random.Random) -> tuple[int, ...]:
    """Draw the parents of a tree in the order that a plan asks for."""
    parents = [-1, *(chance.randrange(max(0, row - 5), row) for row in range(1, num_rows))]
    order = depth_first(parents)
    return tuple(-1 if old == 0 else order.index(parents[old]) for old in order)
