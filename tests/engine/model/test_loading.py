"""Loading: progress, cancelling, the memory plan, what is held in which dtype."""

import math
import threading
from dataclasses import replace

import pytest
import torch

from engine.errors import CancelledError, CheckpointError, MemoryPlanError
from engine.model import loading, memory, numbers, reading, streaming
from engine.model.checkpoint import open_checkpoint
from engine.model.config_file import read_config
from engine.model.loading import load_model
from engine.model.memory import plan_memory
from engine.model.packing import Launching, Packer
from engine.model.weights import DeltaWeights
from kernels.common.compare import different_bits
from tests.engine.model.checkpoints import TINY, random_tensors, write_checkpoint


@pytest.fixture
def folder(tmp_path):
    return write_checkpoint(tmp_path / "model")


def test_every_tensor_arrives_with_its_bits(folder):
    model = load_model(folder)
    tensors = random_tensors(TINY)
    prefix = "model.language_model.layers.3."
    layer = model.weights.layers[3]
    want = tensors[prefix + "self_attn.q_proj.weight"]
    assert different_bits(layer.mixer.q, want, "NK") is None
    assert different_bits(layer.mlp.down, tensors[prefix + "mlp.down_proj.weight"], "NK") is None
    assert different_bits(model.weights.mtp.fc, tensors["mtp.fc.weight"], "NK") is None
    assert model.has_mtp
    assert model.num_parameters == sum(one.numel() for one in tensors.values())
    assert model.weight_bytes == 2 * model.num_parameters


def test_progress_ends_with_all_bytes_and_never_goes_back(folder, monkeypatch):
    monkeypatch.setattr(streaming, "REPORT_SECONDS", 0.0)
    seen = []
    model = load_model(folder, on_progress=seen.append)
    counts = [one.num_bytes for one in seen]
    assert counts == sorted(counts)
    assert counts[-1] == seen[-1].total_bytes == model.weight_bytes
    assert {one.file for one in seen} == {"layers-0.safetensors", "layers-1.safetensors"}
    assert all(one.gb_s > 0 for one in seen)


def test_a_load_stops_at_the_next_piece_when_cancelled(folder, monkeypatch):
    monkeypatch.setattr(streaming, "REPORT_SECONDS", 0.0)
    cancel, seen = threading.Event(), []

    def after_two(progress):
        seen.append(progress)
        if len(seen) == 2:
            cancel.set()

    with pytest.raises(CancelledError):
        load_model(folder, on_progress=after_two, cancel=cancel)
    assert len(seen) == 2


def test_a_model_that_does_not_fit_is_refused_with_numbers_before_loading(folder, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda device: 1_000_000)
    monkeypatch.setattr(loading, "_load_tensors", lambda *args, **kwargs: pytest.fail("loaded"))
    with pytest.raises(MemoryPlanError, match=r"needs [\d.]+ MB for .* 1.0 MB are free"):
        load_model(folder)


def test_the_plan_counts_what_the_model_then_holds(tmp_path):
    folder = write_checkpoint(tmp_path / "fp8", fp8=True)
    checkpoint = open_checkpoint(folder, read_config(folder))
    for expand in (True, False):
        plan = plan_memory(checkpoint, "cpu", expand=expand, context_tokens=100)
        assert plan.stored + plan.expanded == load_model(folder, expand=expand).weight_bytes
    assert plan.expanded == 0
    assert plan.kept["context"] == 100 * 2 * 2 * TINY.kv_dim * 2  # an attention and the MTP layer
    assert 0 < plan.available < 1 << 62


