"""The 8-bit head."""

import torch

from engine.quantize.head import RATIOS, quantise_rows


def test_each_row_takes_the_scale_of_least_squared_error():
    weight = torch.randn((40, 2048), generator=torch.Generator().manual_seed(0)).bfloat16()
    found, share = quantise_rows(weight)
    wide = weight.double()
    largest = wide.abs().amax(1, keepdim=True)
    errors = []
    for ratio in RATIOS:
        scale = (largest * ratio / 448).float()
        codes = (weight.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        errors.append((codes.double() * scale.double() - wide).square().sum(1))
    least = torch.stack(errors).amin(0)
    values = found.codes.double() * found.scales.double()[:, None]
    assert torch.allclose((values - wide).square().sum(1), least, rtol=1e-5)
    assert abs(share - float(least.sum() / wide.square().sum())) < 1e-6
    assert len({int(torch.stack(errors)[:, row].argmin()) for row in range(40)}) > 1


def test_rows_of_zeros_have_a_positive_scale():
    found, share = quantise_rows(torch.zeros((3, 16)).bfloat16())
    assert (found.scales > 0).all()
    assert not found.expand().any()
    assert share == 0.0
