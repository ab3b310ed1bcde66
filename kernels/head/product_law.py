"""State the laws between the head's product and its choices: company and overlap change no id.

The one place of this family that knows another one: the product is the linear family's.
"""

import torch

from kernels.common.capture import capture
from kernels.common.round import MAX_ROWS
from kernels.head.op import argmax_rows
from kernels.head.problems import POISON, scratch_for
from kernels.linear.laws import drawn
from kernels.linear.skinny import skinny_linear
from kernels.linear.weight import Weight

NUM_OUTPUTS = 1000


def company_changes_ids(device: str) -> str | None:
    """Multiply and choose for 1 to 32 rows at a time, and for each row alone."""
    inputs, weight = drawn("e4m3_row", MAX_ROWS, NUM_OUTPUTS, 640, device)
    alone = [_chosen(inputs["x"][row : row + 1], weight)[0] for row in range(MAX_ROWS)]
    for count in range(2, MAX_ROWS + 1):
        together = _chosen(inputs["x"][:count], weight)
        if together != alone[:count]:
            return f"{count} rows choose {together}, alone they choose {alone[:count]}"
    return None


def overlap_changes_ids(device: str) -> str | None:
    """Choose for rows one after another, through one place for logits, launches overlapped."""
    inputs, weight = drawn("e4m3_row", MAX_ROWS, NUM_OUTPUTS, 640, device)
    rows = inputs["x"]
    want = torch.tensor(_chosen(rows, weight), dtype=torch.int32, device=device)
    id_map = torch.arange(NUM_OUTPUTS, dtype=torch.int32, device=device)
    logits, ids = rows.new_empty((1, NUM_OUTPUTS), dtype=torch.float32), torch.empty_like(want)
    scratch = scratch_for(logits)

    def run() -> None:
        for row in range(MAX_ROWS):
            skinny_linear(rows[row : row + 1], weight, out=logits, overlap=True)
            argmax_rows(
                logits, NUM_OUTPUTS, ids=ids[row : row + 1], scratch=scratch, id_map=id_map,
                overlap=True,
            )  # fmt: skip

    graph = capture([run])
    for how, call in (("eager", run), ("in a graph", graph.replay)):
        for _ in range(10):
            ids.fill_(POISON)
            call()
            if not torch.equal(ids, want):
                return f"{how}: rows choose {ids.tolist()}, one by one {want.tolist()}"
    return None


def _chosen(x: torch.Tensor, weight: Weight) -> list[int]:
    logits = torch.full((len(x), NUM_OUTPUTS), torch.nan, device=x.device)
    skinny_linear(x, weight, out=logits)
    ids = torch.full((len(x),), POISON, dtype=torch.int32, device=x.device)
    return argmax_rows(logits, NUM_OUTPUTS, ids=ids, scratch=scratch_for(logits)).tolist()
