"""Say where the rows of a call stand, and hold what the sampling kernels leave for each other."""

from dataclasses import dataclass

import torch

from kernels.common.expect import Axes
from kernels.common.logit_rows import num_chunks, num_groups
from kernels.common.round import MAX_ROWS


@dataclass(frozen=True, slots=True)
class TreeRows:
    """Where the rows of a verify stand; all of it device memory that lives longer than a graph.

    Attributes:
        start: int32 [1]. Position of row 0.
        depths: int32 [32]. Rows on the way from row 0 to each row.
        paths: int32 [32, 32]. Entry [row, d]: the row at depth d on the way to a row.
        row_ids: int32 [32]. Token id of each row: row 0's is committed, the others are drafts.
        seen: uint8 [V]. Not 0 for ids in the prompt or the committed answer, row 0's among them.
        generated: uint8 [V]. Not 0 for ids in the committed answer, row 0's among them.
    """

    start: torch.Tensor
    depths: torch.Tensor
    paths: torch.Tensor
    row_ids: torch.Tensor
    seen: torch.Tensor
    generated: torch.Tensor

    def expect(self, axes: Axes) -> None:
        """Check the tensors against a call's logits [T, V].

        Raises:
            TypeError: a dtype is not one of those above.
            ValueError: a shape is not.
        """
        whole = (torch.int32,)
        axes.tensor("start", self.start, ("1",), whole, "pass the committed length as int32 [1]")
        axes.tensor("depths", self.depths, ("32",), whole, "pass TreeTables.depths")
        axes.tensor("paths", self.paths, ("32", "32"), whole, "pass TreeTables.paths")
        axes.tensor("row_ids", self.row_ids, ("32",), whole, "pass 32 token ids as int32")
        for name, marks in (("seen", self.seen), ("generated", self.generated)):
            axes.tensor(name, marks, ("V",), (torch.uint8,), "give each id of the logits a byte")


class SampleScratch:
    """Buffers at one address, so that a captured graph may use them; one call at a time.

    Attributes:
        maxima: int64, the largest key of each group or chunk, [T, groups] in front.
        brackets: int64 [2, 32, 3], targets: fp64 [2, 32], sums: int64 [2, 32, chunks, 16] in
            front: a search's steps, by turns.
        floors: int64 [32], the least key that a row keeps.
        scores: fp64, winners: int32: the best of each chunk, [T, chunks] in front.
    """

    def __init__(self, max_logits: int, device: torch.device | str) -> None:
        """Allocate for calls of at most 32 rows of `max_logits` logits; 14 kB a thousand."""
        self.max_logits = max_logits
        chunks, groups = num_chunks(max_logits), num_groups(max_logits)
        whole = {"dtype": torch.int64, "device": device}
        self.maxima = torch.empty(MAX_ROWS * groups, **whole)
        self.brackets = torch.empty((2, MAX_ROWS, 3), **whole)
        self.targets = torch.empty((2, MAX_ROWS), dtype=torch.float64, device=device)
        self.sums = torch.empty(2 * MAX_ROWS * chunks * 16, **whole)
        self.floors = torch.empty(MAX_ROWS, **whole)
        self.scores = torch.empty(MAX_ROWS * chunks, dtype=torch.float64, device=device)
        self.winners = torch.empty(MAX_ROWS * chunks, dtype=torch.int32, device=device)
