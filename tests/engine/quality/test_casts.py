"""Casts to e4m3 are counted with what did not fit; the served path has none without a scale."""

import pytest
import torch

from engine.model.config import SHAPE_DEMO
from engine.model.state import State
from engine.quality.casts import CountedCasts, KeptCodes
from kernels.attention.kv_codes import KvScales, to_codes
from kernels.linear.pack import pack_fp8_block
from kernels.linear.prefill_fp8 import fp8_prefill_linear

E4M3 = torch.float8_e4m3fn
VALUES = torch.tensor([1.0, 500.0, float("nan"), -448.0, -1e9])


@pytest.mark.parametrize("inference", [True, False])
def test_values_that_do_not_fit_are_counted(inference: bool):
    with torch.inference_mode(inference), CountedCasts() as counted:
        VALUES.to(E4M3)
        torch.empty(5, dtype=E4M3).copy_(VALUES)
    assert (counted.num_casts, counted.num_saturated) == (2, 6)


def test_moving_widening_and_looking_at_bytes_is_no_cast():
    codes = torch.ones(4).to(E4M3)
    with CountedCasts() as counted:
        codes.clone().float()
        codes.view(torch.uint8).view(E4M3)
        torch.ones(4).bfloat16()
    assert counted.num_casts == 0


def test_a_cast_behind_its_scale_saturates_nowhere():
    weight = pack_fp8_block(torch.ones(128, 128).to(E4M3), torch.ones(1, 1).bfloat16())
    x = (torch.randn(16, 128, generator=torch.Generator().manual_seed(0)) * 1e5).bfloat16()
    with CountedCasts() as counted:
        fp8_prefill_linear(x, weight)
    assert counted.num_casts > 0
    assert counted.num_saturated == 0


@pytest.mark.parametrize("inference", [True, False])
def test_what_is_cut_before_its_cast_did_not_fit(inference: bool):
    x = torch.tensor([1.0, 224.0, 460.0, -1024.0, float("inf")]).bfloat16()
    with torch.inference_mode(inference), CountedCasts() as counted:
        to_codes(x, torch.tensor(1.0))
        x.clamp(-3.0, 3.0).clamp(max=2.0)  # not before a cast
    assert counted.num_casts == 1
    # 1024 and what is not finite at the cut; the cast itself sees the latter's NaN
    assert counted.num_saturated == 3


def test_codes_that_are_kept_are_looked_at_as_far_as_the_conversation_goes():
    ones = torch.ones(SHAPE_DEMO.num_attention_layers, SHAPE_DEMO.num_kv_heads)
    state = State(SHAPE_DEMO, 8, torch.device("cpu"), KvScales(ones, ones))
    values = torch.ones(state.kv.keys.shape).bfloat16()
    values[0, 0, :, 0] = 1e4
    values[0, 0, :, 1] = -1e4
    state.kv.keys.copy_(to_codes(values, torch.tensor(1.0)))
    state.kv.values.copy_(to_codes(torch.ones_like(values), torch.tensor(1.0)))
    state.length = 3
    kept = KeptCodes()
    kept.look_at(state)
    per_token = 2 * SHAPE_DEMO.num_attention_layers * SHAPE_DEMO.kv_dim
    assert (kept.num_codes, kept.num_last) == (3 * per_token, 2 * 3)
