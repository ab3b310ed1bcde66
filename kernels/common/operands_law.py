"""State what a kernel that writes rows as operands promises: the operands of the rows it writes."""

from collections.abc import Callable

import torch

from kernels.common.compare import different_bits
from kernels.common.operands import BLOCK_ROWS, ORDERS, Operands, new_operands, operands_of

UNTOUCHED = 7


def wrong_operands(
    write: Callable[[Operands], torch.Tensor], num_rows: int, width: int, device: str
) -> str | None:
    """Compare what is written with the definition, in every order, and look beside it.

    Args:
        write: writes rows, bf16 [T, K], which it returns, and their operands.
        num_rows: T.
        width: K.
        device: of both.

    Returns:
        Why not, or None.
    """
    for order in ORDERS:
        operands = new_operands(num_rows, width, order, device)
        operands.image.fill_(UNTOUCHED)
        operands.largest.fill_(UNTOUCHED)
        rows = write(operands)
        if fault := _differ(operands, rows):
            return f"order {order}: {fault}"
    return None


def _differ(operands: Operands, rows: torch.Tensor) -> str | None:
    want = operands_of(rows, operands.order)
    num_rows = rows.shape[0]
    padding = len(want.largest) - num_rows
    if padding:
        want.largest[num_rows:] = UNTOUCHED
        want.by_rows(-1)[..., BLOCK_ROWS - padding :, :] = UNTOUCHED
    fault = different_bits(operands.largest, want.largest, ("row", "half", "part"))
    axes = ("block", "step", "vector", "lane", "input")
    return fault or different_bits(_one_nan(operands.image), _one_nan(want.image), axes)


def _one_nan(image: torch.Tensor) -> torch.Tensor:
    """Make every NaN the same: which one a GPU writes is its own."""
    return torch.where(image.isnan(), torch.nan, image)
