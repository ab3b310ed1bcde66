"""Scales of keys and values in 8 bits come with the checkpoint, or from a calibration at load."""

from dataclasses import replace

import pytest
import torch

from engine.errors import CheckpointError
from engine.model.checkpoint import open_checkpoint
from engine.model.config import SHAPE_DEMO, hybrid_layers
from engine.model.config_file import read_config
from engine.model.kv_scales import calibrate, kv_arithmetic, stored_scales
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.profile import load_profiles
from kernels.attention.kv_codes import E4M3, KvScales
from kernels.common.e4m3 import E4M3_MAX
from tests.engine.model.checkpoints import write_checkpoint
from tests.engine.model.layouts import layout_tensors, on_disk

SMALL = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(8), num_mtp_layers=0)
IDS = [7 * one % 300 for one in range(150)]


def drawn(kind: str = "bf16"):
    packer = Packer(Launching((9, 0))) if kind == "fp8" else None
    return random_model(SMALL, load_profiles()[kind].formats, device="cpu", packer=packer)


@pytest.fixture(scope="module")
def model():
    return drawn()


@pytest.fixture(scope="module")
def scales(model):
    return calibrate(model, [IDS[:90], IDS[90:]])


def checkpoint_with(folder, **kv_scales: float):
    tensors = layout_tensors("modelopt")
    for name, value in kv_scales.items():
        layer = f"layers.3.self_attn.{name[0]}_proj.{name}"
        tensors[on_disk(layer)] = torch.tensor(value)
    path = write_checkpoint(folder / "m", tensors=tensors)
    return open_checkpoint(path, read_config(path))


def test_stored_scales_are_rounded_up_to_a_power_of_two_for_all_heads(tmp_path):
    found = stored_scales(checkpoint_with(tmp_path, k_scale=0.03, v_scale=0.25))
    assert found is not None
    heads = found.keys.shape[1]
    assert found.keys.tolist() == [[2.0**-5] * heads]
    assert found.values.tolist() == [[0.25] * heads]


def test_one_scale_alone_is_none(tmp_path):
    assert stored_scales(checkpoint_with(tmp_path, k_scale=0.03)) is None


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_is_none_is_refused_in_a_sentence(tmp_path, value):
    with pytest.raises(CheckpointError, match=r"k_scale' of keys or values is .*model\.kv to bf16"):
        stored_scales(checkpoint_with(tmp_path, k_scale=value, v_scale=1.0))


def test_calibration_leaves_headroom_above_the_largest_that_was_read(model, scales):
    state = model.new_state(len(IDS))
    for part in (IDS[:90], IDS[90:]):
        state.clear()
        model.prefill(part, state)
    largest = state.kv.values[:, :, : len(IDS) - 90].float().abs().amax((2, 3))
    assert bool((largest * 2 <= E4M3_MAX * scales.values).all())
    for one in (scales.keys, scales.values):
        assert one.shape == (2, SMALL.num_kv_heads)
        assert torch.equal(one.log2(), one.log2().round())
        assert bool((one > 2.0**-12).all() and (one < 2.0**4).all())


def test_calibration_repeats_and_its_name_tells_scales_apart(model, scales):
    again = calibrate(model, [IDS[:90], IDS[90:]])
    assert torch.equal(again.keys, scales.keys)
    assert torch.equal(again.values, scales.values)
    assert kv_arithmetic(again) == kv_arithmetic(scales)
    other = KvScales(scales.keys * 2, scales.values)
    assert kv_arithmetic(other) != kv_arithmetic(scales)
    assert kv_arithmetic(None) == ""


def test_a_text_without_tokens_gives_scales_of_one(model):
    found = calibrate(model, [])
    assert set(found.keys.flatten().tolist()) == {1.0}


@pytest.mark.parametrize("kind", ["bf16", "fp8"], ids=["reference", "kernels"])
def test_a_model_reads_and_decodes_with_codes_about_as_without(kind):
    one = drawn(kind)
    wanted = outputs_of(one)
    one.kv_scales = calibrate(one, [IDS])
    assert one.kv_format == "fp8"
    assert one.new_state(64).kv.keys.dtype == E4M3
    got = outputs_of(one)
    assert not torch.equal(got, wanted)
    error = (got - wanted).norm() / wanted.norm()
    assert error < 0.05


def outputs_of(model) -> torch.Tensor:
    state = model.new_state(256)
    hidden = [model.prefill(IDS[:100], state), *(model.step(one, state) for one in IDS[100:110])]
    return torch.cat(hidden).float()


def test_stores_of_two_formats_at_one_place_are_told_apart():
    model = drawn("fp8")
    plain = model.new_state(64)
    model.kv_scales = calibrate(model, [IDS])
    coded = model.new_state(64)
    for name in ("keys", "values"):
        bits = getattr(plain.kv, name).view(torch.uint8).flatten()
        half = bits[: bits.numel() // 2].view(getattr(coded.kv, name).shape).view(E4M3)
        setattr(coded.kv, name, half)
    assert coded.kv.keys.data_ptr() == plain.kv.keys.data_ptr()
    assert coded.kv.addresses != plain.kv.addresses
