"""Every tensor that a checkpoint must hold, derived from the config: names, shapes, parts.

Names are canonical: the checkpoint's own without ``model.language_model.`` or ``model.``.
"""

from dataclasses import dataclass
from typing import Literal

from engine.model.config import ModelConfig
from engine.profile import Formats, WeightFormat

Part = Literal["embedding", "mlp", "attention", "delta", "head", "mtp", "small"]
"""Which format of a profile applies; ``small`` tensors and the embedding are BF16 in every one."""

TRUNK_PREFIXES = ("model.language_model.", "model.")
"""On disk the trunk's names start with one of these: the full release, or a text-only export."""

VISION_PREFIXES = ("model.visual.", "visual.")
"""Tensors that a text model does not need; they are skipped, never loaded."""

FP32_NAMES = ("linear_attn.A_log", "linear_attn.dt_bias", "linear_attn.norm.weight")
"""Tensors that some releases store in F32 and that are then used so: their rounding differs."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One expected tensor. A ``matrix`` may be stored in any weight format."""

    shape: tuple[int, ...]
    part: Part
    matrix: bool = False

    @property
    def num_elements(self) -> int:
        """Parameters of the tensor."""
        total = 1
        for size in self.shape:
            total *= size
        return total


def expected_tensors(config: ModelConfig) -> dict[str, TensorSpec]:
    """Every tensor of the trunk, the head and the MTP layer, by canonical name."""
    found = {
        "embed_tokens.weight": TensorSpec((config.vocab_size, config.hidden_size), "embedding"),
        "norm.weight": TensorSpec((config.hidden_size,), "small"),
    }
    for index, kind in enumerate(config.layer_kinds):
        mixer = _delta(config) if kind == "linear_attention" else _attention(config, "attention")
        for name, spec in (_common(config, "mlp") | mixer).items():
            found[f"layers.{index}.{name}"] = spec
    if not config.tie_word_embeddings:
        head = TensorSpec((config.vocab_size, config.hidden_size), "head", matrix=True)
        found["lm_head.weight"] = head
    if config.num_mtp_layers:
        found |= _mtp(config)
    return found


WEIGHT_PARTS: tuple[str, ...] = ("embedding", "weights", "head", "mtp")
"""Where the bytes of a model's weights go."""


def weight_part(name: str, spec: TensorSpec) -> str:
    """Which of `WEIGHT_PARTS` a tensor belongs to, by its canonical name."""
    part = "mtp" if name.startswith("mtp.") else spec.part
    return part if part in WEIGHT_PARTS else "weights"


def keeps_fp32(name: str, shape: tuple[int, ...], dtype: str) -> bool:
    """Whether a tensor stays in F32: vectors do, since their rounding points differ."""
    return dtype == "F32" and (name.endswith(FP32_NAMES) or len(shape) == 1)


def format_of(spec: TensorSpec, formats: Formats) -> WeightFormat:
    """The storage format that a profile gives to a tensor."""
    if not spec.matrix or spec.part in ("small", "embedding"):
        return "bf16"
    named: WeightFormat = getattr(formats, spec.part)
    return named


def _common(config: ModelConfig, part: Part) -> dict[str, TensorSpec]:
    wide, narrow = config.intermediate_size, config.hidden_size
    return {
        "input_layernorm.weight": TensorSpec((narrow,), "small"),
        "post_attention_layernorm.weight": TensorSpec((narrow,), "small"),
        "mlp.gate_proj.weight": TensorSpec((wide, narrow), part, matrix=True),
        "mlp.up_proj.weight": TensorSpec((wide, narrow), part, matrix=True),
        "mlp.down_proj.weight": TensorSpec((narrow, wide), part, matrix=True),
    }


def _attention(config: ModelConfig, part: Part) -> dict[str, TensorSpec]:
    narrow, query, kv = config.hidden_size, config.query_dim, config.kv_dim
    return {
        # per head: head_dim query rows, then head_dim gate rows
        "self_attn.q_proj.weight": TensorSpec((2 * query, narrow), part, matrix=True),
        "self_attn.k_proj.weight": TensorSpec((kv, narrow), part, matrix=True),
        "self_attn.v_proj.weight": TensorSpec((kv, narrow), part, matrix=True),
        "self_attn.o_proj.weight": TensorSpec((narrow, query), part, matrix=True),
        "self_attn.q_norm.weight": TensorSpec((config.head_dim,), "small"),
        "self_attn.k_norm.weight": TensorSpec((config.head_dim,), "small"),
    }


def _delta(config: ModelConfig) -> dict[str, TensorSpec]:
    narrow, heads = config.hidden_size, config.num_value_heads
    return {
        "linear_attn.in_proj_qkv.weight": TensorSpec(
            (config.conv_dim, narrow), "delta", matrix=True
        ),
        "linear_attn.in_proj_z.weight": TensorSpec(
            (config.value_dim, narrow), "delta", matrix=True
        ),
        "linear_attn.in_proj_a.weight": TensorSpec((heads, narrow), "small", matrix=True),
        "linear_attn.in_proj_b.weight": TensorSpec((heads, narrow), "small", matrix=True),
        "linear_attn.conv1d.weight": TensorSpec((config.conv_dim, 1, config.conv_width), "small"),
        "linear_attn.A_log": TensorSpec((heads,), "small"),
        "linear_attn.dt_bias": TensorSpec((heads,), "small"),
        "linear_attn.norm.weight": TensorSpec((config.value_head_dim,), "small"),
        "linear_attn.out_proj.weight": TensorSpec((narrow, config.value_dim), "delta", matrix=True),
    }


def _mtp(config: ModelConfig) -> dict[str, TensorSpec]:
    narrow = config.hidden_size
    found = {
        "mtp.fc.weight": TensorSpec((narrow, 2 * narrow), "small", matrix=True),
        "mtp.pre_fc_norm_embedding.weight": TensorSpec((narrow,), "small"),
        "mtp.pre_fc_norm_hidden.weight": TensorSpec((narrow,), "small"),
        "mtp.norm.weight": TensorSpec((narrow,), "small"),
    }
    for name, spec in (_common(config, "mtp") | _attention(config, "mtp")).items():
        found[f"mtp.layers.0.{name}"] = spec
    return found
