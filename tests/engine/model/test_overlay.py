"""Part files over the FP8 release: their matrices are served, everything else is the release's."""

import threading
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from engine.errors import CheckpointError
from engine.locate import choose
from engine.model.checkpoint import open_checkpoint
from engine.model.config_file import read_config
from engine.model.generation import read_generation
from engine.model.loading import load_weights
from engine.model.matrix import expanded
from engine.model.tensors import expected_tensors
from engine.open import open_engine
from engine.profile import load_profiles
from engine.settings.declared import ModelSettings, Settings
from kernels.linear.reference import linear_reference
from tests.engine.model.checkpoints import TINY, random_tensors, write_checkpoint
from tests.engine.model.layouts import Maker, meaning, on_disk
from tests.engine.model.test_layouts import matrices_of
from tests.fakes.model import write_text_files

CONFIG = replace(TINY, vocab_size=320, eos_ids=(302,))
FILES = {"mlp": "mlp", "delta": "gdn", "attention": "attn", "head": "head-fp8"}
EXPECTED = expected_tensors(CONFIG)
GATE = "layers.0.mlp.gate_proj"


def parts(*, short: bool = False) -> dict[str, dict[str, torch.Tensor]]:
    """Four files: NVFP4 of all projections, an e4m3 head with one fp32 scale a row."""
    make, files = Maker(), {}
    for name, spec in EXPECTED.items():
        if not spec.matrix or spec.part not in FILES:
            continue
        module, shape = name.removesuffix(".weight"), (spec.shape[0], spec.shape[1])
        if spec.part == "head":
            made = make.row_fp8_f32(module, shape)
            made[f"{module}.weight_scale"] = made[f"{module}.weight_scale"].flatten()
        else:
            if short:
                first, index, _, own = module.split(".")
                module = f"{first}.{index}.{own}"
            made = make.modelopt_nvfp4(module, shape)
            del made[f"{module}.input_scale"]
        files.setdefault(FILES[spec.part], {}).update(made)
    return files


def write_parts(folder, files):
    folder.mkdir(parents=True)
    for name, tensors in files.items():
        save_file(tensors, folder / f"{name}.safetensors")
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return write_text_files(write_checkpoint(tmp_path_factory.mktemp("fp8"), CONFIG, fp8=True))


def opened(base, overlay):
    return open_checkpoint(base, read_config(base), overlay)


def loaded(base, overlay):
    generation = read_generation(base, CONFIG)
    return load_weights(opened(base, overlay), generation, device="cpu")


@pytest.mark.parametrize("short", [False, True], ids=["canonical names", "own names"])
def test_parts_take_the_place_of_their_matrices_and_of_nothing_else(base, tmp_path, short):
    overlay = write_parts(tmp_path / "parts", parts(short=short))
    model, plain = loaded(base, overlay), loaded(base, None)
    canonical = {
        on_disk(name): one for tensors in parts().values() for name, one in tensors.items()
    }
    replaced = {name for name, spec in EXPECTED.items() if spec.part in FILES and spec.matrix}
    beneath = matrices_of(plain)
    for name, matrix in matrices_of(model).items():
        if name not in replaced:
            assert torch.equal(expanded(matrix), expanded(beneath[name]))
            continue
        tensors = dict(canonical)
        if name == "lm_head.weight":
            tensors["lm_head.weight_scale"] = tensors["lm_head.weight_scale"][:, None]
        assert torch.equal(expanded(matrix), meaning(tensors, name).bfloat16()), name
    assert torch.equal(model.weights.norm, plain.weights.norm)
    assert torch.equal(model.weights.embedding, plain.weights.embedding)


def test_every_part_says_its_format(base, tmp_path):
    overlay = write_parts(tmp_path / "parts", {"mlp": parts()["mlp"]})
    formats = opened(base, overlay).part_formats
    assert formats["mlp"] == {"nvfp4": 12}
    assert formats["attention"] == {"fp8_block": 4}


