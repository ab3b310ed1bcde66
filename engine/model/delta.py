"""The gated delta layer: project, convolve, gate, advance the state, norm, project back."""

import torch

from engine.model.config import ModelConfig
from engine.model.matrix import product, products
from engine.model.norms import gated_rms_norm
from engine.model.weights import DeltaWeights
from kernels.conv.reference import conv_reference, next_tail_reference
from kernels.delta.reference import delta_chunk_reference, delta_step_reference, gates_reference


def advance(
    x: torch.Tensor,
    weights: DeltaWeights,
    config: ModelConfig,
    recurrent: torch.Tensor,
    tail: torch.Tensor,
    *,
    decode: bool,
) -> torch.Tensor:
    """Run the layer over normed rows.

    Args:
        x: bf16 [T, D].
        weights: of the layer.
        config: the model's numbers.
        recurrent: fp32 [H, d_k, d_v], advanced in place.
        tail: bf16 [W - 1, C], replaced in place.
        decode: one row, by the one-token form; otherwise the form in chunks of 64.

    Returns:
        bf16 [T, D].
    """
    num_rows = x.shape[0]
    raw, z = products(x, weights.qkv, weights.z)
    mixed = conv_reference(raw, tail, weights.conv)
    tail.copy_(next_tail_reference(raw, tail))
    keys = config.key_dim
    q = mixed[:, :keys].view(num_rows, -1, config.key_head_dim)
    k = mixed[:, keys : 2 * keys].view(num_rows, -1, config.key_head_dim)
    v = mixed[:, 2 * keys :].view(num_rows, -1, config.value_head_dim)
    a, b = products(x, weights.a, weights.b)
    g, beta = gates_reference(a, b, weights.decay_rate, weights.dt_bias)
    if decode:
        out = delta_step_reference(q[0], k[0], v[0], g[0], beta[0], recurrent)[None]
    else:
        out = delta_chunk_reference(q, k, v, g, beta, recurrent)
    z = z.view(num_rows, -1, config.value_head_dim)
    normed = gated_rms_norm(out, z, weights.norm, config.rms_norm_eps)
    return product(normed.view(num_rows, -1), weights.out)
