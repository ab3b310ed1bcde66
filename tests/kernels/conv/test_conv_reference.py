"""The convolution against torch's own, cut anywhere, and at the start of a text."""

import pytest
import torch
from torch.nn import functional

from kernels.common.compare import different_bits
from kernels.conv.reference import conv_reference, next_tail_reference


def inputs(num_rows: int, channels: int, width: int = 4):
    generator = torch.Generator().manual_seed(num_rows)
    x = torch.randn((num_rows, channels), generator=generator).bfloat16()
    weight = torch.randn((channels, width), generator=generator).bfloat16()
    return x, torch.zeros((width - 1, channels), dtype=torch.bfloat16), weight


@pytest.mark.parametrize(
    ("num_rows", "channels", "width"), [(1, 8, 4), (3, 640, 4), (150, 641, 4), (1500, 96, 2)]
)
def test_bits_are_those_of_torchs_convolution(num_rows: int, channels: int, width: int):
    x, tail, weight = inputs(num_rows, channels, width)
    want = functional.conv1d(
        x.t()[None], weight[:, None], padding=width - 1, groups=channels
    )[0, :, :num_rows].t()  # fmt: skip
    assert different_bits(conv_reference(x, tail, weight), functional.silu(want), "TD") is None


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 64, 99])
def test_a_call_cut_anywhere_has_the_bits_of_the_whole(cut: int):
    x, tail, weight = inputs(100, 40)
    whole = conv_reference(x, tail, weight)
    parts = []
    for piece in (x[:cut], x[cut:]):
        parts.append(conv_reference(piece, tail, weight))
        tail = next_tail_reference(piece, tail)
    assert different_bits(torch.cat(parts), whole, "TD") is None
    assert torch.equal(tail, x[-3:])


def test_the_last_tap_multiplies_the_current_token():
    x = torch.tensor([[2.0], [0.0]]).bfloat16()
    weight = torch.tensor([[0.0, 0.0, 3.0, 1.0]]).bfloat16()
    got = conv_reference(x, torch.zeros((3, 1), dtype=torch.bfloat16), weight)
    want = functional.silu(torch.tensor([[2.0], [6.0]]).bfloat16())
    assert torch.equal(got, want)
