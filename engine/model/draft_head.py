"""The head that drafts are chosen with: a part of the vocabulary, so that a proposal reads less.

A proposal outside it cannot be made, which costs a draft now and then and never a token of the
text. The lowest ids are those that a byte-pair vocabulary merged first, its most frequent; the
highest ids are a vocabulary's control tokens.
"""

from dataclasses import dataclass

import torch

from engine.model.footprint import NUM_DRAFT_IDS
from engine.model.matrix import Matrix, bytes_of
from engine.model.packed import Packed
from kernels.linear.weight import Bf16Weight, E4m3RowWeight, num_outputs

NUM_LAST_IDS = 512
"""Of the ids that drafts may have (`NUM_DRAFT_IDS`), how many are the vocabulary's last."""


@dataclass(frozen=True, slots=True)
class DraftHead:
    """A head over some ids.

    Attributes:
        matrix: a row for each of them.
        id_map: int32 [rows], the id of each row; None where row and id are one.
        num_bytes: held besides the model's own head.
    """

    matrix: Matrix
    id_map: torch.Tensor | None = None
    num_bytes: int = 0


def trim_head(head: Matrix) -> DraftHead:
    """Copy the rows of a head that drafts are chosen from; a small or unpacked head serves whole.

    Args:
        head: [V, D].
    """
    if not isinstance(head, Packed) or not isinstance(head.weight, Bf16Weight | E4m3RowWeight):
        return DraftHead(head)
    vocab_size = num_outputs(head.weight)
    if vocab_size <= NUM_DRAFT_IDS:
        return DraftHead(head)
    device = head.weight.codes.device
    last = torch.arange(vocab_size - NUM_LAST_IDS, vocab_size, device=device)
    ids = torch.cat((torch.arange(NUM_DRAFT_IDS - NUM_LAST_IDS, device=device), last))
    # each row keeps its own scale, if there is one: the copy's logits are the head's own bits
    weight = _rows_of(head.weight, ids)
    part = Packed(weight, head.tiles, head.crossovers, head.workspace, head.overlap)
    return DraftHead(part, ids.int(), bytes_of([part]) + 4 * len(ids))


def _rows_of(weight: Bf16Weight | E4m3RowWeight, ids: torch.Tensor) -> Bf16Weight | E4m3RowWeight:
    if isinstance(weight, Bf16Weight):
        return Bf16Weight(weight.values[ids], weight.K)
    return E4m3RowWeight(weight.codes[ids], weight.row_scales[ids], weight.K)
