"""Repeat `exact.py` in torch, operation for operation, to predict a kernel's bits on a CPU.

Each line rounds where the device code rounds. On CPU tensors torch computes these operations by
IEEE, unfused, so the results are the device's bits; on CUDA tensors torch may fuse, so the proofs
move their inputs to the CPU first.
"""

import torch


def sum_rows(values: torch.Tensor, folds: int, pairs: int) -> torch.Tensor:
    """Sum the last axis by the tree of `exact.sum_rows`.

    Args:
        values: fp32 [..., D], D <= 2 ** (folds + pairs); missing lanes count as zero.
        folds: levels that add the upper half to the lower half.
        pairs: levels that add neighbours.

    Returns:
        fp32 [..., 1].
    """
    lanes = 1 << (folds + pairs)
    values = torch.nn.functional.pad(values, (0, lanes - values.shape[-1]))
    for _ in range(folds):
        lower, upper = values.chunk(2, dim=-1)
        values = lower + upper
    for _ in range(pairs):
        values = values[..., 0::2] + values[..., 1::2]
    return values


def exp(x: torch.Tensor) -> torch.Tensor:
    """Exponentiate fp32 with the bits of `exact.exp`."""
    x = torch.where(x > 126.0, 126.0, x)
    x = torch.where(x < -126.0, -126.0, x)
    n = (x * 1.4426950408889634 + 12582912.0) - 12582912.0
    r = (x - n * 0.693145751953125) - n * 1.4286068203094173e-06
    p = r * 1.9841269841269841e-04 + 1.3888888888888889e-03
    for coefficient in (1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0):
        p = p * r + coefficient
    exponent = n.to(torch.int32)
    half = exponent >> 1
    low = ((half + 127) << 23).view(torch.float32)
    high = ((exponent - half + 127) << 23).view(torch.float32)
    return (p * low) * high


def silu(x: torch.Tensor) -> torch.Tensor:
    """Compute SiLU in fp32 with the bits of `exact.silu`."""
    return x / (1.0 + exp(-x))
