"""Prompts by FP8 operands: where the person says so, for long chunks, and never in a round."""

from dataclasses import replace

import pytest
import torch

from engine.model.config import SHAPE_27B, SHAPE_DEMO, hybrid_layers
from engine.model.footprint import workspace_bytes
from engine.model.matrix import product
from engine.model.packed import crossovers_of, fp8_rows_from, way_of
from engine.model.packing import Launching, Packer
from engine.model.random import draw_tensor, random_model
from engine.model.serving_memory import passing_bytes
from engine.model.tensors import TensorSpec
from engine.profile import load_profiles
from kernels.common.compare import different_bits
from kernels.linear.prefill_fp8 import fp8_prefill_linear
from kernels.linear.weight import num_outputs, padded_inputs

SM_90, SM_121 = (9, 0), (12, 1)
FORMATS = ("nvfp4", "fp8_block", "e4m3_row")
DOWN = "layers.0.mlp.down_proj.weight"
SMALL = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(4), num_mtp_layers=0)


def packer(*, fp8: bool = True, capability=SM_90) -> Packer:
    return Packer(Launching(capability, graphs=False, fp8_prefill=fp8))


def packed(stored: str, *, fp8: bool = True):
    spec = TensorSpec((96, 256), "mlp", matrix=True)
    generator = torch.Generator().manual_seed(0)
    one = packer(fp8=fp8)
    one.add(DOWN, draw_tensor(DOWN, spec, stored, SMALL, generator))
    return one.packed()[DOWN]


def rows(number: int) -> torch.Tensor:
    return torch.randn(number, 256, generator=torch.Generator().manual_seed(1)).bfloat16()


@pytest.mark.parametrize("capability", [SM_90, (10, 0), (12, 0), SM_121])
@pytest.mark.parametrize("stored", FORMATS)
def test_a_round_never_takes_them(capability, stored):
    first = fp8_rows_from(capability, stored)
    assert first is not None
    kernels = {way_of(n, crossovers_of(capability), first).kernel for n in range(1, 33)}
    assert kernels == {"skinny"}


@pytest.mark.parametrize("stored", FORMATS)
def test_long_chunks_take_them_and_say_why(stored):
    first = fp8_rows_from(SM_90, stored)
    at = crossovers_of(SM_90)
    assert way_of(first - 1, at, first).kernel == way_of(first - 1, at).kernel != "fp8"
    way = way_of(first, at, first)
    assert way.kernel == "fp8"
    assert f"{first} rows are {first} or more" in way.reason
    assert "as set" in way.reason


def test_bf16_weights_have_nothing_to_gain():
    assert fp8_rows_from(SM_90, "bf16") is None
    held, plain = (packed("bf16", fp8=fp8) for fp8 in (True, False))
    x = rows(600)
    assert different_bits(product(x, held), product(x, plain), "TN") is None


@pytest.mark.parametrize("stored", FORMATS)
def test_a_product_goes_the_way_that_is_told(stored):
    held, plain = (packed(stored, fp8=fp8) for fp8 in (True, False))
    first = fp8_rows_from(SM_90, stored)
    x = rows(first)
    got = product(x, held)
    assert different_bits(got, fp8_prefill_linear(x, held.weight), "TN") is None
    assert different_bits(product(x[:-1], held), product(x[:-1], plain), "TN") is None
    wanted = product(x, plain).float()
    assert 0.005 < (got.float() - wanted).norm() / wanted.norm() < 0.06


def test_a_4_bit_weight_is_rounded_where_others_are_widened():
    held = packed("nvfp4")
    assert 2 * held.workspace.num_elements >= num_outputs(held.weight) * padded_inputs(held.weight)
    product(rows(600), held)
    buffer = held.workspace.buffer(torch.device("cpu"))
    assert buffer.view(torch.float8_e4m3fn)[: 96 * 256].float().abs().max() > 100
    before = held.workspace.num_elements
    assert before == packed("nvfp4", fp8=False).workspace.num_elements


def test_the_memory_plan_has_room_for_what_they_need():
    """Codes of rows and weights take the place of fp32 sums and of widened weights."""
    for config in (SHAPE_27B, SHAPE_DEMO):
        plan = passing_bytes(config, 4096, packed=True)
        assert plan["widening"] == workspace_bytes(config)
        widest = max(config.intermediate_size, config.hidden_size, config.value_dim)
        of_rows = 1024 * (widest + widest // 32)
        sums = 1024 * 4 * 2 * config.intermediate_size
        assert of_rows <= sums < plan["prefill"] // 2


def test_another_arithmetic_has_another_name():
    found = {}
    for fp8 in (False, True):
        for formats in ("nvfp4", "fp8"):
            one = packer(fp8=fp8)
            random_model(SMALL, load_profiles()[formats].formats, device="cpu", packer=one)
            found[fp8, formats] = one.arithmetic
    assert found[False, "nvfp4"] == found[False, "fp8"], "formats add in one order"
    assert len(set(found.values())) == 3, "the option's rows depend on the format"
    assert found[False, "nvfp4"].startswith("linear-2:")
    assert found[True, "nvfp4"].startswith("linear-2+fp8-prefill-1:")


@pytest.fixture(scope="module")
def models():
    formats = load_profiles()["nvfp4"].formats
    return [
        random_model(SMALL, formats, device="cpu", packer=packer(fp8=fp8)) for fp8 in (True, False)
    ]


def read(model, num_tokens: int) -> torch.Tensor:
    return model.prefill([token % 97 for token in range(num_tokens)], model.new_state(600))


def test_a_long_prompt_is_read_otherwise_and_every_time_alike(models):
    fp8, plain = (read(model, 400).float() for model in models)
    assert different_bits(fp8, read(models[0], 400).float(), "TD") is None
    assert 0 < (fp8 - plain).norm() / plain.norm() < 0.2


def test_short_chunks_and_decoded_tokens_keep_their_bits(models):
    hidden = []
    for model in models:
        state = model.new_state(256)
        short = model.prefill(range(200), state)
        hidden.append(torch.cat([short, model.step(5, state), model.decode(range(9), state)]))
    assert different_bits(hidden[0], hidden[1], "TD") is None
