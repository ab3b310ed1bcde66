"""Hold what a pass over chunks leaves for the pass over rows."""

import torch

from kernels.common.logit_rows import num_chunks, num_groups


class HeadScratch:
    """Buffers at one address, so that a captured graph may use them; one call at a time.

    Attributes:
        keys: int64, the largest key of each chunk or group, [T, chunks] or [T, groups] in front.
        sums: fp32, a chunk's sum of exponentials, [T, chunks] in front.
    """

    def __init__(self, max_rows: int, max_logits: int, device: torch.device | str) -> None:
        """Allocate for calls of at most `max_rows` rows of `max_logits` logits."""
        self.max_rows, self.max_logits = max_rows, max_logits
        self.keys = torch.empty(max_rows * num_groups(max_logits), dtype=torch.int64, device=device)
        self.sums = torch.empty(
            max_rows * num_chunks(max_logits), dtype=torch.float32, device=device
        )

    def expect(self, function: str, num_rows: int, num_logits: int) -> None:
        """Refuse a call that does not fit.

        Raises:
            ValueError: there are more rows or logits than the buffers hold.
        """
        if num_rows > self.max_rows or num_logits > self.max_logits:
            raise ValueError(
                f"{function}: {num_rows} rows of {num_logits} logits do not fit a scratch for "
                f"{self.max_rows} rows of {self.max_logits}; make a larger HeadScratch"
            )
