"""Block quantisation of the FP8 release: e4m3 codes with one BF16 multiplier per 128 x 128."""

from __future__ import annotations

import torch

from demo.network import Weights
from kernels.common.e4m3 import E4M3_MAX

BLOCK = 128
_PROJECTIONS = (
    "q_proj.weight",
    "k_proj.weight",
    "v_proj.weight",
    "o_proj.weight",
    "gate_proj.weight",
    "up_proj.weight",
    "down_proj.weight",
    "in_proj_qkv.weight",
    "in_proj_z.weight",
    "out_proj.weight",
)


def is_fp8(name: str) -> bool:
    """True for the projections that the FP8 release stores in e4m3."""
    return name.endswith(_PROJECTIONS)


def quantise(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns (codes F8_E4M3 [N, K], scale BF16 [N/128, K/128]); w = float(code) * scale."""
    rows, cols = weight.shape
    blocks = weight.float().view(rows // BLOCK, BLOCK, cols // BLOCK, BLOCK)
    scale = (blocks.abs().amax((1, 3)) / E4M3_MAX).clamp(min=1e-12).bfloat16()
    # A rounded-down scale would push the block's largest value over 448: clamp it there.
    codes = (blocks / scale.float()[:, None, :, None]).clamp(-E4M3_MAX, E4M3_MAX)
    return codes.view(rows, cols).to(torch.float8_e4m3fn), scale


def dequantise(codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Returns fp32 [N, K] from codes and block scales."""
    wide = scale.float().repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
    return codes.float() * wide


def rounded(weights: Weights, fp8: bool) -> Weights:
    """Returns the weights as the checkpoint will hold them, straight-through for gradients.

    Projections go through e4m3 blocks when `fp8`; the result is BF16 for all.
    """
    out = {}
    for name, weight in weights.items():
        if fp8 and is_fp8(name):
            with torch.no_grad():
                error = dequantise(*quantise(weight)) - weight
            out[name] = (weight + error).bfloat16()
        else:
            out[name] = weight.bfloat16()
    return out
