"""Read config.json with the reference's fall-back values; refuse what is not computed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from engine.errors import CheckpointError, nearest
from engine.model.config import LAYER_KINDS, LayerKind, ModelConfig, hybrid_layers
from engine.model.config_fields import ConfigFields
from engine.model.strict_json import read_object

TEXT_TYPES = ("qwen3_5_text", "qwen3_5")
"""``model_type`` values that are read; the 3.6 and 3.8 releases use the 3.5 names."""

MEND = "This is not a config that Qwen3.5, 3.6 or 3.8 models carry."

MAX_CONFIG_BYTES = 4 << 20
"""The largest config seen (a quantised release that lists every module) has 90 kB."""


def read_config(folder: Path) -> ModelConfig:
    """Read ``config.json`` of a checkpoint folder.

    Raises:
        CheckpointError: the file is missing or broken, the model is of another kind, or a value is
            missing, of a wrong type or impossible; the sentence names file, field and value.
    """
    path = folder / "config.json"
    data = read_object(path, MAX_CONFIG_BYTES)
    outer = ConfigFields(path, data, MEND)
    nested = data.get("text_config")
    if nested is not None and not isinstance(nested, dict):
        raise outer.error("text_config", nested, "an object")
    inner = ConfigFields(path, cast("dict[str, Any]", nested) if nested is not None else data, MEND)
    _refuse_other_models(path, data, inner)
    config = _assemble(inner, outer)
    _refuse_impossible(path, config)
    return config


def _refuse_other_models(path: Path, data: Mapping[str, Any], inner: ConfigFields) -> None:
    kind = inner.data.get("model_type") or data.get("model_type")
    if kind not in TEXT_TYPES:
        moe = "moe" in str(kind)
        why = "a mixture of experts" if moe else "another kind of model"
        raise CheckpointError(
            f"{path}: 'model_type' is '{str(kind)[:80]}', {why}; this program runs the dense "
            f"Qwen3.5, 3.6 and 3.8 text models ({', '.join(TEXT_TYPES)}).",
            "" if moe else nearest(str(kind), TEXT_TYPES),
        )
    for name in ("num_experts", "num_local_experts"):
        if inner.data.get(name):
            raise inner.error(name, inner.data[name], "no experts: only dense models are read")
    inner.only("hidden_act", ("silu",))
    inner.only("attention_bias", (False,))
    inner.only("attn_output_gate", (True,))
    inner.only("output_gate_type", ("swish", "silu"))
    inner.only("mtp_use_dedicated_embeddings", (False,))


def _layer_kinds(inner: ConfigFields) -> tuple[LayerKind, ...]:
    num_layers = inner.count("num_hidden_layers", 32)
    if num_layers > 1024:
        raise inner.error("num_hidden_layers", num_layers, "at most 1024 layers")
    named = inner.data.get("layer_types")
    if named is None:
        return hybrid_layers(num_layers, inner.count("full_attention_interval", 4))
    if not isinstance(named, list):
        raise inner.error("layer_types", named, "a list of names")
    kinds = tuple(cast("list[Any]", named))
    for kind in kinds:
        if kind not in LAYER_KINDS:
            raise inner.error("layer_types", kind, " or ".join(LAYER_KINDS))
    if len(kinds) != num_layers:
        raise inner.error("layer_types", f"{len(kinds)} names", f"{num_layers}, one a layer")
    return cast("tuple[LayerKind, ...]", kinds)


def _assemble(inner: ConfigFields, outer: ConfigFields) -> ModelConfig:
    rope = inner.table("rope_parameters" if "rope_parameters" in inner.data else "rope_scaling")
    for name in ("rope_type", "type"):  # older configs write the second
        rope.only(name, ("default",))
    theta = inner.real("rope_theta", 1e7, 1.0, 1e12)
    partial = inner.real("partial_rotary_factor", 0.25, 1e-3, 1.0)
    head_dim = inner.count("head_dim", 256)
    tied = outer.flag("tie_word_embeddings", default=False)
    quantization = outer.table("quantization_config").data.get("quant_method", "")
    return ModelConfig(
        hidden_size=inner.count("hidden_size"),
        intermediate_size=inner.count("intermediate_size"),
        vocab_size=inner.count("vocab_size", 248320),
        layer_kinds=_layer_kinds(inner),
        num_heads=inner.count("num_attention_heads"),
        num_kv_heads=inner.count("num_key_value_heads", 4),
        head_dim=head_dim,
        num_key_heads=inner.count("linear_num_key_heads", 16),
        num_value_heads=inner.count("linear_num_value_heads", 32),
        key_head_dim=inner.count("linear_key_head_dim", 128),
        value_head_dim=inner.count("linear_value_head_dim", 128),
        conv_width=inner.count("linear_conv_kernel_dim", 4, least=2),
        rms_norm_eps=inner.real("rms_norm_eps", 1e-6, 1e-12, 1.0),
        rope_theta=rope.real("rope_theta", theta, 1.0, 1e12),
        rotary_dim=int(head_dim * rope.real("partial_rotary_factor", partial, 1e-3, 1.0)),
        max_position_embeddings=inner.count("max_position_embeddings", 262144),
        tie_word_embeddings=inner.flag("tie_word_embeddings", default=tied),
        num_mtp_layers=inner.count("mtp_num_hidden_layers", 0, least=0),
        eos_ids=tuple(dict.fromkeys(inner.ids("eos_token_id") + outer.ids("eos_token_id"))),
        quantization=str(quantization)[:80],
    )


def _refuse_impossible(path: Path, config: ModelConfig) -> None:
    """Refuse sizes that no forward pass can have, each by its own rule."""
    heads, kv_heads = config.num_heads, config.num_kv_heads
    value_heads, key_heads = config.num_value_heads, config.num_key_heads
    sentence = ""
    if heads % kv_heads:
        sentence = f"{heads} query heads do not divide among {kv_heads} KV heads"
    elif value_heads % key_heads:
        sentence = f"{value_heads} value heads do not divide among {key_heads} key heads"
    elif config.rotary_dim < 2 or config.rotary_dim % 2:
        sentence = f"rope over {config.rotary_dim} of {config.head_dim} dimensions is not even"
    elif config.num_mtp_layers > 1:
        sentence = f"{config.num_mtp_layers} MTP layers are declared; one is the most that is read"
    elif any(one >= config.vocab_size for one in config.eos_ids):
        sentence = f"a stop id of {config.eos_ids} is outside the vocabulary {config.vocab_size}"
    if sentence:
        raise CheckpointError(f"{path}: {sentence}.", "Download the checkpoint again.")
