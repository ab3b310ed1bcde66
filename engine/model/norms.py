"""The norms as this machine runs them: ``kernels.norm`` with the tiles of its table.

Contracts and numerics are those of the operations in ``kernels/norm/op.py``; a tile changes time,
never a bit.
"""

from functools import cache

import torch

from engine.tune.tiles import read_table
from kernels import norm
from kernels.common import gpu
from kernels.common.operands import Operands
from kernels.norm.tile import NormTile, lookup


def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    *,
    overlap: bool = False,
    out: torch.Tensor | None = None,
    operands: Operands | None = None,
) -> torch.Tensor:
    """Normalise rows, bf16 [T, D], and scale them by 1 + weight, bf16 or fp32 [D].

    Arguments, numerics and errors are those of `kernels.norm.rms_norm`.
    """
    tile = _tile("rms_norm", x)
    return norm.rms_norm(x, weight, eps, tile=tile, overlap=overlap, out=out, operands=operands)


def add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    *,
    overlap: bool = False,
    out: torch.Tensor | None = None,
    operands: Operands | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Add to the residual stream, bf16 [T, D]; return the norm of the sum, and the sum.

    Arguments, numerics and errors are those of `kernels.norm.add_rms_norm`.
    """
    tile = _tile("add_rms_norm", x)
    return norm.add_rms_norm(
        x, residual, weight, eps, tile=tile, overlap=overlap, out=out, operands=operands
    )


def gated_rms_norm(
    x: torch.Tensor,
    gate: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    *,
    overlap: bool = False,
    operands: Operands | None = None,
) -> torch.Tensor:
    """Normalise each head's row, bf16 [T, H, D], scale it by weight and gate it by SiLU.

    Arguments, numerics and errors are those of `kernels.norm.gated_rms_norm`.
    """
    tile = _tile("gated_rms_norm", x)
    return norm.gated_rms_norm(x, gate, weight, eps, tile=tile, overlap=overlap, operands=operands)


def _tile(op: str, x: torch.Tensor) -> NormTile | None:
    return _tile_on(op, x.shape[-1], x.device.index) if x.is_cuda else None


@cache
def _tile_on(op: str, width: int, device_index: int) -> NormTile | None:
    return lookup(read_table("norm", gpu.choices(device_index)), op, width)
