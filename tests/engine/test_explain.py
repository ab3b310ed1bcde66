"""The explanation names every operation as often as it runs, and joins matrices as loading does."""

from dataclasses import replace

import pytest
import torch

from engine.compute_path import ComputePath
from engine.dispatch import DeviceFacts
from engine.errors import CheckpointError, RequestError
from engine.explain import Here, decisions, explain, explain_here
from engine.explained_model import Subject, joins, subject_of_checkpoint, subject_of_shape
from engine.model.config import SHAPE_DEMO
from engine.model.matrix import Fp8Block, Nvfp4
from engine.model.packed import Member, Packed
from engine.model.packing import Launching, can_fuse, pack
from engine.model.random import random_model
from engine.model.tensors import TensorSpec
from engine.profile import load_profiles
from engine.settings.declared import KernelSettings, ModelSettings, Settings
from engine.settings.load import load_settings
from engine.tune.tiles import shipped_table
from kernels.linear.weight import num_outputs
from tests.engine.model.layouts import write_layout

PROFILES = load_profiles()
AUTO = KernelSettings()


def on(capability):
    facts = DeviceFacts("cuda", capability) if capability else DeviceFacts("cpu")
    return Here(facts, AUTO, shipped_table("linear", capability) if capability else ())


def told(shape, profile, here, phase):
    found = explain(subject_of_shape(shape, PROFILES[profile]), here)
    return {one.operation: one for one in found if one.phase == phase}


def test_a_round_of_the_27b_launches_what_was_counted_on_an_h200():
    found = told("27b", "fp8", on((9, 0)), "round").values()
    times = {}
    for one in found:
        times[one.kernel] = times.get(one.kernel, 0) + one.times
    assert times["skinny_linear"] == 257
    assert (times["add_rms_norm"], times["silu_mul"]) == (128, 64)
    assert (times["delta_walk"], times["conv_gates"]) == (2 * 48, 2 * 48)  # two in a launch each
    assert times["mixer_rows"] == 4 * 48  # four in one, of 1 to 3 rows
    assert "gated_rms_norm" not in times
    assert (times["attention_verify"], times["attention_prep"]) == (16, 16)


def test_keys_in_8_bits_are_widened_for_the_library_and_other_keys_are_not():
    settings = Settings(model=ModelSettings(kv="fp8"))
    for asked, wanted in ((settings, True), (None, False)):
        found = explain(subject_of_shape("27b", PROFILES["fp8"], asked), on((9, 0)))
        widened = [one for one in found if one.kernel == "attention_widen"]
        assert [(one.phase, one.times) for one in widened] == [("chunk", 16)] * wanted


def test_plain_gates_are_multiplied_where_they_are_used_and_others_apart():
    plain = subject_of_shape("27b", PROFILES["fp8"])
    coded = replace(plain, stored=lambda *_: "nvfp4")
    kernels = {
        one.operation: one.kernel
        for subject in (plain, coded)
        for one in explain(subject, on((9, 0)))
        if one.phase == "round" and one.operation.startswith("a | b")
    }
    assert kernels == {
        "a | b (bf16), 96 x 5,120, 1 to 3 rows": "mixer_rows",
        "a | b (bf16), 96 x 5,120, 4 to 32 rows": "conv_gates",
        "a | b (nvfp4), 96 x 5,120": "skinny_linear",
    }


def test_a_layer_whose_gates_are_coded_has_two_launches_for_any_rows():
    coded = replace(subject_of_shape("27b", PROFILES["fp8"]), stored=lambda *_: "nvfp4")
    found = {one.operation: one.kernel for one in explain(coded, on((9, 0)))}
    assert found["convolve a round"] == "conv_gates"
    assert found["delta rule of a round"] == "delta_walk"


