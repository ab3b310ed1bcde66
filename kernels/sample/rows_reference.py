"""State in plain torch what `sample_rows` chooses: penalties of a row's path, then a draw."""

import torch

from kernels.sample.params import SampleParams
from kernels.sample.reference import penalise_reference, sample_reference
from kernels.sample.rows import TreeRows


def sample_rows_reference(
    logits: torch.Tensor, params: SampleParams, rows: TreeRows
) -> torch.Tensor:
    """Choose for each row what `sample_reference` chooses for it alone.

    Args:
        logits: fp32 [T, V].
        params: the sampling.
        rows: where the rows stand.

    Returns:
        int32 [T]; -1 where `sample_reference` refuses the row.
    """
    filters, seed, num_ids, presence, repetition = params.read()
    chosen: list[int] = []
    for row, values in enumerate(logits):
        depth = int(rows.depths[row])
        drafts = rows.row_ids[rows.paths[row, 1 : depth + 1].long()].long()
        seen, generated = rows.seen.bool(), rows.generated.bool()
        seen[drafts] = True
        generated[drafts] = True
        penalised = penalise_reference(values, seen, generated, presence, repetition)
        position = rows.start.long() + depth + 1
        chosen.append(_sampled(penalised[:num_ids], position, (filters, seed)))
    return torch.tensor(chosen, dtype=torch.int32, device=logits.device)


def _sampled(values: torch.Tensor, position: torch.Tensor, how: tuple) -> int:
    try:
        return int(sample_reference(values[None], position, *how))
    except ValueError:
        return -1
