"""The weights as the forward pass names them, assembled from tensors by canonical name."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from engine.model.config import LayerKind, ModelConfig
from engine.model.matrix import Matrix, bytes_of
from engine.model.tensors import WEIGHT_PARTS, expected_tensors, weight_part


@dataclass(frozen=True, slots=True)
class MlpWeights:
    """Feed-forward matrices: gate and up [M, D], down [D, M]."""

    gate: Matrix
    up: Matrix
    down: Matrix


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """Full attention: q [2 H d, D] holds query rows, then gate rows, per head; norms are 1 + w."""

    q: Matrix
    k: Matrix
    v: Matrix
    o: Matrix
    q_norm: torch.Tensor
    k_norm: torch.Tensor


@dataclass(frozen=True, slots=True)
class DeltaWeights:
    """Gated delta layer.

    ``conv`` is bf16 [C, W]; ``decay_rate`` = -exp(A_log) and ``dt_bias`` are fp32 [H]; ``norm`` is
    plain, not 1 + w.
    """

    qkv: Matrix
    z: Matrix
    a: Matrix
    b: Matrix
    conv: torch.Tensor
    decay_rate: torch.Tensor
    dt_bias: torch.Tensor
    norm: torch.Tensor
    out: Matrix


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One decoder layer: mixer and feed-forward with the norm before each."""

    input_norm: torch.Tensor
    mixer: AttentionWeights | DeltaWeights
    post_norm: torch.Tensor
    mlp: MlpWeights


@dataclass(frozen=True, slots=True)
class MtpWeights:
    """The MTP head: ``fc`` [D, 2 D] joins embedding (first half) and hidden state."""

    fc: Matrix
    embedding_norm: torch.Tensor
    hidden_norm: torch.Tensor
    input_norm: torch.Tensor
    attention: AttentionWeights
    post_norm: torch.Tensor
    mlp: MlpWeights
    norm: torch.Tensor


@dataclass(frozen=True, slots=True)
class ModelWeights:
    """All weights; ``head`` is the embedding itself, or a packed form of it, where they are tied.

    ``part_bytes`` are the bytes held by `WEIGHT_PARTS`; a head that shares the embedding's memory
    has none.
    """

    embedding: torch.Tensor
    layers: tuple[LayerWeights, ...]
    norm: torch.Tensor
    head: Matrix
    mtp: MtpWeights | None
    part_bytes: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def num_bytes(self) -> int:
        """Bytes of all weights as they are held."""
        return sum(self.part_bytes.values())


def assemble(config: ModelConfig, tensors: Mapping[str, Matrix]) -> ModelWeights:
    """Give every tensor its place.

    Args:
        config: the model's numbers.
        tensors: all of `expected_tensors(config)` by canonical name; the MTP names may be absent,
            and a packed head may stand beside a tied embedding.

    Returns:
        The weights. Small derived tensors (the decay rates) are new; matrices are not copied.
    """
    layers = tuple(
        layer_weights(tensors, f"layers.{index}.", kind)
        for index, kind in enumerate(config.layer_kinds)
    )
    embedding = _plain(tensors, "embed_tokens.weight")
    return ModelWeights(
        embedding=embedding,
        layers=layers,
        norm=_plain(tensors, "norm.weight"),
        head=tensors.get("lm_head.weight", embedding),
        mtp=mtp_weights(tensors) if "mtp.fc.weight" in tensors else None,
        part_bytes=_part_bytes(config, tensors),
    )


def _part_bytes(config: ModelConfig, tensors: Mapping[str, Matrix]) -> dict[str, int]:
    """Bytes by part. The decay rates, derived and of some kilobytes, count as their sources."""
    expected = expected_tensors(config)
    parts: dict[str, list[Matrix]] = {part: [] for part in WEIGHT_PARTS}
    for name, one in tensors.items():
        parts[weight_part(name, expected[name]) if name in expected else "head"].append(one)
    found = {part: bytes_of(held) for part, held in parts.items()}
    if "lm_head.weight" not in expected:  # tied: what the head shares is the embedding's
        found["head"] = bytes_of([*parts["embedding"], *parts["head"]]) - found["embedding"]
    return found


def _plain(tensors: Mapping[str, Matrix], name: str) -> torch.Tensor:
    tensor = tensors[name]
    assert isinstance(tensor, torch.Tensor), name
    return tensor


def layer_weights(tensors: Mapping[str, Matrix], prefix: str, kind: LayerKind) -> LayerWeights:
    """Give the tensors of one decoder layer their places.

    Args:
        tensors: by canonical name.
        prefix: of the layer's names, with the dot at its end.
        kind: of its mixer.
    """
    if kind == "linear_attention":
        mixer = _delta(tensors, prefix + "linear_attn.")
    else:
        mixer = _attention(tensors, prefix + "self_attn.")
    return LayerWeights(
        input_norm=_plain(tensors, prefix + "input_layernorm.weight"),
        mixer=mixer,
        post_norm=_plain(tensors, prefix + "post_attention_layernorm.weight"),
        mlp=_mlp(tensors, prefix + "mlp."),
    )


def _mlp(tensors: Mapping[str, Matrix], prefix: str) -> MlpWeights:
    return MlpWeights(
        gate=tensors[prefix + "gate_proj.weight"],
        up=tensors[prefix + "up_proj.weight"],
        down=tensors[prefix + "down_proj.weight"],
    )


def _attention(tensors: Mapping[str, Matrix], prefix: str) -> AttentionWeights:
    return AttentionWeights(
        q=tensors[prefix + "q_proj.weight"],
        k=tensors[prefix + "k_proj.weight"],
        v=tensors[prefix + "v_proj.weight"],
        o=tensors[prefix + "o_proj.weight"],
        q_norm=_plain(tensors, prefix + "q_norm.weight"),
        k_norm=_plain(tensors, prefix + "k_norm.weight"),
    )


def _delta(tensors: Mapping[str, Matrix], prefix: str) -> DeltaWeights:
    return DeltaWeights(
        qkv=tensors[prefix + "in_proj_qkv.weight"],
        z=tensors[prefix + "in_proj_z.weight"],
        a=tensors[prefix + "in_proj_a.weight"],
        b=tensors[prefix + "in_proj_b.weight"],
        conv=_plain(tensors, prefix + "conv1d.weight").squeeze(1),
        # widened before exp: exp of a rounded exponent would be far off
        decay_rate=-_plain(tensors, prefix + "A_log").float().exp(),
        dt_bias=_plain(tensors, prefix + "dt_bias").float(),
        norm=_plain(tensors, prefix + "norm.weight"),
        out=tensors[prefix + "out_proj.weight"],
    )


def mtp_weights(tensors: Mapping[str, Matrix]) -> MtpWeights:
    """Give the tensors of the MTP head their places, by canonical name."""
    return MtpWeights(
        fc=tensors["mtp.fc.weight"],
        embedding_norm=_plain(tensors, "mtp.pre_fc_norm_embedding.weight"),
        hidden_norm=_plain(tensors, "mtp.pre_fc_norm_hidden.weight"),
        input_norm=_plain(tensors, "mtp.layers.0.input_layernorm.weight"),
        attention=_attention(tensors, "mtp.layers.0.self_attn."),
        post_norm=_plain(tensors, "mtp.layers.0.post_attention_layernorm.weight"),
        mlp=_mlp(tensors, "mtp.layers.0.mlp."),
        norm=_plain(tensors, "mtp.norm.weight"),
    )
