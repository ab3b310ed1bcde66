"""State the law between the head's product and its choices: a row's id is the same in company.

The one place of this family that knows another one: the product is the linear family's.
"""

import torch

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


def _chosen(x: torch.Tensor, weight: Weight) -> list[int]:
    logits = torch.full((len(x), NUM_OUTPUTS), torch.nan, device=x.device)
    skinny_linear(x, weight, out=logits)
    ids = torch.full((len(x),), POISON, dtype=torch.int32, device=x.device)
    return argmax_rows(logits, NUM_OUTPUTS, ids=ids, scratch=scratch_for(logits)).tolist()
