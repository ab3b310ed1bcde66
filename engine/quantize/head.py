"""The head in 8 bits: e4m3 codes with one scale a row, chosen among three by squared error."""

import torch

from engine.model.matrix import E4m3Row
from engine.quantize.scales import E4M3, LARGEST_SCALE, SMALLEST_TENSOR_SCALE

RATIOS = (1.0, 0.95, 0.90)
"""Candidates, as shares of the scale that keeps a row's largest weight."""

ROWS_PER_BLOCK = 4096
"""Rows in fp32 at a time."""


def quantise_rows(weight: torch.Tensor) -> tuple[E4m3Row, float]:
    """Quantise a matrix row by row.

    Args:
        weight: bf16 [N, K].

    Returns:
        Codes and positive scales, of equal errors the larger scale; and the squared error as a
        share of the squared weights.
    """
    codes = torch.empty(weight.shape, dtype=E4M3, device=weight.device)
    scales = torch.empty(weight.shape[0], device=weight.device)
    lost = held = 0.0
    for start in range(0, weight.shape[0], ROWS_PER_BLOCK):
        block = slice(start, start + ROWS_PER_BLOCK)
        rows = weight[block].float()
        codes[block], scales[block], errors = _quantise_block(rows)
        lost += float(errors.sum())
        held += float(rows.square().sum())
    return E4m3Row(codes, scales), lost / max(held, 1e-30)


def _quantise_block(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes e4m3 [N, K], scales fp32 [N] and squared errors fp32 [N] of rows fp32 [N, K]."""
    largest = rows.abs().amax(1).clamp(min=SMALLEST_TENSOR_SCALE)
    scales, errors = (torch.empty((len(RATIOS), len(rows)), device=rows.device) for _ in range(2))
    for index, ratio in enumerate(RATIOS):
        scales[index] = largest * (ratio / LARGEST_SCALE)
        values = _codes(rows, scales[index]).float() * scales[index, :, None]
        errors[index] = values.sub_(rows).square_().sum(1)
    least, chosen = errors.min(0)
    scale = scales.gather(0, chosen[None])[0]
    return _codes(rows, scale), scale, least


def _codes(rows: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (rows / scale[:, None]).clamp_(-LARGEST_SCALE, LARGEST_SCALE).to(E4M3)
