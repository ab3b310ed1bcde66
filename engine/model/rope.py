"""Positions: the angles that queries and keys are rotated by."""

from typing import Protocol

import torch

BLOCK_TOKENS = 1024
"""The table grows by this many positions at least."""


class Rotation(Protocol):
    """What decides the angles."""

    @property
    def rotary_dim(self) -> int:
        """Dimensions of a head that are rotated, in pairs of halves."""
        ...

    @property
    def rope_theta(self) -> float:
        """Base of the frequencies."""
        ...


class RopeTable:
    """Cosines and sines of every position so far, grown as positions are asked for.

    Text has one position on all three axes of the multimodal rotation, so this is plain rope.
    The frequencies stay in fp32: rounded to BF16 they turn half of all attention outputs wrong.
    """

    def __init__(self, config: Rotation, device: torch.device) -> None:
        width = config.rotary_dim
        exponent = torch.arange(0, width, 2, dtype=torch.float) / width
        self._frequencies = (1.0 / (config.rope_theta**exponent)).to(device)
        self._cos = torch.empty((0, width), dtype=torch.bfloat16, device=device)
        self._sin = self._cos

    @property
    def address(self) -> int:
        """Where the table lies, which growing changes."""
        return self._cos.data_ptr()

    def reserve(self, end: int) -> None:
        """Hold the positions before ``end``, which may move the table."""
        if end > self._cos.shape[0]:
            self._grow(max(end, self._cos.shape[0] + BLOCK_TOKENS))

    def angles(self, start: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines of positions [start, end).

        Returns:
            bf16 [end - start, R] twice, both halves of a row alike; computed in fp32, rounded once.
        """
        self.reserve(end)
        return self._cos[start:end], self._sin[start:end]

    def _grow(self, num_positions: int) -> None:
        positions = torch.arange(num_positions, device=self._frequencies.device)
        angles = positions.float()[:, None] * self._frequencies
        self._cos = torch.cat((angles.cos(),) * 2, -1).bfloat16()
        self._sin = torch.cat((angles.sin(),) * 2, -1).bfloat16()
