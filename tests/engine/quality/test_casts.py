"""Casts to e4m3 are counted with what did not fit; the served path has none without a scale."""

import pytest
import torch

from engine.quality.casts import CountedCasts
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