def test_a_folder_of_parts_opens_over_the_release_it_is_told_or_finds(base, tmp_path, monkeypatch):
    overlay = write_parts(tmp_path / "parts", parts())
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    settings = Settings(model=ModelSettings(dir=overlay, device="cpu", context_tokens=256))
    with pytest.raises(CheckpointError, match="laid over a release, and none is on this machine"):
        choose(settings, load_profiles())
    snapshots = tmp_path / "hub" / "models--Qwen--Qwen3.8-27B-FP8" / "snapshots"
    snapshots.mkdir(parents=True)
    (snapshots / "abc").symlink_to(base)
    found = choose(settings, load_profiles())
    assert (found.path, found.overlay) == (snapshots / "abc", overlay)
    told = replace(settings, model=replace(settings.model, base=base))
    chosen = choose(told, load_profiles())
    assert (chosen.path, chosen.overlay, chosen.profile.name) == (base, overlay, "nvfp4")
    engine = open_engine(chosen, told, None, threading.Event())
    try:
        assert engine.info.path == str(overlay)
        assert engine.info.model == "parts"
    finally:
        engine.close()


def test_a_base_without_a_config_is_refused(tmp_path):
    overlay = write_parts(tmp_path / "parts", parts())
    settings = Settings(model=ModelSettings(dir=overlay, base=tmp_path))
    with pytest.raises(CheckpointError, match="'model.base' is .* holds no config.json"):
        choose(settings, load_profiles())


CODES, E4M3 = torch.ones(96, 32, dtype=torch.uint8), torch.float8_e4m3fn

DAMAGES = {
    "a norm": (
        lambda f: f["mlp"].update({"layers.0.input_layernorm.weight": torch.ones(64).bfloat16()}),
        "'layers.0.input_layernorm.weight', which stores no matrix of this model"),
    "another model's layer": (
        lambda f: f["mlp"].update({"layers.4.mlp.gate_proj.weight": CODES}),
        "'layers.4.mlp.gate_proj.weight', which stores no matrix"),
    "a matrix in two files": (
        lambda f: f.update(more={f"{GATE}.weight": CODES}), "is a part of the same matrix"),
    "a matrix under both of its names": (
        lambda f: f["mlp"].update({"layers.0.gate_proj.weight": CODES}),
        "is a part of the same matrix"),
    "a name that stands for nothing": (
        lambda f: f["mlp"].update({"layers.0.proj.weight": CODES}),
        "'layers.0.proj.weight', which stores no matrix"),
    "bare names": (
        lambda f: f.update(head={"weight": torch.ones(320, 64).to(E4M3)}),
        "'weight', which stores no matrix"),
    "codes without scales": (
        lambda f: f["mlp"].pop(f"{GATE}.weight_scale"), "the nearest is modelopt NVFP4"),
    "another shape": (
        lambda f: f["mlp"].update({f"{GATE}.weight": CODES[:48]}), "which is no layout"),
    "a scale that is no number": (
        lambda f: f["mlp"].update({f"{GATE}.weight_scale_2": torch.tensor(float("nan"))}),
        "is not finite"),
    "nothing": (lambda f: [one.clear() for one in f.values()], "holds no part files"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_parts_that_do_not_fit_are_refused(base, tmp_path, damage: str):
    files, (break_them, said) = parts(), DAMAGES[damage]
    break_them(files)
    overlay = write_parts(tmp_path / "parts", files)
    with pytest.raises(CheckpointError) as refused:
        opened(base, overlay)
    assert said in str(refused.value)
    assert str(overlay) in str(refused.value)


def test_scales_a_row_may_be_a_vector_where_it_can_be_nothing_else(tmp_path):
    name = on_disk("layers.0.mlp.gate_proj")
    tensors = random_tensors(TINY)
    tensors[f"{name}.weight"] = torch.ones(96, 64).to(torch.float8_e4m3fn)
    tensors[f"{name}.weight_scale"] = torch.arange(96).float() + 1
    folder = write_checkpoint(tmp_path / "rows", tensors=tensors)
    model = load_weights(opened(folder, None), read_generation(folder, TINY), device="cpu")
    ones = torch.ones(1, 64).bfloat16()
    rows = linear_reference(ones, expanded(model.weights.layers[0].mlp.gate))
    assert rows[0, :8].tolist() == [64.0 * (row + 1) for row in range(8)]
