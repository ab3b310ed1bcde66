"""A chunk of prefill through all layers by the kernels.

Prefill has its own arithmetic: products of many rows, the delta rule in chunks of 64, the library's
attention. Its cut points are a function of where the reading began, so a range of a text can always
be read again to the same bits.
"""

from dataclasses import dataclass

import torch

from engine.model.config import ModelConfig
from engine.model.matrix import product, products
from engine.model.mlp import feed_forward
from engine.model.norms import add_rms_norm, gated_rms_norm, rms_norm
from engine.model.round_state import RoundState
from engine.model.rows import delta_products
from engine.model.weights import AttentionWeights, DeltaWeights, ModelWeights
from kernels.attention.prefill import attention_prefill
from kernels.attention.prep import attention_prep
from kernels.attention.reference import gate_reference
from kernels.conv.prefill import conv_prefill
from kernels.delta.prefill import delta_prefill
from kernels.embed.op import embed


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chunk stands in its text.

    Attributes:
        start: positions before it.
        on_device: int32 [1], the same number.
        tables: cosines and sines of all positions, bf16 [positions, R].
    """

    start: int
    on_device: torch.Tensor
    tables: tuple[torch.Tensor, torch.Tensor]


def run_chunk(
    config: ModelConfig,
    weights: ModelWeights,
    tables: tuple[torch.Tensor, torch.Tensor],
    state: RoundState,
    ids: torch.Tensor,
) -> torch.Tensor:
    """Read tokens that follow a state's.

    Args:
        config: the model's numbers.
        weights: packed.
        tables: cosines and sines of all positions, bf16 [positions, R].
        state: `begin_chunk` was called; advanced by all rows.
        ids: int32 [T].

    Returns:
        bf16 [T, D] after the final norm.
    """
    eps = config.rms_norm_eps
    place = Place(state.length, state.inputs.start, tables)
    stream = torch.empty(
        (ids.shape[0], config.hidden_size), dtype=torch.bfloat16, device=ids.device
    )
    embed(ids, weights.embedding, out=stream)
    layers = weights.layers
    following = [layer.input_norm for layer in layers[1:]] + [weights.norm]
    normed = rms_norm(stream, layers[0].input_norm, eps)
    num_delta = num_attention = 0
    for layer, next_norm in zip(layers, following, strict=True):
        if isinstance(layer.mixer, AttentionWeights):
            keys, values = state.kv.keys[num_attention], state.kv.values[num_attention]
            mixed = attend_chunk(normed, layer.mixer, config, place, keys, values)
            num_attention += 1
        else:
            mixed = _advance(normed, layer.mixer, config, state, num_delta)
            num_delta += 1
        normed, stream = add_rms_norm(mixed, stream, layer.post_norm, eps)
        fed = feed_forward(normed, layer.mlp)
        normed, stream = add_rms_norm(fed, stream, next_norm, eps)
    state.length += ids.shape[0]
    return normed


def attend_chunk(
    x: torch.Tensor,
    weights: AttentionWeights,
    config: ModelConfig,
    place: Place,
    keys: torch.Tensor,
    values: torch.Tensor,
) -> torch.Tensor:
    """Run an attention layer over normed rows: bf16 [T, D] -> bf16 [T, D].

    Args:
        x: bf16 [T, D].
        weights: of the layer.
        config: the model's numbers.
        place: of the rows.
        keys: bf16 [G, capacity, d]; rows [start, start + T) are written.
        values: bf16 [G, capacity, d]; the same rows are written.
    """
    num_rows, width = x.shape[0], config.head_dim
    end = place.start + num_rows
    both, key, value = products(x, weights.q, weights.k, weights.v)
    query = x.new_empty((num_rows, config.num_heads, width))
    attention_prep(
        both, key, value, weights.q_norm, weights.k_norm, *place.tables, place.on_device, None,
        keys, values, out=query, eps=config.rms_norm_eps,
    )  # fmt: skip
    mixed = attention_prefill(query, keys[:, :end], values[:, :end])
    gate = both.view(num_rows, -1, 2 * width)[..., width:]
    return product(gate_reference(mixed, gate).view(num_rows, -1), weights.o)


def _advance(
    x: torch.Tensor, weights: DeltaWeights, config: ModelConfig, state: RoundState, index: int
) -> torch.Tensor:
    """Run a gated delta layer over normed rows: bf16 [T, D] -> bf16 [T, D]."""
    num_rows = x.shape[0]
    raw, z, ab = delta_products(x, weights)
    mixed = x.new_empty((num_rows, config.conv_dim))
    keys = config.key_dim
    q = mixed[:, :keys].view(num_rows, -1, config.key_head_dim)
    k = mixed[:, keys : 2 * keys].view(num_rows, -1, config.key_head_dim)
    v = mixed[:, 2 * keys :].view(num_rows, -1, config.value_head_dim)
    g = x.new_empty((num_rows, config.num_value_heads), dtype=torch.float32)
    beta = x.new_empty(g.shape)
    tails = state.tails[index]
    conv_prefill(
        raw, ab, weights.conv, weights.decay_rate, weights.dt_bias, tails[0],
        q=q, k=k, v=v, g=g, beta=beta, tail_out=tails[0],
    )  # fmt: skip
    tails[1] = tails[0]
    out = delta_prefill(q, k, v, g, beta, state.recurrent[index])
    z = z.view(num_rows, -1, config.value_head_dim)
    normed = gated_rms_norm(out, z, weights.norm, config.rms_norm_eps)
    return product(normed.view(num_rows, -1), weights.out)
