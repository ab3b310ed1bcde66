"""The feed-forward layer: down(silu(gate(x)) * up(x)), rounded to BF16 at every step."""

import torch

from engine.model.matrix import operands_for, product, products
from engine.model.packed import Member
from engine.model.weights import MlpWeights
from kernels.common.operands import Operands
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
    ready = operands_for(weights.down, x.shape[0])
    pair = weights.gate.whole if isinstance(weights.gate, Member) else None
    if pair is not None and pair.gates(x.shape[0]):
        fed = pair.gated(x, operands, ready)
    else:
        gate, up = products(x, weights.gate, weights.up, operands=operands)
        fed = silu_mul(gate, up, overlap=overlap, operands=ready)
    return product(fed, weights.down, operands=ready)
