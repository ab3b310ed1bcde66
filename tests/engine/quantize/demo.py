"""The demo model as a source: whole, cut to its first layers, or widened to a BF16 release."""

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from engine.model.config_file import read_config
from engine.model.loading import load_model
from engine.profile import profile_folder
from engine.quantize.prepare import Options, prepare
from engine.quantize.run import PartEnded, quantize

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

from calibration import exchanges  # noqa: E402
from demo.fp8 import dequantise  # noqa: E402

DEMO = profile_folder() / "demo"
SHORT = (2, 3)
"""Layers of the demo that make a short model: one of each kind."""

SEQUENCE = 384
"""The longest text that the demo was trained on."""

TEXTS = (
    "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json",
)  # fmt: skip


def demo_tensors(layers: tuple[int, ...] = SHORT) -> dict[str, torch.Tensor]:
    """The tensors of some of the demo's layers, numbered anew, with those outside of layers."""
    found = load_file(DEMO / "outside.safetensors") | load_file(DEMO / "mtp.safetensors")
    for index, layer in enumerate(layers):
        for name, one in load_file(DEMO / f"layers-{layer}.safetensors").items():
            found[name.replace(f".layers.{layer}.", f".layers.{index}.")] = one
    return found


def widened_to_bf16(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same model as a BF16 release."""
    return {
        name: dequantise(one, tensors[f"{name}_scale_inv"]).bfloat16()
        if f"{name}_scale_inv" in tensors
        else one
        for name, one in tensors.items()
        if not name.endswith("_scale_inv")
    }


def write_source(
    folder: Path,
    tensors: dict[str, torch.Tensor] | None = None,
    layers: tuple[int, ...] = SHORT,
) -> Path:
    """A checkpoint folder with the demo's texts and a config of so many layers."""
    folder.mkdir(parents=True)
    config = json.loads((DEMO / "config.json").read_text())
    text = config["text_config"]
    text["num_hidden_layers"] = len(layers)
    text["layer_types"] = [text["layer_types"][layer] for layer in layers]
    (folder / "config.json").write_text(json.dumps(config))
    for name in TEXTS:
        shutil.copyfile(DEMO / name, folder / name)
    save_file(tensors or demo_tensors(layers), folder / "model.safetensors")
    return folder


def calibration_file(folder: Path) -> Path:
    """Exchanges to calibrate with; those of `held_out` are not among them."""
    path = folder / "exchanges.txt"
    path.write_text(exchanges(held_out=False))
    return path


def held_out(num_sequences: int) -> list[list[int]]:
    """Token sequences of exchanges that no calibration saw."""
    from engine.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(DEMO, read_config(DEMO).vocab_size)
    ids = tokenizer.encode(exchanges(held_out=True), control=True)
    starts = range(0, num_sequences * SEQUENCE, SEQUENCE)
    return [ids[start : start + SEQUENCE] for start in starts]


def make(source: Path, out: Path, method: str, text: Path | None, tokens: int) -> list[PartEnded]:
    """Quantise on the CPU; what was told meanwhile."""
    told: list[PartEnded] = []
    options = Options(method, text, tokens, SEQUENCE)
    quantize(prepare(source, out, options), told.append)
    return told


def weights_of(folder: Path) -> dict[str, bytes]:
    """Every file of a result but the record with its dates."""
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if path.name != "quantize.json"
    }


def losses(folder: Path, texts: list[list[int]]) -> torch.Tensor:
    """Mean loss a token of each text, in nats: fp64 [texts]."""
    model = load_model(folder)
    found = []
    for ids in texts:
        hidden = model.prefill(ids, model.new_state(len(ids)))
        scores = (hidden.float() @ model.weights.head.float().t()).log_softmax(-1)
        found.append(-scores[:-1].gather(1, torch.tensor(ids[1:])[:, None]).double().mean())
    return torch.stack(found)
