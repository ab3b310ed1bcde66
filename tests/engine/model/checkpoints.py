"""Write small random checkpoints as the releases lie on disk, whole or damaged on purpose."""

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.errors import CheckpointError
from engine.model.config import ModelConfig, hybrid_layers
from engine.model.loading import load_model
from engine.model.tensors import expected_tensors

TINY = ModelConfig(
    hidden_size=64, intermediate_size=96, vocab_size=160, layer_kinds=hybrid_layers(4),
    num_heads=4, num_kv_heads=2, head_dim=32, num_key_heads=2, num_value_heads=4, key_head_dim=16,
    value_head_dim=16, rotary_dim=8, num_mtp_layers=1, eos_ids=(3,),
)  # fmt: skip


def config_fields(config: ModelConfig) -> dict:
    """The text part of config.json."""
    return {
        "model_type": "qwen3_5_text",
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "vocab_size": config.vocab_size,
        "num_hidden_layers": config.num_layers,
        "layer_types": list(config.layer_kinds),
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "linear_num_key_heads": config.num_key_heads,
        "linear_num_value_heads": config.num_value_heads,
        "linear_key_head_dim": config.key_head_dim,
        "linear_value_head_dim": config.value_head_dim,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": config.rope_theta,
            "partial_rotary_factor": config.rotary_dim / config.head_dim,
        },
        "tie_word_embeddings": config.tie_word_embeddings,
        "mtp_num_hidden_layers": config.num_mtp_layers,
        "eos_token_id": list(config.eos_ids),
    }


def random_tensors(config: ModelConfig, *, fp8: bool = False) -> dict[str, torch.Tensor]:
    """Every tensor under its name on disk; projections in 8 bits when ``fp8``."""
    generator = torch.Generator().manual_seed(5)
    tensors: dict[str, torch.Tensor] = {}
    for short, spec in expected_tensors(config).items():
        name = short if short.startswith(("mtp.", "lm_head.")) else f"model.language_model.{short}"
        values = torch.randn(spec.shape, generator=generator)
        if spec.matrix and spec.part not in ("small", "head") and fp8:
            blocks = [-(-size // 128) for size in spec.shape]
            scale = torch.rand(blocks, generator=generator) + 0.5
            tensors[name] = (values * 96).clamp(-448, 448).to(torch.float8_e4m3fn)
            scale = scale / 96 * spec.shape[1] ** -0.5
            tensors[name + "_scale_inv"] = scale.bfloat16()
        elif spec.matrix:
            tensors[name] = (values * spec.shape[1] ** -0.5).bfloat16()
        else:
            tensors[name] = (values * 0.2).bfloat16()
    return tensors


def write_checkpoint(
    folder: Path,
    config: ModelConfig = TINY,
    *,
    fp8: bool = False,
    num_shards: int = 2,
    tensors: dict[str, torch.Tensor] | None = None,
) -> Path:
    """Write config.json and the weights; more than one shard gets an index."""
    folder.mkdir(parents=True, exist_ok=True)
    text = config_fields(config)
    whole = {"model_type": "qwen3_5", "text_config": text, "eos_token_id": list(config.eos_ids)}
    (folder / "config.json").write_text(json.dumps(whole))
    tensors = random_tensors(config, fp8=fp8) if tensors is None else tensors
    names = list(tensors)
    if num_shards == 1:
        save_file(tensors, folder / "model.safetensors")
        return folder
    placed = {}
    for shard in range(num_shards):
        file = f"layers-{shard}.safetensors"
        some = names[shard::num_shards]
        save_file({name: tensors[name] for name in some}, folder / file)
        placed |= dict.fromkeys(some, file)
    index = {"metadata": {}, "weight_map": placed}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def tensors_with(**changed: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """Every tensor of `TINY`, some in another form or, as None, left out."""
    tensors = random_tensors(TINY)
    for name, one in changed.items():
        tensors.pop(name, None)
        if one is not None:
            tensors[name] = one
    return tensors


def refused(folder: Path) -> str:
    """The sentence with which a folder is refused."""
    with pytest.raises(CheckpointError) as caught:
        load_model(folder)
    sentence = str(caught.value)
    assert re.match(r".+\.( |$)", sentence), "a person reads a sentence"
    return sentence
