"""Rows at a fixed place of the device, which launches read, and which rows those are."""

from collections.abc import Sequence

import torch


class PlacedRows:
    """A place for rows, and what was copied there last.

    Rows are known again by their addresses; their tensors are held here, so that no other rows come
    to lie there. Nobody may write to rows that were placed.

    Args:
        place: bf16 [most, D].
    """

    def __init__(self, place: torch.Tensor) -> None:
        self._place = place
        self.forget()

    def put(self, rows: Sequence[torch.Tensor]) -> None:
        """Copy rows to the beginning, in the order of the current stream.

        Args:
            rows: bf16 [T, D] in pieces, T from 1 to ``most``.
        """
        self._rows, self._addresses = tuple(rows), _addresses_of(rows)
        torch.cat(self._rows, out=self._place[: len(self._addresses)])

    def forget(self) -> None:
        """Hold no row's tensor any more; none is known again."""
        self._rows: tuple[torch.Tensor, ...] = ()
        self._addresses: list[int] = []

    def begins_with(self, rows: Sequence[torch.Tensor]) -> bool:
        """Whether these rows stand at the beginning, whatever stands behind them."""
        addresses = _addresses_of(rows)
        return self._addresses[: len(addresses)] == addresses


def _addresses_of(rows: Sequence[torch.Tensor]) -> list[int]:
    return [
        one.data_ptr() + row * one.stride(0) * one.itemsize
        for one in rows
        for row in range(one.shape[0])
    ]
