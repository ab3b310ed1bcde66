"""State the lookup of embedding rows in plain torch."""

import torch


def embed_reference(ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Return the table's row of each id; zeros for an id that it does not hold.

    Args:
        ids: int32 [T].
        table: bf16 [V, D].

    Returns:
        bf16 [T, D].
    """
    held = (ids >= 0) & (ids < table.shape[0])
    return table[torch.where(held, ids, 0)].masked_fill(~held[:, None], 0.0)
