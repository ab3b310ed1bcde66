"""The full-attention layer: project, norm, rotate, store, attend, gate, project back."""

from dataclasses import dataclass

import torch

from engine.model.config import ModelConfig
from engine.model.matrix import product, products
from engine.model.norms import rms_norm
from engine.model.state import LayerStore
from engine.model.weights import AttentionWeights
from kernels.attention.kv_codes import to_codes, widened
from kernels.attention.reference import attention_reference, gate_reference, rotate_reference


@dataclass(frozen=True, slots=True)
class Angles:
    """Rotation of the rows at hand, the first of them at position ``start``: bf16 [T, R] each."""

    start: int
    cos: torch.Tensor
    sin: torch.Tensor


def store_keys(
    x: torch.Tensor,
    weights: AttentionWeights,
    config: ModelConfig,
    angles: Angles,
    store: LayerStore,
) -> None:
    """Write keys and values of normed rows.

    Args:
        x: bf16 [T, D].
        weights: of the layer.
        config: the model's numbers.
        angles: of the rows.
        store: of the layer; rows [start, start + T) are written, keys normed and rotated.
    """
    key, value = products(x, weights.k, weights.v)
    _store(key, value, weights, config, angles, store)


def attend(
    x: torch.Tensor,
    weights: AttentionWeights,
    config: ModelConfig,
    angles: Angles,
    store: LayerStore,
) -> torch.Tensor:
    """Run the layer over normed rows; arguments and side effects as in `store_keys`.

    Returns:
        bf16 [T, D].
    """
    num_rows, width = x.shape[0], config.head_dim
    both, key, value = products(x, weights.q, weights.k, weights.v)
    _store(key, value, weights, config, angles, store)
    both = both.reshape(-1, 2 * width)  # a head's query, then its gate
    query = rms_norm(both[:, :width], weights.q_norm, config.rms_norm_eps)
    query = rotate_reference(query.view(num_rows, -1, width), angles.cos, angles.sin)
    end = angles.start + num_rows
    keys, values = widened(store.keys[:, :end], store.values[:, :end], store.scales)
    mixed = attention_reference(query, keys, values)
    gate = both.view(num_rows, -1, 2 * width)[..., width:]
    return product(gate_reference(mixed, gate).view(num_rows, -1), weights.o)


def _store(
    key: torch.Tensor,
    value: torch.Tensor,
    weights: AttentionWeights,
    config: ModelConfig,
    angles: Angles,
    store: LayerStore,
) -> None:
    """Norm and rotate raw keys, bf16 [T, G d], and write them beside the values of their rows.

    A store of codes takes the same BF16 numbers, rounded once more (``kv_codes.to_codes``).
    """
    num_rows, width = key.shape[0], config.head_dim
    rows = slice(angles.start, angles.start + num_rows)
    normed = rms_norm(key.reshape(-1, width), weights.k_norm, config.rms_norm_eps)
    turned = rotate_reference(normed.view(num_rows, -1, width), angles.cos, angles.sin)
    value = value.view(num_rows, -1, width)
    if store.scales is not None:
        turned = to_codes(turned, store.scales.keys[:, None])
        value = to_codes(value, store.scales.values[:, None])
    store.keys[:, rows] = turned.transpose(0, 1)
    store.values[:, rows] = value.transpose(0, 1)
