"""The head in 8 bits: e4m3 codes with one scale a row, chosen among three by squared error."""

import torch

from engine.model.matrix import E4m3Row
from engine.quantize.scales import E4M3, LARGEST_SCALE

RATIOS = (1.0, 0.95, 0.90)
"""Candidates, as shares of the scale that keeps a row's largest weight."""

ROWS_PER_BLOCK = 4096
"""Rows in fp32 at a time."""


def quantise_rows(weight: torch.Tensor) -> E4m3Row:
    """Quantise a matrix row by row.

    Args:
        weight: bf16 [N, K].

    Returns:
        Codes and positive scales; of equal errors the larger scale wins.
    """
    codes = torch.empty(weight.shape, dtype=E4M3, device=weight.device)
    scales = torch.empty(weight.shape[0], device=weight.device)
    for start in range(0, weight.shape[0], ROWS_PER_BLOCK):
        rows = slice(start, start + ROWS_PER_BLOCK)
        codes[rows], scales[rows] = _quantise_block(weight[rows].float())
    return E4m3Row(codes, scales)


def _quantise_block(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    largest = rows.abs().amax(1).clamp(min=2.0**-100)
    codes, scales, least = rows.to(E4M3), torch.ones_like(largest), torch.full_like(largest, 1e38)
    for ratio in RATIOS:
        scale = largest * (ratio / LARGEST_SCALE)
        candidate = (rows / scale[:, None]).clamp_(-LARGEST_SCALE, LARGEST_SCALE).to(E4M3)
        error = (candidate.float() * scale[:, None]).sub_(rows).square_().sum(1)
        better = error < least
        codes = torch.where(better[:, None], candidate.view(torch.uint8), codes.view(torch.uint8))
        codes = codes.view(E4M3)
        scales, least = torch.where(better, scale, scales), torch.where(better, error, least)
    return codes, scales
