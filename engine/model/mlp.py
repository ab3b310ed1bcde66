"""The feed-forward layer: down(silu(gate(x)) * up(x)), rounded to BF16 at every step."""

import torch
from torch.nn import functional

from engine.model.matrix import product, products
from engine.model.packed import Member
from engine.model.weights import MlpWeights
from kernels.linear.tile import MAX_ROWS


def feed_forward(x: torch.Tensor, weights: MlpWeights) -> torch.Tensor:
    """Run the layer over normed rows: bf16 [T, D] -> bf16 [T, D]."""
    return product(_gated(x, weights), weights.down)


def _gated(x: torch.Tensor, weights: MlpWeights) -> torch.Tensor:
    pair = weights.gate.whole if isinstance(weights.gate, Member) else None
    if pair is not None and pair.pair_tiles is not None and x.shape[0] <= MAX_ROWS:
        return pair.gated(x)
    gate, up = products(x, weights.gate, weights.up)
    return functional.silu(gate) * up
