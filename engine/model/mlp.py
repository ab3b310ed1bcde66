"""The feed-forward layer: down(silu(gate(x)) * up(x)), rounded to BF16 at every step."""

import torch

from engine.model.matrix import operands_for, product, products
from engine.model.packed import Member
from engine.model.weights import MlpWeights
from kernels.common.operands import Operands
from kernels.common.round import MAX_ROWS
from kernels.linear.silu_mul import silu_mul


def feed_forward(
    x: torch.Tensor,
    weights: MlpWeights,
    *,
    overlap: bool = False,
    operands: Operands | None = None,
) -> torch.Tensor:
    """Run the layer over normed rows: bf16 [T, D] -> bf16 [T, D].

    ``operands`` are x as the norm has written it into `operands_for` the gate.
    """
    pair = weights.gate.whole if isinstance(weights.gate, Member) else None
    if pair is not None and pair.pair_tiles is not None and x.shape[0] <= MAX_ROWS:
        return product(pair.gated(x, operands), weights.down)
    gate, up = products(x, weights.gate, weights.up, operands=operands)
    gated = operands_for(weights.down, x.shape[0])
    return product(
        silu_mul(gate, up, overlap=overlap, operands=gated), weights.down, operands=gated
    )
