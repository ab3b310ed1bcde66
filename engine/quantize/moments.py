"""Second moments of a matrix's inputs, gathered row by row in memory that does not grow."""

import torch


class Moments:
    """The mean of x' x over the rows given so far.

    Args:
        width: K, inputs of the matrix: fp32 [K, K] are held, and on a GPU as much again while rows
            are added. 1.2 GB at K = 17,408.
        device: of the rows.
    """

    def __init__(self, width: int, device: torch.device) -> None:
        self._sum = torch.zeros((width, width), device=device)
        self._num_rows = 0

    def add(self, rows: torch.Tensor) -> None:
        """Count rows, bf16 [T, K].

        Numerics:
            Products of BF16 are exact in fp32, in which they are added.
        """
        if rows.is_cuda:
            self._sum += torch.mm(rows.t(), rows, out_dtype=torch.float32)
        else:
            wide = rows.float()
            self._sum.addmm_(wide.t(), wide)
        self._num_rows += rows.shape[0]

    def mean(self) -> torch.Tensor:
        """The second moments, fp32 [K, K]; the sum itself, divided, so that it is asked once."""
        return self._sum.div_(max(1, self._num_rows))
