"""Write small random DFlash2 drafters in the layout of the release."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from engine.dflash.config import DflashConfig
from engine.model.config import SHAPE_DEMO

DEMO_DRAFTER = DflashConfig(
    hidden_size=SHAPE_DEMO.hidden_size, intermediate_size=320, vocab_size=SHAPE_DEMO.vocab_size,
    num_layers=2, num_heads=4, num_kv_heads=2, head_dim=32, rope_theta=1e7, rms_norm_eps=1e-6,
    window=48, block_size=8, mask_id=6100, target_layers=(1, 3, 6, 9, 11), conv_taps=2,
    conv_group=16, selector_rank=32, top_k=16,
)  # fmt: skip
"""For the demo's shape; the last layer of the target is among those that are tapped."""


def dflash_fields(config: DflashConfig) -> dict:
    """config.json, as the release writes it."""
    return {
        "architectures": ["DFlash2DraftModel"],
        "model_type": "qwen3",
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "vocab_size": config.vocab_size,
        "num_hidden_layers": config.num_layers,
        "layer_types": ["sliding_attention"] * config.num_layers,
        "sliding_window": config.window,
        "is_causal": False,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "rope_theta": config.rope_theta,
        "rms_norm_eps": config.rms_norm_eps,
        "dflash_config": {
            "block_size": config.block_size,
            "mask_token_id": config.mask_id,
            "target_layer_ids": list(config.target_layers),
            "conv_kernel_size": config.conv_taps,
            "conv_group_size": config.conv_group,
            "selector_rank": config.selector_rank,
            "selector_top_k": config.top_k,
        },
    }


def dflash_values(config: DflashConfig = DEMO_DRAFTER, seed: int = 11) -> dict[str, torch.Tensor]:
    """All tensors by the names of the release, written down here once more."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, width: int, gain: float = 1.0) -> torch.Tensor:
        values = torch.randn((rows, width), generator=generator)
        return (values * gain * width**-0.5).bfloat16()

    def norm(width: int) -> torch.Tensor:
        return (1 + 0.2 * torch.randn(width, generator=generator)).bfloat16()

    narrow, wide, head = config.hidden_size, config.intermediate_size, config.head_dim
    rank, vocab, taps = config.selector_rank, config.vocab_size, config.conv_taps
    query, kv = config.num_heads * head, config.num_kv_heads * head
    found = {
        "fc.weight": matrix(narrow, len(config.target_layers) * narrow),
        "hidden_norm.weight": norm(narrow),
        "norm.weight": norm(narrow),
        "candidate_selector.hidden_projection.weight": matrix(rank, narrow),
        "candidate_selector.predecessor_codebook": matrix(vocab, rank, 3.0),
        "candidate_selector.successor_codebook": matrix(vocab, rank, 3.0),
    }
    for index in range(config.num_layers):
        layer = {
            "input_layernorm.weight": norm(narrow),
            "post_attention_layernorm.weight": norm(narrow),
            "self_attn.q_proj.weight": matrix(query, narrow),
            "self_attn.k_proj.weight": matrix(kv, narrow),
            "self_attn.v_proj.weight": matrix(kv, narrow),
            "self_attn.o_proj.weight": matrix(narrow, query),
            "self_attn.q_norm.weight": norm(head),
            "self_attn.k_norm.weight": norm(head),
            "mlp.gate_proj.weight": matrix(wide, narrow),
            "mlp.up_proj.weight": matrix(wide, narrow),
            "mlp.down_proj.weight": matrix(narrow, wide),
        }
        for conv in ("attention_conv", "mlp_conv"):
            base = 0.5 * torch.randn((2, taps, narrow), generator=generator)
            layer[f"{conv}.base_kernel"] = base.bfloat16()
            rows = 2 * taps * narrow // config.conv_group
            layer[f"{conv}.kernel_projection.weight"] = matrix(rows, narrow, 0.3)
        found |= {f"layers.{index}.{name}": values for name, values in layer.items()}
    return found


def write_dflash(
    folder: Path,
    config: DflashConfig = DEMO_DRAFTER,
    *,
    fields: dict | None = None,
    tensors: dict[str, torch.Tensor] | None = None,
) -> Path:
    """Write config.json and the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    fields = dflash_fields(config) if fields is None else fields
    (folder / "config.json").write_text(json.dumps(fields))
    tensors = dflash_values(config) if tensors is None else tensors
    save_file(tensors, folder / "model.safetensors")
    return folder
