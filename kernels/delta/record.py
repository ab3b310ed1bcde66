"""Hold what a round wrote into the delta layers until the next round folds it into the states."""

from dataclasses import dataclass
from typing import Self

import torch

from kernels.common.round import MAX_ROWS


@dataclass(frozen=True, slots=True)
class DeltaRecord:
    """The factors of two rounds in one layer; or, with an axis of layers in front, in all of them.

    A round writes half `parity`, all of its rows; the accepted ones among those of half
    1 - `parity` are pending: accepted in the round before and not yet in the state.

    Attributes:
        raw: bf16 [2, 32, C], rows before the convolution; the conv family's.
        k: fp32 [2, 32, G, D], keys of length one.
        u: fp32 [2, 32, H, E], what a row writes along its key.
        decay: fp32 [2, 32, H], what a row leaves of the state: exp(g), 0 to 1.
    """

    raw: torch.Tensor
    k: torch.Tensor
    u: torch.Tensor
    decay: torch.Tensor

    @classmethod
    def allocate(
        cls,
        num_layers: int,
        *,
        channels: int,
        key_heads: int,
        value_heads: int,
        key_dim: int,
        value_dim: int,
        device: torch.device | str,
    ) -> Self:
        """Make the record of all layers, [layers, 2, 32, ...], full of zeros.

        Args:
            num_layers: delta layers.
            channels: C, of the convolution.
            key_heads: G.
            value_heads: H.
            key_dim: D.
            value_dim: E.
            device: where it lives.
        """
        halves = (num_layers, 2, MAX_ROWS)
        return cls(
            torch.zeros((*halves, channels), dtype=torch.bfloat16, device=device),
            torch.zeros((*halves, key_heads, key_dim), device=device),
            torch.zeros((*halves, value_heads, value_dim), device=device),
            torch.zeros((*halves, value_heads), device=device),
        )

    def layer(self, index: int) -> "DeltaRecord":
        """Return one layer of a record of all layers; it shares their memory."""
        return DeltaRecord(self.raw[index], self.k[index], self.u[index], self.decay[index])
