"""Draw packed weights of any size for timing, and count their bytes."""

import torch

from kernels.linear.formats import FP8_BLOCK, NVFP4_GROUP, STEP
from kernels.linear.pack import E4M3
from kernels.linear.weight import (
    Bf16Weight,
    E4m3RowWeight,
    Fp8BlockWeight,
    Nvfp4Weight,
    Weight,
)


def weight_bytes(N: int, K: int, name: str) -> int:
    """Count the bytes that `random_weight` holds."""
    if name == "bf16":
        return 2 * N * K
    if name == "e4m3_row":
        return N * K + 4 * N
    if name == "fp8_block":
        return N * K + 4 * -(-N // FP8_BLOCK) * (K // STEP)
    return N * K // 2 + -(-N // 16) * 16 * K // NVFP4_GROUP + 4 * N


def random_weight(N: int, K: int, name: str, device: str, *, spread: bool) -> Weight:
    """Draw a packed weight on a device: all codes, scales near one; K a multiple of 128."""
    if name == "bf16":
        return Bf16Weight(torch.randn(N, K, device=device, dtype=torch.bfloat16), K)
    if name == "nvfp4":
        codes = torch.randint(0, 256, (N, K // 2), dtype=torch.uint8, device=device)
        runs = (-(-N // 16), K // STEP, 8, 4, 2, 2)
        scales = torch.randint(48, 72, runs, dtype=torch.uint8, device=device).view(E4M3)
        return Nvfp4Weight(codes, scales, torch.full((N,), 0.01, device=device), K, spread)
    codes = torch.randint(0, 120, (N, K), dtype=torch.uint8, device=device).view(E4M3)
    if name == "e4m3_row":
        return E4m3RowWeight(codes, torch.full((N,), 0.01, device=device), K)
    blocks = (-(-N // FP8_BLOCK), K // STEP)
    return Fp8BlockWeight(codes, torch.full(blocks, 0.01, device=device), K)
