"""The end of a walk is the norm family's gated norm, point for point."""

import pytest
import torch

from kernels.common import exact_torch
from kernels.delta.gate import OutputGate, gate_reference
from kernels.delta.model import mean_square
from kernels.delta.rounds import Layer, Sizes, Tokens, draw_gate
from kernels.norm import gated_rms_norm
from kernels.norm.reference import gated_rms_norm_reference, mean_square_of_kernel

SIZES = Sizes(1, 3, 32, 128)


def drawn(num_rows: int, dtype: torch.dtype) -> tuple[torch.Tensor, OutputGate]:
    generator = torch.Generator().manual_seed(num_rows)
    out = torch.randn((num_rows, 3, 128), generator=generator).bfloat16()
    gate = draw_gate(num_rows, SIZES, "cpu", generator)
    return out, OutputGate(gate.z, gate.weight.to(dtype), gate.eps)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_kernels_order_is_that_of_the_gated_norm(dtype):
    out, gate = drawn(40, dtype)
    got = gate_reference(out, gate, mean_square, exact_torch.silu)
    want = gated_rms_norm_reference(
        out, gate.z, gate.weight, gate.eps, mean_square_of_kernel, exact_torch.silu
    )
    assert torch.equal(got, want)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_on_a_cpu_a_gated_walk_is_a_walk_and_the_gated_norm(dtype):
    _, gate = drawn(3, dtype)
    tokens = Tokens.draw(3, SIZES, "cpu", torch.Generator().manual_seed(5))
    layer = Layer(SIZES, "cpu")
    layer.write(tokens)
    apart = layer.copy()
    got = layer.walk(tokens, gate=gate)
    want = gated_rms_norm(apart.walk(tokens), gate.z, gate.weight, gate.eps)
    assert torch.equal(got, want)
    assert torch.equal(layer.records.u, apart.records.u)


def test_another_order_has_other_bits():
    """If all orders had the same bits, a comparison with the model would say nothing."""
    out, _ = drawn(400, torch.bfloat16)
    wide = out.float()
    assert not torch.equal(mean_square(wide), wide.square().mean(-1, keepdim=True))