def test_products_are_named_with_size_format_and_why():
    found = told("27b", "nvfp4", on((12, 1)), "round")
    one = found["gate | up (nvfp4), 34,816 x 5,120"]
    assert (one.times, one.kernel, one.build) == (64, "skinny_linear", "CUDA C++")
    assert "the weight is read once" in one.reason
    assert "converter" in one.reason
    assert "tile" in one.reason
    assert found["q | k | v (nvfp4), 14,336 x 5,120"].times == 16
    assert [one for one in found if one.startswith("head (")]
    portable = told("27b", "nvfp4", on((9, 0)), "round")["gate | up (nvfp4), 34,816 x 5,120"]
    assert "portable" in portable.reason


def test_a_round_of_few_rows_norms_where_it_convolves():
    found = told("27b", "nvfp4", on((9, 0)), "round")
    assert found["gated norm of a round, 1 to 3 rows"].kernel == "mixer_rows"
    assert found["gated norm of a round, 4 to 32 rows"].kernel == "delta_walk"


def test_gate_and_up_of_few_rows_end_in_one_output_layer_by_layer():
    found = told("27b", "nvfp4", on((12, 1)), "round")
    assert found["silu x up, 1 to 16 rows"].kernel == "skinny_linear"
    assert found["silu x up, 17 to 32 rows"].kernel == "silu_mul"
    assert told("27b", "nvfp4", on((9, 0)), "round")["silu x up"].kernel == "skinny_linear"
    coded = subject_of_shape("27b", PROFILES["nvfp4"])

    def mixed(name, spec):
        return "fp8_block" if ".3.mlp." in name else coded.stored(name, spec)

    found = {one.operation: one for one in explain(replace(coded, stored=mixed), on((9, 0)))}
    assert found["silu x up (nvfp4)"].times == 63
    assert found["silu x up (fp8_block)"].times == 1


def test_a_chunk_has_a_kernel_for_each_number_of_rows_it_may_have():
    found = told("27b", "fp8", on((9, 0)), "chunk")
    assert found["out (fp8_block), 5,120 x 6,144, 64 to 512 rows"].kernel == "middle_linear"
    assert found["out (fp8_block), 5,120 x 6,144, 768 to 1024 rows"].kernel == "expanded_linear"
    assert found["delta rule of a chunk"].kernel == "delta_prefill"


def test_fp8_operands_of_a_chunk_are_told_by_format():
    here = on((9, 0))
    found = told("27b", "nvfp4", replace(here, kernels=KernelSettings(prefill="fp8")), "chunk")
    ranges = {name: one for name, one in found.items() if name.startswith("down (nvfp4)")}
    last = ranges[list(ranges)[-1]]
    assert last.kernel == "fp8_prefill_linear"
    assert last.operation.endswith("to 1024 rows")
    assert found["a | b (bf16), 96 x 5,120, 768 to 1024 rows"].kernel == "expanded_linear"
    assert decisions(here)["prefill"].kernel == "bf16"


def test_on_a_cpu_nothing_is_joined_and_all_is_bf16():
    here = on(None)
    found = told("demo", "fp8", here, "round")
    assert found["gate (bf16), 768 x 256"].kernel == "linear_reference"
    assert not any("|" in name or "fp8" in name for name in found)
    assert {one.build for one in found.values()} == {"torch"}
    assert decisions(here)["path"].kernel == "reference"


def test_what_a_round_leaves_to_be_done_is_told():
    found = told("27b", "fp8", on((12, 1)), "between")
    assert {name: one.kernel for name, one in found.items()} == {
        "fold states": "delta_fold", "fold tails": "conv_fold",
        "close gaps of a tree": "attention_compact",
    }  # fmt: skip
    assert {one.kernel for one in told("demo", "fp8", on(None), "between").values()} == {"none"}


def test_a_default_tile_is_told():
    bare = Here(DeviceFacts("cuda", (9, 0)), AUTO)
    found = told("27b", "fp8", bare, "round")
    assert "default tile" in found["down (fp8_block), 5,120 x 17,408"].reason


