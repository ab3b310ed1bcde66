"""What cannot be quantised is refused with a sentence, and nothing is written or lost."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.errors import CheckpointError, EngineError, MemoryPlanError, OutputError, RequestError
from engine.quantize import folder as folder_module
from engine.quantize import plan as plan_module
from engine.quantize.manifest import MANIFEST_NAME
from engine.quantize.prepare import Options, prepare
from engine.quantize.run import quantize
from tests.engine.model.checkpoints import TINY, random_tensors, write_checkpoint
from tests.engine.model.layouts import write_layout
from tests.engine.quantize.demo import DEMO, make, weights_of, write_source

NEAREST = Options("nearest")


@pytest.fixture
def source(tmp_path):
    """A random model; it has no tokenizer, which `nearest` does without."""
    return write_checkpoint(tmp_path / "source")


def refused(kind: type[EngineError], source, out, options=NEAREST) -> str:
    with pytest.raises(kind) as caught:
        quantize(prepare(source, out, options), lambda _: None)
    sentence = str(caught.value)
    assert re.match(r".+\.( |$)", sentence), "a person reads a sentence"
    return sentence


def test_a_random_model_is_quantised_without_a_tokenizer(source, tmp_path):
    make(source, tmp_path / "out", "nearest", None, 1)
    assert (tmp_path / "out" / "config.json").is_file()


def test_a_source_in_the_hugging_face_cache(source, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    named = Path("me/mine")
    assert "hf download me/mine" in refused(CheckpointError, named, tmp_path / "out")
    snapshot = tmp_path / "hub/models--me--mine/snapshots/abc"
    shutil.copytree(source, snapshot)
    assert prepare(named, tmp_path / "out", NEAREST).checkpoint.folder == snapshot


def test_a_method_that_does_not_exist(source, tmp_path):
    said = refused(RequestError, source, tmp_path / "out", Options("gtpq"))
    assert "'gtpq'" in said
    assert "Did you mean 'gptq'?" in said


@pytest.mark.parametrize("layout", ["modelopt", "compressed", "nvfp4"])
def test_a_source_in_4_bits(layout, tmp_path):
    source = write_layout(tmp_path / "source", layout)
    assert "NVFP4 already" in refused(CheckpointError, source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_inputs_that_do_not_divide_into_groups(tmp_path):
    odd = replace(TINY, intermediate_size=104)
    source = write_checkpoint(tmp_path / "source", odd, tensors=random_tensors(odd))
    assert "104 inputs" in refused(CheckpointError, source, tmp_path / "out")


def test_no_source(tmp_path):
    assert "config.json is missing" in refused(CheckpointError, tmp_path / "no", tmp_path / "out")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(value, tmp_path):
    tensors = random_tensors(TINY)
    tensors["model.language_model.layers.1.mlp.up_proj.weight"][3, 5] = value
    source = write_checkpoint(tmp_path / "source", tensors=tensors)
    assert "'layers.1.mlp.up_proj.weight'" in refused(CheckpointError, source, tmp_path / "out")
    assert not (tmp_path / "out" / "layers-1.safetensors").exists()


def test_a_head_that_is_no_number(tmp_path):
    tensors = random_tensors(TINY)
    tensors["lm_head.weight"][0, 0] = float("nan")
    source = write_checkpoint(tmp_path / "source", tensors=tensors)
    assert "'lm_head.weight'" in refused(CheckpointError, source, tmp_path / "out")


def test_a_folder_with_other_files(source, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "letter.txt").write_text("dear")
    assert "letter.txt" in refused(RequestError, source, out)
    assert [one.name for one in out.iterdir()] == ["letter.txt"]


def test_a_file_in_the_place_of_the_folder(source, tmp_path):
    (tmp_path / "out").write_text("")
    assert "is no folder" in refused(RequestError, source, tmp_path / "out")
    assert "out is no folder" in refused(RequestError, source, tmp_path / "out" / "deeper")


def test_a_result_behind_a_link_to_nothing(source, tmp_path):
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    assert "out is no folder" in refused(RequestError, source, tmp_path / "out")


def test_a_result_in_a_guarded_folder_is_refused_before_anything_is_computed(
    source, tmp_path, monkeypatch
):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere
    said = refused(OutputError, source, tmp_path / "new" / "out")
    assert said == f"{tmp_path} cannot be written: Permission denied. Give another folder."


@pytest.mark.parametrize("place", [".", "inside", ".."])
def test_a_result_within_its_source(place, source):
    assert "within each other" in refused(RequestError, source, source / place)


def test_another_recipe_in_the_same_folder(source, tmp_path):
    out = tmp_path / "out"
    make(source, out, "nearest", None, 1)
    before = weights_of(out)
    other = write_checkpoint(tmp_path / "other", tensors=random_tensors(TINY, fp8=True))
    said = refused(RequestError, other, out)
    assert "was begun otherwise: source" in said
    assert weights_of(out) == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"recipe": {}, "begun": 1}', '{"parts": 3}'])
def test_a_record_that_does_not_read(text, source, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / MANIFEST_NAME).write_text(text)
    said = refused(RequestError, source, out)
    assert "expected the record of a quantisation. Give another folder" in said
    assert said.count(MANIFEST_NAME) == 1
    assert "Recipe" not in said, "a person wrote no code"
    assert "Download" not in said, "it was never one"
    assert ".." not in said


def test_two_runs_in_one_folder(source, tmp_path):
    out = tmp_path / "out"
    prepared = prepare(source, out, NEAREST)

    def second(_):
        assert "Another run is at work" in refused(RequestError, source, out)

    quantize(prepared, second)


def test_too_little_memory(source, tmp_path, monkeypatch):
    monkeypatch.setattr(plan_module, "available_bytes", lambda _: 1 << 20)
    said = refused(MemoryPlanError, source, tmp_path / "out")
    assert re.search(r"needs [\d.]+ MB of memory and [\d.]+ [KM]?B are free", said)


def test_too_little_disk(source, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(plan_module, "disk_usage", lambda _: usage._replace(free=1000))
    said = refused(RequestError, source, tmp_path / "deep" / "out")
    assert "1.0 KB free" in said
    assert not (tmp_path / "deep").exists()


def test_a_disk_that_fills_up_keeps_what_is_there(source, tmp_path, monkeypatch):
    out = tmp_path / "out"
    save = folder_module.safetensors_torch.save_file

    def full(tensors, path, **options):
        if "layers-2" in path.name:
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        save(tensors, path, **options)

    monkeypatch.setattr(folder_module.safetensors_torch, "save_file", full)
    said = refused(OutputError, source, out)
    assert "No space left on device" in said
    assert "run the same command again" in said
    assert not list(out.glob(".layers*"))
    monkeypatch.undo()
    told = make(source, out, "nearest", None, 1)
    assert [one.was_there for one in told][:5] == [True] * 4 + [False]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "does not read"),
        (b"", "holds no text"),
        (b"too short", "expected 256 at least"),
        (b"MZ\0\0" * 400, "zero bytes"),
        (b"\xe9t\xe9 " * 400, "no UTF-8: byte 0 is 0xe9"),
    ],
)
def test_a_calibration_that_is_no_text(content, said, tmp_path):
    path = tmp_path / "text"
    if content is not None:
        path.write_bytes(content)
    assert said in refused(RequestError, DEMO, tmp_path / "out", Options("gptq", path))
    assert not (tmp_path / "out").exists()


def test_a_calibration_that_is_a_folder(tmp_path):
    assert "does not read" in refused(
        RequestError, DEMO, tmp_path / "out", Options("clip", tmp_path)
    )


def test_a_calibration_without_a_tokenizer(source, tmp_path):
    assert "tokenizer.json" in refused(CheckpointError, source, tmp_path / "out", Options("clip"))


def test_inputs_that_overflow(tmp_path):
    """A layer whose outputs are no numbers on the text."""
    from tests.engine.quantize.demo import calibration_file, demo_tensors

    tensors = demo_tensors((0,))
    name = "model.language_model.layers.0.input_layernorm.weight"
    tensors[name] = torch.full((256,), 3e38).bfloat16()
    source = write_source(tmp_path / "source", tensors, layers=(0,))
    options = Options("gptq", calibration_file(tmp_path), 384, 384)
    said = refused(EngineError, source, tmp_path / "out", options)
    assert "no numbers" in said or "no finite" in said
