"""Run transformers' own model on tiny random weights, or on a checkpoint; knows nothing of ours.

    python transformers_script.py JOBS.json CHECKOUT

A job makes a random model (`make`: config fields) or opens one (`open`: a BF16 checkpoint folder),
writes `folder`/oracle.safetensors with the prompt, the decoded ids and their logits, the logits of
all of them where only the first is a prompt (`alone`), and, for a made model, the checkpoint
itself. With `mtp` a draft head is composed of transformers' own parts (the library has none for
this model): checkpoint tensors and logits of every row.

Hugging Face's package `kernels` has the name of our folder and transformers looks for it, so the
checkout is taken off the path first. Prints the modules that came from the checkout all the same.
"""

import importlib
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

NUM_DECODED = 64
FP32_IN_SMALL_RELEASES = ("A_log", "linear_attn.norm.weight")


def classes():
    """Import late: the path must be clean before."""
    return (
        importlib.import_module("transformers.models.qwen3_5.configuration_qwen3_5"),
        importlib.import_module("transformers.models.qwen3_5.modeling_qwen3_5"),
    )


def in_bf16(model: torch.nn.Module) -> torch.nn.Module:
    """Cast weights to BF16 and keep the rotation's frequencies in fp32 (the cast rounds them)."""
    rotary = model.model.rotary_emb
    kept = rotary.inv_freq.clone(), rotary.original_inv_freq.clone()
    model = model.to(torch.bfloat16)
    rotary.inv_freq, rotary.original_inv_freq = kept
    return model.eval()


@torch.no_grad()
def randomise(model: torch.nn.Module, generator: torch.Generator) -> None:
    """Give every weight a size that keeps activations near one and decays realistic."""
    for name, weight in model.named_parameters():
        if name.endswith("A_log"):
            weight.uniform_(1.0, 16.0, generator=generator).log_()
        elif name.endswith("dt_bias"):
            weight.uniform_(-7.0, -2.0, generator=generator)
        elif name.endswith("conv1d.weight"):
            weight.uniform_(-0.5, 0.5, generator=generator)
        elif weight.dim() == 1:
            mean = 0.87 if name.endswith("linear_attn.norm.weight") else 0.0
            weight.normal_(mean, 0.1, generator=generator)
        else:
            scale = 3.0 if name.endswith(("lm_head.weight", "embed_tokens.weight")) else 1.0
            weight.normal_(0.0, scale * weight.shape[1] ** -0.5, generator=generator)


def make(job: dict) -> torch.nn.Module:
    configuration, modeling = classes()
    config = configuration.Qwen3_5TextConfig(**job["make"], attn_implementation="eager")
    model = modeling.Qwen3_5ForCausalLM(config)
    randomise(model, torch.Generator().manual_seed(job["seed"]))
    model = in_bf16(model)
    if job["fp32_small"]:
        for name, weight in model.named_parameters():
            if name.endswith(FP32_IN_SMALL_RELEASES):
                weight.data = weight.data.float()
    folder = Path(job["folder"])
    model.save_pretrained(folder, max_shard_size=job["max_shard_size"])
    if job["as_full_release"]:
        as_full_release(folder)
    return model


