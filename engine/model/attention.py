"""The full-attention layer: project, norm, rotate, store, attend, gate, project back."""

from dataclasses import dataclass

import torch

from engine.model.config import ModelConfig
from engine.model.matrix import product, products
from engine.model.norms import rms_norm
from engine.model.weights import AttentionWeights
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
    keys: torch.Tensor,
    values: torch.Tensor,
) -> None:
    """Write keys and values of normed rows.

    Args:
        x: bf16 [T, D].
        weights: of the layer.
        config: the model's numbers.
        angles: of the rows.
        keys: bf16 [G, capacity, d]; rows [start, start + T) are written, normed and rotated.
        values: bf16 [G, capacity, d]; the same rows are written.
    """
    key, value = products(x, weights.k, weights.v)
    _store(key, value, weights, config, angles, keys, values)


def attend(
    x: torch.Tensor,
    weights: AttentionWeights,
    config: ModelConfig,
    angles: Angles,
    keys: torch.Tensor,
    values: torch.Tensor,
) -> torch.Tensor:
    """Run the layer over normed rows; arguments and side effects as in `store_keys`.

    Returns:
        bf16 [T, D].
    """
    num_rows, width = x.shape[0], config.head_dim
    both, key, value = products(x, weights.q, weights.k, weights.v)
    _store(key, value, weights, config, angles, keys, values)
    both = both.reshape(-1, 2 * width)  # a head's query, then its gate
    query = rms_norm(both[:, :width], weights.q_norm, config.rms_norm_eps)
    query = rotate_reference(query.view(num_rows, -1, width), angles.cos, angles.sin)
    end = angles.start + num_rows
    mixed = attention_reference(query, keys[:, :end], values[:, :end])
    gate = both.view(num_rows, -1, 2 * width)[..., width:]
    return product(gate_reference(mixed, gate).view(num_rows, -1), weights.o)


def _store(
    key: torch.Tensor,
    value: torch.Tensor,
    weights: AttentionWeights,
    config: ModelConfig,
    angles: Angles,
    keys: torch.Tensor,
    values: torch.Tensor,
) -> None:
    """Norm and rotate raw keys, bf16 [T, G d], and write them beside the values of their rows."""
    num_rows, width = key.shape[0], config.head_dim
    rows = slice(angles.start, angles.start + num_rows)
    normed = rms_norm(key.reshape(-1, width), weights.k_norm, config.rms_norm_eps)
    turned = rotate_reference(normed.view(num_rows, -1, width), angles.cos, angles.sin)
    keys[:, rows] = turned.transpose(0, 1)
    values[:, rows] = value.view(num_rows, -1, width).transpose(0, 1)
