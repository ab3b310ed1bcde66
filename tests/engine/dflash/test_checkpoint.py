"""A drafter's folder: what is read to the bit, what is refused, and where it is looked for."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.dflash.attach import find_dflash
from engine.dflash.checkpoint import REPOSITORIES, dflash_tensors, open_dflash
from engine.dflash.config import DflashConfig, read_dflash_config
from engine.dflash.weights import load_dflash
from engine.errors import CancelledError, CheckpointError
from engine.model.compiling import packed_in
from engine.model.config import SHAPE_27B, SHAPE_DEMO
from engine.model.packing import Launching, Packer
from engine.settings.declared import DraftSettings
from tests.engine.dflash.drafters import (
    DEMO_DRAFTER,
    dflash_fields,
    dflash_values,
    write_dflash,
)

RELEASED = DflashConfig(
    hidden_size=5120, intermediate_size=17408, vocab_size=248320, num_layers=5, num_heads=32,
    num_kv_heads=8, head_dim=128, rope_theta=1e7, rms_norm_eps=1e-6, window=2048, block_size=8,
    mask_id=248070, target_layers=(5, 19, 33, 47, 61), conv_taps=2, conv_group=16,
    selector_rank=256, top_k=16,
)  # fmt: skip


def test_the_tensors_are_as_many_as_the_release_has():
    """81 tensors of 1,924,404,480 parameters, as they were counted in the published files."""
    specs = dflash_tensors(RELEASED)
    assert len(specs) == 81
    assert sum(one.num_elements for one in specs.values()) == 1_924_404_480


def test_the_config_is_read_as_it_is_written(tmp_path):
    folder = write_dflash(tmp_path / "drafter", RELEASED, tensors=dflash_values())
    assert read_dflash_config(folder) == RELEASED


def test_every_tensor_is_loaded_bit_by_bit(tmp_path):
    checkpoint = open_dflash(write_dflash(tmp_path / "drafter"), SHAPE_DEMO)
    weights = load_dflash(checkpoint, device="cpu")
    values = dflash_values()

    def same(one, name: str) -> bool:
        return torch.equal(one, values[name])

    assert same(weights.fc, "fc.weight")
    assert same(weights.projection, "candidate_selector.hidden_projection.weight")
    assert same(weights.predecessors, "candidate_selector.predecessor_codebook")
    assert same(weights.successors, "candidate_selector.successor_codebook")
    norms = {"hidden_norm.weight": weights.hidden_norm, "norm.weight": weights.norm}
    for index, layer in enumerate(weights.layers):
        prefix = f"layers.{index}."
        for name in ("q", "k", "v", "o"):
            assert same(getattr(layer, name), f"{prefix}self_attn.{name}_proj.weight")
        for name in ("gate", "up", "down"):
            assert same(getattr(layer.mlp, name), f"{prefix}mlp.{name}_proj.weight")
        for name in ("attention_conv", "mlp_conv"):
            conv = getattr(layer, name)
            assert same(conv.base, f"{prefix}{name}.base_kernel")
            assert same(conv.projection, f"{prefix}{name}.kernel_projection.weight")
        norms |= {
            prefix + "input_layernorm.weight": layer.input_norm,
            prefix + "post_attention_layernorm.weight": layer.post_norm,
            prefix + "self_attn.q_norm.weight": layer.q_norm,
            prefix + "self_attn.k_norm.weight": layer.k_norm,
        }
    for name, held in norms.items():
        assert torch.equal((held + 1).bfloat16(), values[name])
    packed = load_dflash(checkpoint, device="cpu", packer=Packer(Launching((9, 0))))
    assert torch.equal(packed.fc.expand(), values["fc.weight"])
    assert torch.equal(packed.layers[1].v.expand(), values["layers.1.self_attn.v_proj.weight"])
    assert packed.layers[1].k.whole is packed.layers[1].v.whole
    # what compiles ahead finds them all: of a layer q, k | v, o, gate | up, down and two kernels
    assert len({id(one) for one in packed_in(packed)}) == 2 + 2 * 7


def test_tensors_of_16_and_32_bits_are_read_too(tmp_path):
    values = {name: one.float() for name, one in dflash_values().items()}
    folder = write_dflash(tmp_path / "drafter", tensors=values)
    weights = load_dflash(open_dflash(folder, SHAPE_DEMO), device="cpu")
    assert torch.equal(weights.fc, dflash_values()["fc.weight"])


CONFIGS = [
    (("architectures", ["DFlashDraftModel"]), "DFlash2DraftModel"),
    (("is_causal", True), "'is_causal' is 'True'"),
    (("layer_types", ["sliding_attention", "full_attention"]), "2 times 'sliding_attention'"),
    (("rope_scaling", {"rope_type": "yarn", "factor": 4}), "'rope_type' is 'yarn'"),
    (("attention_bias", True), "'attention_bias'"),
    (("hidden_size", "256"), "'hidden_size' is '256', expected a whole number"),
    (("hidden_size", 1 << 40), "'hidden_size'"),
    (("num_hidden_layers", 65), "at most 64 layers"),
    (("num_attention_heads", 5), "5 query heads do not divide among 2 KV heads"),
    (("head_dim", 31), "cannot be rotated in pairs"),
    (("dflash_config", [1]), "'dflash_config'"),
    (("dflash_config", {}), "'block_size' is 'None'"),
    (("block_size", 1), "a whole number from 2"),
    (("block_size", 33), "blocks of 33 rows; a round has at most 32"),
    (("mask_token_id", 6144), "the mask id 6144 is outside the vocabulary 6144"),
    (("target_layer_ids", [3, 1]), "'target_layer_ids' is '[3, 1]', expected layers"),
    (("target_layer_ids", [-1, 3]), "ascending"),
    (("target_layer_ids", [1, "3"]), "ascending"),
    (("target_layer_ids", []), "ascending"),
    (("conv_group_size", 24), "256 channels do not divide into groups of 24"),
    (("conv_kernel_size", 9), "convolutions over 9 rows of a block of 8"),
    (("selector_top_k", 33), "33 candidates a place; 32 are the most"),
    (("sliding_window", 4), "a window of 4 does not hold a block of 8"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "sentence"), CONFIGS, ids=lambda one: str(one[0])[:30])
def test_a_config_that_is_not_computed_is_refused(tmp_path, change, sentence):
    name, value = change
    fields = dflash_fields(DEMO_DRAFTER)
    (fields["dflash_config"] if name in fields["dflash_config"] else fields)[name] = value
    folder = write_dflash(tmp_path / "drafter", fields=fields, tensors={"fc.weight": torch.ones(1)})
    with pytest.raises(CheckpointError) as refused:
        open_dflash(folder, SHAPE_DEMO)
    assert sentence in str(refused.value)
    assert str(folder) in str(refused.value)


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (SHAPE_27B, "hidden states of 256, and the model's have 5120"),
        (replace(SHAPE_DEMO, vocab_size=6145), "vocabulary of 6144, and the model's has 6145"),
        (
            replace(SHAPE_DEMO, layer_kinds=SHAPE_DEMO.layer_kinds[:11]),
            "the output of layer 11, and the model has 11 layers",
        ),
    ],
    ids=["width", "vocabulary", "layers"],
)
def test_a_drafter_of_another_model_is_refused(tmp_path, target, sentence):
    folder = write_dflash(tmp_path / "drafter")
    with pytest.raises(CheckpointError, match="does not fit this model") as refused:
        open_dflash(folder, target)
    assert sentence in str(refused.value)


def damaged(change) -> dict[str, torch.Tensor]:
    values = dflash_values()
    change(values)
    return values


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda v: v.pop("layers.1.mlp_conv.base_kernel"), "lacks the tensor 'layers.1.mlp_conv"),
        (
            lambda v: v.update({"lm_head.weight": torch.ones(2)}),
            "'lm_head.weight', which a DFlash2",
        ),
        (lambda v: v.update({"fc.weight": torch.ones(256, 1024)}), "has the shape [256, 1024]"),
        (
            lambda v: v.update({"norm.weight": torch.ones(256, dtype=torch.int64)}),
            "the dtype I64, expected BF16, F16, F32",
        ),
    ],
    ids=["missing", "foreign", "shape", "dtype"],
)
def test_tensors_that_do_not_belong_are_refused_by_name(tmp_path, change, sentence):
    folder = write_dflash(tmp_path / "drafter", tensors=damaged(change))
    with pytest.raises(CheckpointError) as refused:
        open_dflash(folder, SHAPE_DEMO)
    assert sentence in str(refused.value)


def test_files_that_are_cut_off_are_refused(tmp_path):
    folder = write_dflash(tmp_path / "drafter")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError):
        open_dflash(folder, SHAPE_DEMO)


def test_a_load_can_be_stopped(tmp_path):
    checkpoint = open_dflash(write_dflash(tmp_path / "drafter"), SHAPE_DEMO)
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(CancelledError):
        load_dflash(checkpoint, device="cpu", cancel=cancel)


def test_a_folder_that_is_named_is_opened_whoever_drafts(tmp_path):
    folder = write_dflash(tmp_path / "drafter")
    found = find_dflash(DraftSettings(dflash_dir=folder), SHAPE_DEMO)
    assert found is not None
    assert found.folder == folder


def test_a_repository_of_the_cache_is_named_as_one(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    named = DraftSettings(dflash_dir=Path("me/drafter"))
    with pytest.raises(CheckpointError, match="hf download me/drafter"):
        find_dflash(named, SHAPE_DEMO)
    folder = write_dflash(tmp_path / "models--me--drafter/snapshots/1")
    found = find_dflash(named, SHAPE_DEMO)
    assert found is not None
    assert found.folder == folder


@pytest.mark.parametrize("content", [None, "empty"])
def test_a_named_folder_without_a_drafter_is_refused(tmp_path, content):
    folder = tmp_path / "nothing"
    if content:
        folder.mkdir()
    with pytest.raises(CheckpointError, match=r"'draft\.dflash_dir' is .*no config\.json"):
        find_dflash(DraftSettings(dflash_dir=folder), SHAPE_DEMO)


def test_the_cache_is_looked_at_only_when_the_drafter_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert find_dflash(DraftSettings(), SHAPE_DEMO) is None
    asked = DraftSettings(drafter="dflash2")
    with pytest.raises(CheckpointError, match="not on this machine.*z-lab/Qwen3.8-27B-DFlash2"):
        find_dflash(asked, SHAPE_DEMO)
    name = f"models--{REPOSITORIES[0].replace('/', '--')}"
    folder = write_dflash(tmp_path / name / "snapshots" / "1")
    assert find_dflash(DraftSettings(), SHAPE_DEMO) is None
    found = find_dflash(asked, SHAPE_DEMO)
    assert found is not None
    assert found.folder == folder