def test_a_file_that_shrinks_while_it_is_read_is_a_sentence(folder, monkeypatch):
    real = loading.plan_memory

    def shrink(*args, **kwargs):
        for path in folder.glob("*.safetensors"):
            with path.open("r+b") as file:
                file.truncate(path.stat().st_size // 2)
        return real(*args, **kwargs)

    monkeypatch.setattr(loading, "plan_memory", shrink)
    with pytest.raises(CheckpointError, match="ended while"):
        load_model(folder)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_wider_matrices_are_rounded_and_fp32_vectors_are_kept(tmp_path, dtype):
    tensors = {name: one.to(dtype) for name, one in random_tensors(TINY).items()}
    model = load_model(write_checkpoint(tmp_path / "wide", tensors=tensors))
    layer = model.weights.layers[0]
    assert isinstance(layer.mixer, DeltaWeights)
    assert layer.mlp.gate.dtype == model.weights.embedding.dtype == torch.bfloat16
    assert layer.mixer.conv.dtype == torch.bfloat16
    kept = torch.float32 if dtype == torch.float32 else torch.bfloat16
    assert layer.input_norm.dtype == layer.mixer.norm.dtype == kept
    assert layer.mixer.decay_rate.dtype == layer.mixer.dt_bias.dtype == torch.float32


def test_pieces_smaller_than_a_tensor_give_the_same_bits(tmp_path, monkeypatch):
    folder = write_checkpoint(tmp_path / "fp8", fp8=True)
    whole = load_model(folder)
    monkeypatch.setattr(reading, "PIECE_BYTES", 1000)
    pieces = load_model(folder)
    hidden = [m.prefill(list(range(80)), m.new_state(128)) for m in (whole, pieces)]
    assert different_bits(hidden[0], hidden[1], "TD") is None


@pytest.mark.parametrize("expand", [True, False])
@pytest.mark.parametrize("byte", [0x7F, 0xFF])
def test_a_code_that_is_no_number_is_refused_with_its_place(tmp_path, monkeypatch, expand, byte):
    monkeypatch.setattr(reading, "PIECE_BYTES", 128 * 64)
    config = replace(TINY, intermediate_size=300)
    tensors = random_tensors(config, fp8=True)
    name = "model.language_model.layers.1.mlp.up_proj.weight"
    tensors[name].view(torch.uint8)[299, 5] = byte
    folder = write_checkpoint(tmp_path / "nan", config, tensors=tensors)
    with pytest.raises(CheckpointError, match=f"element {299 * 64 + 5} of '{name}' is not a numb"):
        load_model(folder, expand=expand)


@pytest.mark.parametrize("expand", [True, False])
@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("value", [math.nan, -math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "name",
    ["model.language_model.embed_tokens.weight", "model.language_model.layers.1.mlp.up_proj.weight",
     "model.language_model.layers.0.input_layernorm.weight", "mtp.norm.weight"],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_plain_weight_that_is_no_finite_number_is_refused(
    tmp_path, name, value, dtype, packs, expand
):
    tensors = {one: values.to(dtype) for one, values in random_tensors(TINY).items()}
    tensors[name].view(-1)[-1] = value
    folder = write_checkpoint(tmp_path / "nan", TINY, tensors=tensors)
    packer = Packer(Launching((9, 0))) if packs else None
    with pytest.raises(CheckpointError, match=f"'{name}' holds a value that is not a finite numb"):
        load_model(folder, expand=expand, packer=packer)


def test_a_large_weight_is_trusted_on_a_cpu(tmp_path, monkeypatch):
    """Looking takes a CPU long; what is wrong is said with the answer."""
    tensors = random_tensors(TINY)
    tensors["model.language_model.embed_tokens.weight"][3] = math.nan
    folder = write_checkpoint(tmp_path / "nan", TINY, tensors=tensors)
    monkeypatch.setattr(numbers, "MOST_ON_A_CPU", 1000)
    load_model(folder)


def test_the_largest_numbers_are_numbers(tmp_path):
    tensors = random_tensors(TINY)
    largest = torch.finfo(torch.bfloat16).max
    tensors["model.language_model.embed_tokens.weight"].view(-1)[:4] = torch.tensor(
        [largest, -largest, 0.0, -0.0]
    )
    load_model(write_checkpoint(tmp_path / "large", TINY, tensors=tensors))
