"""What some layers leave in the residual stream, handed to a drafter that reads it.

A forward pass writes rows to a buffer at one address, so that a captured graph can; whoever ran it
then copies and keeps those that count. What is kept of a position stands for the newest text there:
keeping rows from a position on forgets what was kept behind it.
"""

import torch


class Taps:
    """Rows of the residual stream behind some layers of a model.

    Attributes:
        layers: whose outputs are tapped, ascending.
        buffer: bf16 [rows, layers * D], a row's outputs side by side; the next pass overwrites it.

    Args:
        layers: of the model.
        width: D of the stream.
        num_rows: most rows of a pass.
        device: of the model.
    """

    def __init__(
        self, layers: tuple[int, ...], width: int, num_rows: int, device: torch.device
    ) -> None:
        self.layers = layers
        self._width = width
        size = (num_rows, len(layers) * width)
        self.buffer = torch.empty(size, dtype=torch.bfloat16, device=device)
        self._kept: list[tuple[int, torch.Tensor]] = []

    def write(self, layer: int, stream: torch.Tensor) -> None:
        """Copy a layer's output, bf16 [T, D], to the first rows; nothing for other layers."""
        if layer in self.layers:
            start = self.layers.index(layer) * self._width
            self.buffer[: len(stream), start : start + self._width] = stream

    def keep(self, start: int, rows: torch.Tensor) -> None:
        """Keep rows that were copied from the buffer.

        Args:
            start: position of the first; they follow each other.
            rows: bf16 [T, layers * D].
        """
        self.forget_from(start)
        self._kept.append((start, rows))

    def copy(self, num_rows: int) -> torch.Tensor:
        """The first rows of the buffer, as the newest pass left them."""
        return self.buffer[:num_rows].clone()

    def forget_from(self, start: int) -> None:
        """Forget what was kept of positions from ``start`` on."""
        self._kept = [(first, rows[: start - first]) for first, rows in self._kept if first < start]

    def take(self, start: int, num_rows: int) -> torch.Tensor:
        """Hand out rows, and forget all that is kept.

        Returns:
            bf16 [num_rows, layers * D], of positions from ``start`` on.

        Raises:
            ValueError: a row of them was not kept.
        """
        found = [rows[max(start - first, 0) :] for first, rows in self._kept]
        firsts = [max(first, start) for first, _ in self._kept]
        self._kept = []
        at = start
        taken: list[torch.Tensor] = []
        for first, rows in zip(firsts, found, strict=True):
            if first == at and len(rows):
                taken.append(rows)
                at += len(rows)
        if at < start + num_rows:
            raise ValueError(f"take: positions from {at} on were not kept")
        return torch.cat(taken)[:num_rows]
