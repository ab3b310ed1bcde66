"""The parts of a drafter's layer that no other model has: its convolutions and its attention.

Everything is launched with shapes that a block and a class of contexts fix, and nothing is read
back, so the launches can be captured.
"""

import math

import torch

from engine.dflash.config import DflashConfig
from engine.dflash.weights import ConvWeights
from engine.model.matrix import product

BEFORE, BEHIND = 0, 1
"""Sides of a sublayer: each has a kernel."""


class BlockConv:
    """The convolutions around one sublayer of a block.

    y_t = sum over taps i of (base_i + delta_i) x_{t - i}, where rows before the block are zeros;
    deltas are of a group of channels, made from the row that the sublayer is given.

    Args:
        x: bf16 [T, D], normed rows, from which the deltas of both sides are made.
        weights: of the sublayer.
        config: the drafter's numbers.
    """

    def __init__(self, x: torch.Tensor, weights: ConvWeights, config: DflashConfig) -> None:
        taps, groups, size = config.conv_taps, config.num_groups, config.conv_group
        deltas = product(x, weights.projection).reshape(len(x), 2, taps, groups, 1)
        base = weights.base.view(2, taps, groups, size)
        self._kernels = base.float() + deltas.float()  # [T, 2, taps, groups, size]

    def apply(self, side: int, x: torch.Tensor) -> torch.Tensor:
        """Convolve rows: bf16 [T, D] -> bf16 [T, D], summed in fp32 and rounded once."""
        kernels = self._kernels[:, side]
        num_rows, taps, groups, size = kernels.shape
        wide = x.float().reshape(num_rows, groups, size)
        out = kernels[:, 0] * wide
        for tap in range(1, taps):
            out[tap:] += kernels[tap:, tap] * wide[:-tap]
        return out.view(x.shape).to(x.dtype)


class BlockWindow:
    """Which keys the rows of a block see: the block's own, and those of the context near them.

    Args:
        config: the drafter's numbers.
        max_context: most positions of the context that are looked at; a power of two.
        device: of the drafter.
    """

    def __init__(self, config: DflashConfig, max_context: int, device: torch.device) -> None:
        block = config.block_size
        offsets = torch.arange(-max_context, block, device=device)
        rows = torch.arange(block, device=device)
        self._offsets = offsets
        self._far = (offsets[None] - rows[:, None]).abs() >= config.window

    def at(self, start: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Look around a block.

        Args:
            start: int32 [1], position of its first row, the length of the context.

        Returns:
            int64 [S] slots of the keys, S = max_context + block, where positions before the first
            are slot 0; and bool [block, S], those that a row does not see.
        """
        positions = self._offsets + start
        return positions.clamp(min=0), self._far | (positions < 0)


def attend_block(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    slots: torch.Tensor,
    hidden: torch.Tensor,
) -> torch.Tensor:
    """Attend from all rows of a block, in both directions.

    Args:
        query: bf16 [T, H, D], normed and rotated.
        keys: bf16 [G, capacity, D] of one layer, those of the block stored.
        values: bf16 [G, capacity, D].
        slots: int64 [S].
        hidden: bool [T, S].

    Returns:
        bf16 [T, H * D].

    Numerics:
        Scores and weights are rounded to bf16, the softmax between them is fp32.
    """
    num_rows, num_heads, width = query.shape
    groups = keys.shape[0]
    near_keys, near_values = keys.index_select(1, slots), values.index_select(1, slots)
    by_group = query.view(num_rows, groups, -1, width).permute(1, 2, 0, 3)
    rows = by_group.reshape(groups, -1, width)
    scores = torch.bmm(rows, near_keys.transpose(1, 2)) * (1.0 / math.sqrt(width))
    scores = scores.float().view(groups, -1, num_rows, len(slots)).masked_fill(hidden, -math.inf)
    weights = scores.softmax(-1).to(query.dtype).view(groups, -1, len(slots))
    mixed = torch.bmm(weights, near_values).view(groups, -1, num_rows, width)
    return mixed.permute(2, 0, 1, 3).reshape(num_rows, num_heads * width)
