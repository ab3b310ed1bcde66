"""The feed-forward layer: down(silu(gate(x)) * up(x)), rounded to BF16 at every step."""

import torch

from engine.model.matrix import product, products
from engine.model.packed import Member
from engine.model.weights import MlpWeights
from kernels.common.round import MAX_ROWS
from kernels.linear.silu_mul import silu_mul


def feed_forward(x: torch.Tensor, weights: MlpWeights, *, overlap: bool = False) -> torch.Tensor:
    """Run the layer over normed rows: bf16 [T, D] -> bf16 [T, D]."""
    return product(_gated(x, weights, overlap=overlap), weights.down)


def _gated(x: torch.Tensor, weights: MlpWeights, *, overlap: bool) -> torch.Tensor:
    pair = weights.gate.whole if isinstance(weights.gate, Member) else None
    if pair is not None and pair.pair_tiles is not None and x.shape[0] <= MAX_ROWS:
        return pair.gated(x)
    gate, up = products(x, weights.gate, weights.up)
    return silu_mul(gate, up, overlap=overlap)