@torch.no_grad()
def draft_head(model: torch.nn.Module, ids: torch.Tensor, job: dict) -> dict[str, torch.Tensor]:
    """Add a draft head to the checkpoint; return the trunk's hidden states and the head's logits.

    Row p joins hidden state p with token p + 1.
    """
    configuration, modeling = classes()
    fields = {**job["make"], "num_hidden_layers": 1, "layer_types": ["full_attention"]}
    config = configuration.Qwen3_5TextConfig(**fields, attn_implementation="eager")
    width = config.hidden_size
    head = torch.nn.ModuleDict({
        "fc": torch.nn.Linear(2 * width, width, bias=False),
        "pre_fc_norm_embedding": modeling.Qwen3_5RMSNorm(width, eps=config.rms_norm_eps),
        "pre_fc_norm_hidden": modeling.Qwen3_5RMSNorm(width, eps=config.rms_norm_eps),
        "layers": torch.nn.ModuleList([modeling.Qwen3_5DecoderLayer(config, 0)]),
        "norm": modeling.Qwen3_5RMSNorm(width, eps=config.rms_norm_eps),
    })  # fmt: skip
    randomise(head, torch.Generator().manual_seed(job["seed"] + 2))
    head = head.to(torch.bfloat16).eval()
    folder = Path(job["folder"])
    tensors = load_file(folder / "model.safetensors")
    tensors |= {f"mtp.{name}": one for name, one in head.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    whole = json.loads((folder / "config.json").read_text())
    whole.get("text_config", whole)["mtp_num_hidden_layers"] = 1
    (folder / "config.json").write_text(json.dumps(whole))

    hidden = model.model(ids[None]).last_hidden_state
    embedded = head["pre_fc_norm_embedding"](model.model.embed_tokens(ids[None, 1:]))
    x = torch.cat((embedded, head["pre_fc_norm_hidden"](hidden[:, :-1])), -1)
    x = head["fc"](x)
    rows = x.shape[1]
    angles = model.model.rotary_emb(x, torch.arange(rows)[None, None])
    mask = torch.full((1, 1, rows, rows), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)
    x = head["layers"][0](x, position_embeddings=angles, attention_mask=mask)
    return {"hidden": hidden[0], "draft": model.lm_head(head["norm"](x))[0]}


def as_full_release(folder: Path) -> None:
    """Rename as the vision-language release does, with a vision tensor that must be skipped."""
    tensors = load_file(folder / "model.safetensors")
    renamed = {
        name
        if name == "lm_head.weight"
        else name.replace("model.", "model.language_model.", 1): one
        for name, one in tensors.items()
    }
    renamed["model.visual.blocks.0.attn.qkv.weight"] = torch.zeros(3, 5)
    save_file(renamed, folder / "model.safetensors")
    text = json.loads((folder / "config.json").read_text())
    outer = {"model_type": "qwen3_5", "text_config": text}
    (folder / "config.json").write_text(json.dumps(outer))


def opened(job: dict) -> torch.nn.Module:
    _, modeling = classes()
    model = modeling.Qwen3_5ForCausalLM.from_pretrained(
        job["open"], dtype=torch.float32, attn_implementation="eager"
    )
    return in_bf16(model)


def logits(
    model: torch.nn.Module, ids: torch.Tensor, num_prompt: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of a prompt read at once, and of the tokens behind it, one after the other."""
    out = model(ids[None, :num_prompt], use_cache=True)
    prefill, cache = out.logits[0], out.cache
    decoded = []
    for one in ids[num_prompt:]:
        out = model(one[None, None], cache=cache, use_cache=True)
        cache = out.cache
        decoded.append(out.logits[0, 0])
    return prefill, torch.stack(decoded)


@torch.no_grad()
def main(jobs_path: str, checkout: str) -> None:
    sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(checkout)]
    for job in json.loads(Path(jobs_path).read_text()):
        model = make(job) if "make" in job else opened(job)
        vocabulary = model.config.vocab_size
        generator = torch.Generator().manual_seed(job["seed"] + 1)
        size = (job["num_prompt"] + NUM_DECODED,)
        ids = torch.tensor(job["ids"]) if "ids" in job else torch.randint(
            0, vocabulary, size, generator=generator
        )  # fmt: skip
        num_prompt = len(ids) - NUM_DECODED
        prefill, decoded = logits(model, ids, num_prompt)
        alone = torch.cat(logits(model, ids, 1))
        found = {"ids": ids, "prefill": prefill, "decode": decoded, "alone": alone}
        if job.get("mtp"):
            found |= draft_head(model, ids, job)
        save_file(
            {name: one.contiguous() for name, one in found.items()},
            Path(job["folder"]) / "oracle.safetensors",
        )
    folders = tuple(str(Path(checkout, package)) for package in ("app", "engine", "kernels"))
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    json.dump([n for n, file in files.items() if (file or "").startswith(folders)], sys.stdout)


main(*sys.argv[1:])
