"""Memory between files and a GPU: one half is filled while the other is copied."""

import torch

PIECE_BYTES = 32 << 20
"""Bytes read at a time: long enough for full disk speed, short enough to stop at once."""

STAGING_BYTES = 2 * PIECE_BYTES


class Staging:
    """Two buffers in turns.

    Args:
        device: what is copied goes there; to a GPU it goes from pinned memory.
    """

    def __init__(self, device: torch.device) -> None:
        self._is_pinned = device.type == "cuda"
        self._buffers = [torch.empty(0, dtype=torch.uint8)] * 2
        self._copied: list[torch.cuda.Event | None] = [None, None]
        self._turn = 0

    def next_piece(self, num_bytes: int) -> torch.Tensor:
        """A buffer uint8 [num_bytes] to fill, once its last copy is over.

        The one before stays as it is.
        """
        self._turn = 1 - self._turn
        copied = self._copied[self._turn]
        if copied is not None:
            copied.synchronize()
        if self._buffers[self._turn].numel() < num_bytes:
            size = max(num_bytes, PIECE_BYTES) if self._is_pinned else num_bytes
            self._buffers[self._turn] = torch.empty(
                size, dtype=torch.uint8, pin_memory=self._is_pinned
            )
        return self._buffers[self._turn][:num_bytes]

    def copy(self, piece: torch.Tensor, out: torch.Tensor) -> None:
        """Copy what the last piece was filled with; from pinned memory nothing waits for it.

        Args:
            piece: the buffer of `next_piece`, or a view of it in another dtype.
            out: where to, on the device; rounded where the dtype is another.
        """
        out.copy_(piece, non_blocking=self._is_pinned)
        if self._is_pinned:
            copied = torch.cuda.Event()
            copied.record()
            self._copied[self._turn] = copied
