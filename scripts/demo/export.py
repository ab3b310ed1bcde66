"""Writes the checkpoint in the layout of Qwen's FP8 releases: a file a layer, MTP, the rest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

from demo.fp8 import is_fp8, quantise
from demo.network import Shape, Weights
from demo.questions import write_questions

CONTEXT = 4096


def stored_name(name: str) -> str:
    """Returns the checkpoint's name of a tensor."""
    return name if name.startswith(("mtp.", "lm_head.")) else f"model.language_model.{name}"


def file_of(name: str) -> str:
    """Returns the file that holds a tensor (by its short name)."""
    if name.startswith("mtp."):
        return "mtp.safetensors"
    if name.startswith("layers."):
        return f"layers-{name.split('.')[1]}.safetensors"
    return "outside.safetensors"


def checkpoint(weights: Weights) -> dict[str, dict[str, torch.Tensor]]:
    """Returns file -> stored name -> tensor: e4m3 projections with scales, BF16 for the rest."""
    files: dict[str, dict[str, torch.Tensor]] = {}
    for name, weight in weights.items():
        into = files.setdefault(file_of(name), {})
        if is_fp8(name):
            codes, scale = quantise(weight)
            into[stored_name(name)] = codes.contiguous()
            into[stored_name(name) + "_scale_inv"] = scale.contiguous()
        else:
            into[stored_name(name)] = weight.bfloat16().contiguous()
    return files


def _kept_wide(s: Shape) -> list[str]:
    """Returns the modules that are not converted to FP8, as the releases list them."""
    out = ["lm_head", "model.language_model.embed_tokens", "mtp.fc"]
    for layer in range(s.layers):
        if not s.is_full(layer):
            base = f"model.language_model.layers.{layer}.linear_attn."
            out += [base + part for part in ("conv1d", "in_proj_a", "in_proj_b")]
    return out


def config(s: Shape, ids: dict[str, int]) -> dict:
    """Returns config.json in the shape of the 27B's, with the demo's sizes."""
    kinds = ["full_attention" if s.is_full(i) else "linear_attention" for i in range(s.layers)]
    text = {
        "model_type": "qwen3_5_text",
        "hidden_size": s.hidden,
        "num_hidden_layers": s.layers,
        "intermediate_size": s.mlp,
        "num_attention_heads": s.heads,
        "num_key_value_heads": 1,
        "head_dim": s.head_dim,
        "attn_output_gate": True,
        "output_gate_type": "swish",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "linear_num_key_heads": 1,
        "linear_num_value_heads": s.value_heads,
        "linear_key_head_dim": s.delta_dim,
        "linear_value_head_dim": s.delta_dim,
        "linear_conv_kernel_dim": s.conv,
        "mamba_ssm_dtype": "float32",
        "full_attention_interval": s.interval,
        "layer_types": kinds,
        "rms_norm_eps": 1e-6,
        "initializer_range": 0.02,
        "vocab_size": s.vocab,
        "max_position_embeddings": CONTEXT,
        "partial_rotary_factor": s.rotary / s.head_dim,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": int(s.theta),
            "mrope_interleaved": True,
            "mrope_section": [11, 11, 10],
            "partial_rotary_factor": s.rotary / s.head_dim,
        },
        "tie_word_embeddings": False,
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "dtype": "bfloat16",
        "use_cache": True,
        "bos_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|endoftext|>"],
        "pad_token_id": None,
    }
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "language_model_only": True,
        "tie_word_embeddings": False,
        "text_config": text,
        "quantization_config": {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "weight_block_size": [128, 128],
            "activation_scheme": "dynamic",
            "modules_to_not_convert": _kept_wide(s),
        },
    }


def export(source: Path, tokenizer: Path, out: Path) -> None:
    """Writes weights, index, configs, tokenizer and the judged questions to `out`."""
    saved = torch.load(source, map_location="cpu", weights_only=True)
    shape = Shape(**saved["shape"])
    out.mkdir(parents=True, exist_ok=True)
    where, total = {}, 0
    for file, tensors in checkpoint(saved["weights"]).items():
        save_file(tensors, out / file, metadata={"format": "pt"})
        (out / file).chmod(0o644)
        where |= dict.fromkeys(tensors, file)
        total += sum(t.nbytes for t in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(where.items()))}
    ids = {
        t["content"]: t["id"]
        for t in json.loads((tokenizer / "tokenizer.json").read_text("utf-8"))["added_tokens"]
    }
    end, text = ids["<|im_end|>"], ids["<|endoftext|>"]
    generation = {
        "bos_token_id": text,
        "eos_token_id": [end, text],
        "pad_token_id": text,
        "do_sample": True,
        "temperature": 0.5,
        "top_k": 20,
        "top_p": 0.9,
    }
    for name, data in (
        ("model.safetensors.index.json", index),
        ("config.json", config(shape, ids)),
        ("generation_config.json", generation),
    ):
        (out / name).write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copyfile(tokenizer / name, out / name)
    write_questions(out / "questions.json")
    print(f"{len(where)} tensors, {total} bytes of weights")