def fp8(num_rows):
    codes = torch.zeros((num_rows, 256), dtype=torch.float8_e4m3fn)
    return Fp8Block(codes, torch.ones((-(-num_rows // 128), 2), dtype=torch.bfloat16))


def nvfp4(num_rows):
    codes = torch.zeros((num_rows, 128), dtype=torch.uint8)
    scales = torch.ones((num_rows, 16)).to(torch.float8_e4m3fn)
    return Nvfp4(codes, scales, torch.tensor(1.0))


def plain(num_rows):
    return torch.zeros((num_rows, 256), dtype=torch.bfloat16)


@pytest.mark.parametrize("sizes", [(128, 128), (48, 48), (3, 3), (16, 200), (200, 16)])
@pytest.mark.parametrize("kinds", ["fp8_block", "nvfp4", "bf16", "mixed"])
def test_it_joins_what_loading_joins(sizes, kinds):
    makers = {"fp8_block": fp8, "nvfp4": nvfp4, "bf16": plain}
    formats = ("fp8_block", "nvfp4") if kinds == "mixed" else (kinds, kinds)
    weights = [pack(makers[one](n), spread=False) for one, n in zip(formats, sizes, strict=True)]
    specs = {
        name: TensorSpec((n, 256), "mlp", matrix=True) for name, n in zip("ab", sizes, strict=True)
    }
    stored = dict(zip("ab", formats, strict=True))
    joined = joins(("a", "b"), specs, lambda name, _: stored[name])
    assert joined is can_fuse(weights)


@pytest.mark.parametrize("profile", ["fp8", "nvfp4"])
def test_the_matrices_are_those_of_a_packed_model(profile):
    """Every packed matrix of a drawn model, by size, is one that is explained."""
    formats = PROFILES[profile].formats
    packer = ComputePath(Launching((9, 0))).new_packer()
    model = random_model(SHAPE_DEMO, formats, device="cpu", packer=packer)
    sizes = set()
    for layer in model.weights.layers:
        for part in (layer.mixer, layer.mlp):
            for name in part.__dataclass_fields__:
                one = getattr(part, name)
                whole = one.whole if isinstance(one, Member) else one
                if isinstance(whole, Packed):
                    sizes.add((num_outputs(whole.weight), whole.weight.K))
    found = told("demo", profile, on((9, 0)), "round").values()
    said = set()
    for one in found:
        if "), " in one.operation and not one.operation.startswith("head"):
            size = one.operation.split(", ")[1]
            n, k = size.replace(",", "").split(" x ")
            said.add((int(n), int(k)))
    assert said == sizes


def test_the_model_at_hand_is_explained_in_the_formats_of_its_files(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    settings, _ = load_settings()
    subject, here, found = explain_here(settings)
    assert isinstance(subject, Subject)
    assert "demo" in subject.title
    assert here.facts.device == "cpu"
    assert found


def test_a_mixed_checkpoint_is_explained_matrix_by_matrix(tmp_path):
    subject = subject_of_checkpoint(write_layout(tmp_path / "mine", "compressed"))
    found = {one.operation: one.times for one in explain(subject, on((9, 0)))}
    assert found["gate | up (nvfp4), 192 x 64"] == 3
    assert found["gate | up (e4m3_row), 192 x 64"] == 1
    assert found["q | k | v (e4m3_row), 384 x 64"] == 1
    assert found["head (e4m3_row), 160 x 64"] == 1


def test_a_profile_without_files_is_explained_at_the_27bs_shape(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    settings, _ = load_settings({"model.profile": "nvfp4"})
    assert "shape 27b in the formats of 'nvfp4'" in explain_here(settings)[0].title
    settings, _ = load_settings({"model.dir": tmp_path / "none"})
    with pytest.raises(CheckpointError):
        explain_here(settings)
    with pytest.raises(RequestError, match="Did you mean '27b'"):
        explain_here(settings, "28b")
