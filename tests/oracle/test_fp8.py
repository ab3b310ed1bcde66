"""8-bit weights: what the loader makes of them, and the shipped demo, against transformers."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.model.config import ModelConfig, hybrid_layers
from engine.model.loading import load_model
from engine.model.matrix import Fp8Block, expanded
from engine.profile import profile_folder
from kernels.common.compare import different_bits
from kernels.linear.reference import linear_reference
from tests.engine.model.checkpoints import write_checkpoint

DEMO = profile_folder() / "demo"

RAGGED = ModelConfig(
    hidden_size=136, intermediate_size=260, vocab_size=300, layer_kinds=hybrid_layers(4),
    num_heads=2, num_kv_heads=1, head_dim=72, num_key_heads=1, num_value_heads=2, key_head_dim=40,
    value_head_dim=24, rotary_dim=18, num_mtp_layers=1,
)  # fmt: skip
"""No width divides by 128, so every matrix has blocks that are cut short on both sides."""


def widened(folder: Path, out: Path) -> None:
    """Write the BF16 text checkpoint that an 8-bit one stands for, by arithmetic of its own."""
    tensors: dict[str, torch.Tensor] = {}
    for path in folder.glob("*.safetensors"):
        tensors |= load_file(path)
    plain: dict[str, torch.Tensor] = {}
    for name, one in tensors.items():
        if name.startswith(("mtp.", "model.visual.")) or name.endswith("_scale_inv"):
            continue
        if one.dtype == torch.float8_e4m3fn:
            rows, width = one.shape
            scale = tensors[name + "_scale_inv"].float()
            scale = torch.kron(scale, torch.ones(128, 128))[:rows, :width]
            one = (one.float() * scale).bfloat16()  # noqa: PLW2901
        plain[name.replace("model.language_model.", "model.")] = one
    save_file(plain, out / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    text = config.get("text_config", config)
    text.pop("quantization_config", None)
    (out / "config.json").write_text(json.dumps(text))


@pytest.fixture
def fp8_folder(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "fp8", RAGGED, fp8=True)


def test_8_bit_weights_are_held_as_the_bf16_that_they_stand_for(fp8_folder, tmp_path):
    (tmp_path / "bf16").mkdir()
    widened(fp8_folder, tmp_path / "bf16")
    ours, plain = load_model(fp8_folder), load_model(tmp_path / "bf16")
    for got, want in zip(ours.weights.layers, plain.weights.layers, strict=True):
        for part in ("gate", "up", "down"):
            one, other = (expanded(getattr(layer.mlp, part)) for layer in (got, want))
            assert different_bits(one, other, "NK") is None
    ids = list(range(100))
    hidden = [model.prefill(ids, model.new_state(128)) for model in (ours, plain)]
    assert different_bits(hidden[0], hidden[1], "TD") is None


def test_codes_kept_as_stored_compute_the_same(fp8_folder):
    stored, held = load_model(fp8_folder, expand=False), load_model(fp8_folder)
    assert isinstance(stored.weights.layers[0].mlp.gate, Fp8Block)
    assert stored.weight_bytes < held.weight_bytes
    hidden = [model.prefill(list(range(70)), model.new_state(128)) for model in (stored, held)]
    assert different_bits(hidden[0], hidden[1], "TD") is None


@pytest.fixture(scope="module")
def demo(run_transformers, tmp_path_factory):
    """The demo model and transformers' logits of its dequantised weights."""
    folder = tmp_path_factory.mktemp("demo")
    model = load_model(DEMO)
    widened(DEMO, folder)
    run_transformers([{"open": str(folder), "folder": str(folder), "seed": 3, "num_prompt": 200}])
    return model, load_file(folder / "oracle.safetensors")


def test_the_demo_has_the_bits_of_transformers(demo):
    model, oracle = demo
    num_prompt = len(oracle["prefill"])
    ids = oracle["ids"].tolist()
    state = model.new_state(512)
    prefill = model.prefill(ids[:num_prompt], state)
    head = expanded(model.weights.head)
    assert different_bits(linear_reference(prefill, head), oracle["prefill"], "TV") is None
    decoded = [linear_reference(model.step(one, state), head) for one in ids[num_prompt:]]
    assert different_bits(torch.cat(decoded), oracle["decode"], "TV") is None


def test_the_demo_chooses_what_transformers_chooses_when_it_decodes_every_token(demo):
    model, oracle = demo
    first, *rest = oracle["ids"].tolist()
    state = model.new_state(512)
    hidden = [model.prefill([first], state), *(model.step(one, state) for one in rest)]
    ours, theirs = model.logits(torch.cat(hidden)), oracle["alone"].float()
    bound = 0.125
    assert (ours - theirs).abs().max() <= bound
    best = theirs.topk(2, -1).values
    clear = best[:, 0] - best[:, 1] > 2 * bound
    assert clear.any()
    assert torch.equal(ours.argmax(-1)[clear], theirs.argmax(-1)[clear])
