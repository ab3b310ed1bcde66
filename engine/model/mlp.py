"""The feed-forward layer: down(silu(gate(x)) * up(x)), rounded to BF16 at every step."""

import torch
from torch.nn import functional

from engine.model.matrix import product
from engine.model.weights import MlpWeights


def feed_forward(x: torch.Tensor, weights: MlpWeights) -> torch.Tensor:
    """Run the layer over normed rows: bf16 [T, D] -> bf16 [T, D]."""
    gated = functional.silu(product(x, weights.gate)) * product(x, weights.up)
    return product(gated, weights.down)
