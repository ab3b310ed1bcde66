"""A whole run: what it writes opens, is what was computed, and survives being stopped anywhere."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from engine.locate import profile_folder
from engine.model.checkpoint import open_checkpoint
from engine.model.config_file import read_config
from engine.model.loading import load_model
from engine.model.matrix import expanded
from engine.profile import read_profile
from engine.quantize.manifest import MANIFEST_NAME, Manifest, hash_file
from engine.quantize.source import COPIED
from engine.settings.environment import child_environment
from tests.engine.model.checkpoints import TINY, write_checkpoint
from tests.engine.quantize.demo import (
    DEMO,
    ROOT,
    TEXTS,
    calibration_file,
    demo_tensors,
    held_out,
    losses,
    make,
    weights_of,
    widened_to_bf16,
    write_source,
)

TOKENS = 768


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return calibration_file(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_source(tmp_path_factory.mktemp("source") / "short")


@pytest.fixture(scope="module")
def by_gptq(source, text, tmp_path_factory):
    out = tmp_path_factory.mktemp("gptq") / "out"
    told = make(source, out, "gptq", text, TOKENS)
    return out, told


def test_the_result_is_what_the_profile_nvfp4_expects(by_gptq):
    out, _ = by_gptq
    checkpoint = open_checkpoint(out, read_config(out))
    formats = read_profile(profile_folder() / "nvfp4.toml").formats
    found = {part: dict(counts) for part, counts in checkpoint.part_formats.items()}
    assert {part: set(counts) for part, counts in found.items()} == {
        part: {getattr(formats, part)} for part in ("mlp", "attention", "delta", "head", "mtp")
    }
    assert checkpoint.num_unused == 0
    assert checkpoint.config.quantization == "modelopt"


def test_what_is_not_quantised_is_the_sources_own(source, by_gptq):
    out, _ = by_gptq
    before = load_file(source / "model.safetensors")
    after: dict[str, torch.Tensor] = {}
    for path in out.glob("*.safetensors"):
        after |= load_file(path)
    before = {name: one for name, one in before.items() if not name.endswith("_scale_inv")}
    kept = [name for name in before if after[name].dtype == before[name].dtype]
    assert {name.split(".")[-2] for name in kept if "layers.0" in name} >= {
        "input_layernorm", "conv1d", "in_proj_a", "in_proj_b", "norm",
    }  # fmt: skip
    assert {"mtp.fc.weight", "model.language_model.embed_tokens.weight"} <= set(kept)
    for name in kept:
        assert torch.equal(before[name].view(torch.uint8), after[name].view(torch.uint8)), name


def test_texts_go_with_the_weights(source, by_gptq):
    out, _ = by_gptq
    for name in TEXTS:
        assert name in COPIED
        assert (out / name).read_bytes() == (source / name).read_bytes()
    index = json.loads((out / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"].values()) == {one.name for one in out.glob("*.safetensors")}
    assert not [one.name for one in out.iterdir() if one.name.startswith(".")]


def test_the_record_names_what_decided_and_what_was_lost(source, text, by_gptq):
    out, told = by_gptq
    manifest = Manifest.read(out)
    recipe = manifest.recipe
    assert (recipe.method, recipe.tokens, recipe.device) == ("gptq", TOKENS, "cpu")
    assert recipe.calibration == hash_file(text)
    assert len(recipe.source) == 64
    assert manifest.begun <= manifest.finished
    for part in manifest.parts.values():
        assert hash_file(out / part.file) == part.sha256
    matrices = {
        name: loss for part in manifest.parts.values() for name, loss in part.matrices.items()
    }
    assert len(matrices) == 1 + 6 + 2 * 7
    for name, loss in matrices.items():
        assert 0 < loss.weight < 0.02, name
        if name != "lm_head.weight":
            assert loss.output is not None
            assert 0 < loss.output < loss.weight, name
    assert [one.num_done for one in told] == list(range(1, len(manifest.parts) + 1))
    assert told[-1].seconds_left == 0


def test_a_loaded_matrix_is_within_its_recorded_loss(source, by_gptq):
    """The loader reads what the quantiser measured."""
    out, _ = by_gptq
    recorded = Manifest.read(out).parts["layers-1"].matrices["layers.1.mlp.down_proj.weight"].weight
    before = expanded(load_model(source).weights.layers[1].mlp.down).double()
    after = expanded(load_model(out).weights.layers[1].mlp.down).double()
    lost = float((before - after).square().sum() / before.square().sum())
    assert lost == pytest.approx(recorded, rel=1e-4)


def test_a_bf16_release_gives_the_bytes_of_its_fp8_form(source, tmp_path):
    """Both stand for the same BF16 weights."""
    wide = write_source(tmp_path / "wide", widened_to_bf16(demo_tensors()))
    for folder, out in ((source, tmp_path / "a"), (wide, tmp_path / "b")):
        make(folder, out, "nearest", None, TOKENS)
    assert weights_of(tmp_path / "a") == weights_of(tmp_path / "b")


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("num_parts", [1, 4])
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(
    num_parts, source, text, by_gptq, tmp_path, monkeypatch
):
    from engine.quantize.prepare import Options, prepare
    from engine.quantize.run import quantize

    def stop(part):
        if part.num_done == num_parts:
            raise StoppedError

    out = tmp_path / "out"
    with pytest.raises(StoppedError):
        quantize(prepare(source, out, Options("gptq", text, TOKENS, 384)), stop)
    assert not (out / "config.json").exists(), "an unfinished folder does not open"
    (out / ".layers-9.safetensors.tmp").write_bytes(b"half a file")
    told = make(source, out, "gptq", text, TOKENS)
    assert [one.was_there for one in told] == [i < num_parts for i in range(len(told))]
    assert weights_of(out) == weights_of(by_gptq[0])


@pytest.mark.usefixtures("one_thread")
def test_a_killed_process_goes_on_to_the_same_bytes(source, text, by_gptq, tmp_path):
    out = tmp_path / "out"
    command = [
        *(sys.executable, "-m", "app", "quantize", str(source), str(out), "--method", "gptq"),
        *("--calibration", str(text), "--tokens", str(TOKENS), "--sequence", "384"),
        *("--device", "cpu"),
    ]
    environment = child_environment({}) | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    record = out / MANIFEST_NAME
    while time.monotonic() < until:
        if record.exists() and '"layers-0"' in record.read_text():
            break
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (out / "config.json").exists()
    told = make(source, out, "gptq", text, TOKENS)
    assert told[2].was_there
    assert not told[-1].was_there
    assert weights_of(out) == weights_of(by_gptq[0])


def test_a_finished_run_is_left_as_it_is(source, text, by_gptq):
    out, _ = by_gptq
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    told = make(source, out, "gptq", text, TOKENS)
    assert all(one.was_there for one in told)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_damaged_part_is_made_again(source, tmp_path):
    out = tmp_path / "out"
    make(source, out, "nearest", None, TOKENS)
    whole = weights_of(out)
    damaged = bytearray(whole["layers-1.safetensors"])
    damaged[-1] ^= 1
    (out / "layers-1.safetensors").write_bytes(damaged)
    told = make(source, out, "nearest", None, TOKENS)
    assert [one.name for one in told if not one.was_there] == ["layers-1"]
    assert weights_of(out) == whole


def test_the_demo_keeps_its_held_out_loss(text, tmp_path):
    """At most 0.05 nats above its own weights, with the whole interval of 95 %."""
    texts = held_out(5)
    before = losses(DEMO, texts)
    for method in ("nearest", "gptq"):
        make(DEMO, tmp_path / method, method, text, 768)
        more = losses(tmp_path / method, texts) - before
        deviation = float(more.std() / len(more) ** 0.5)
        assert float(more.mean()) + 2.78 * deviation < 0.05, method


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("num_mtp_layers", [0, 1])
def test_models_without_a_head_of_their_own_or_without_mtp_are_quantised(
    tied, num_mtp_layers, tmp_path
):
    config = replace(TINY, tie_word_embeddings=tied, num_mtp_layers=num_mtp_layers)
    source = write_checkpoint(tmp_path / "source", config)
    told = make(source, tmp_path / "out", "nearest", None, 1)
    names = ["embedding"] + ["head"] * (not tied) + [f"layers-{i}" for i in range(4)]
    assert [one.name for one in told] == names + ["mtp"] * num_mtp_layers
    model = load_model(tmp_path / "out")
    assert model.has_mtp == bool(num_mtp_layers)
    assert torch.isfinite(model.step(5, model.new_state(1))).all()


def test_a_source_of_links_is_read_and_copied_through_them(source, tmp_path):
    """As the cache of the Hugging Face tools has it."""
    links = tmp_path / "links"
    links.mkdir()
    for path in source.iterdir():
        (links / path.name).symlink_to(path)
    for folder, out in ((source, tmp_path / "a"), (links, tmp_path / "b")):
        make(folder, out, "nearest", None, 1)
    assert weights_of(tmp_path / "a") == weights_of(tmp_path / "b")
    assert not [path for path in (tmp_path / "b").iterdir() if path.is_symlink()]


def test_the_record_is_json_that_a_person_can_read(by_gptq):
    data = json.loads((by_gptq[0] / MANIFEST_NAME).read_text())
    assert set(data) == {"recipe", "begun", "finished", "parts"}
