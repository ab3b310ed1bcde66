"""A decoder layer in two halves, each a norm, matrices that read its rows, and a last matrix.

The computing is the model's own (``engine.model``): nothing of the forward pass is written again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from engine.model.attention import Angles, attend
from engine.model.config import LayerKind, ModelConfig
from engine.model.delta import advance
from engine.model.matrix import Identity, Matrix
from engine.model.mlp import feed_forward
from engine.model.norms import rms_norm
from engine.model.rope import RopeTable
from engine.model.state import LayerStore
from engine.model.weights import (
    AttentionWeights,
    DeltaWeights,
    LayerWeights,
    MlpWeights,
    layer_weights,
)


@dataclass(frozen=True, slots=True)
class Half:
    """The names of one half's matrices within its layer.

    ``inputs`` read the normed rows, ``output`` what the half makes of their products. Small
    matrices that stay in BF16 are not among them.
    """

    inputs: tuple[str, ...]
    output: str
    is_mixer: bool


ATTENTION = Half(
    ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"),
    "self_attn.o_proj.weight",
    is_mixer=True,
)
DELTA = Half(
    ("linear_attn.in_proj_qkv.weight", "linear_attn.in_proj_z.weight"),
    "linear_attn.out_proj.weight",
    is_mixer=True,
)
MLP = Half(("mlp.gate_proj.weight", "mlp.up_proj.weight"), "mlp.down_proj.weight", is_mixer=False)


def halves_of(kind: LayerKind) -> tuple[Half, Half]:
    """The halves of a layer in the order that they are computed in."""
    return (ATTENTION if kind == "full_attention" else DELTA), MLP


class Layer:
    """One layer whose matrices are exchanged while its halves run.

    Args:
        config: the model's numbers.
        prefix: of its names, with the dot at its end.
        kind: of its mixer.
        tensors: its tensors by canonical name, on the device; changed by the caller as matrices
            are quantised.
        rope: angles of all positions.
    """

    def __init__(
        self,
        config: ModelConfig,
        prefix: str,
        kind: LayerKind,
        tensors: Mapping[str, Matrix],
        rope: RopeTable,
    ) -> None:
        self._config = config
        self._prefix = prefix
        self._kind: LayerKind = kind
        self._tensors = tensors
        self._rope = rope

    def normed(self, half: Half, rows: torch.Tensor) -> torch.Tensor:
        """What the half's input matrices read: bf16 [T, D] -> bf16 [T, D]."""
        weights = self._weights()
        norm = weights.input_norm if half.is_mixer else weights.post_norm
        return rms_norm(rows, norm, self._config.rms_norm_eps)

    def before_output(self, half: Half, rows: torch.Tensor) -> torch.Tensor:
        """What the half's output matrix reads: bf16 [T, D] -> bf16 [T, K]."""
        weights = _ending_in_identity(self._weights(), self._config)
        return self._run(half, weights, rows)

    def add(self, half: Half, rows: torch.Tensor) -> torch.Tensor:
        """The residual stream after the half: bf16 [T, D], a sequence from its start.

        Numerics:
            Those of ``engine.model.decoder`` for a prefill in one chunk.
        """
        return rows + self._run(half, self._weights(), rows)

    def _weights(self) -> LayerWeights:
        return layer_weights(self._tensors, self._prefix, self._kind)

    def _run(self, half: Half, weights: LayerWeights, rows: torch.Tensor) -> torch.Tensor:
        normed = self.normed(half, rows)
        if half.is_mixer:
            return _mixed(normed, weights.mixer, self._config, self._rope)
        return feed_forward(normed, weights.mlp)


def _mixed(
    normed: torch.Tensor,
    mixer: AttentionWeights | DeltaWeights,
    config: ModelConfig,
    rope: RopeTable,
) -> torch.Tensor:
    num_rows = normed.shape[0]
    if isinstance(mixer, AttentionWeights):
        size = (config.num_kv_heads, num_rows, config.head_dim)
        store = LayerStore(normed.new_empty(size), normed.new_empty(size))
        angles = Angles(0, *rope.angles(0, num_rows))
        return attend(normed, mixer, config, angles, store)
    size = (config.num_value_heads, config.key_head_dim, config.value_head_dim)
    recurrent = torch.zeros(size, device=normed.device)
    tail = normed.new_zeros((config.conv_width - 1, config.conv_dim))
    return advance(normed, mixer, config, recurrent, tail, decode=False)


def _ending_in_identity(weights: LayerWeights, config: ModelConfig) -> LayerWeights:
    mixer: AttentionWeights | DeltaWeights
    if isinstance(weights.mixer, AttentionWeights):
        mixer = replace(weights.mixer, o=Identity(config.query_dim))
    else:
        mixer = replace(weights.mixer, out=Identity(config.value_dim))
    mlp: MlpWeights = replace(weights.mlp, down=Identity(config.intermediate_size))
    return replace(weights, mixer=mixer, mlp=mlp)
