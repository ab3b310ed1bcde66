"""The plain walk is the reference's single step, token by token, and obeys the laws."""

import pytest
import torch

from kernels.common.compare import different_bits
from kernels.common.tree import plan_chain
from kernels.delta.laws import LAWS
from kernels.delta.reference import delta_step_reference, unit_length
from kernels.delta.rounds import Layer, Sizes, Tokens

SIZES = Sizes(2, 6, 32, 16)


def test_a_chain_has_the_bits_of_the_references_steps():
    generator = torch.Generator().manual_seed(1)
    state = torch.randn(6, 32, 16, generator=generator)
    layer = Layer(SIZES, "cpu")
    layer.state.copy_(state)
    raw_q, raw_k = (torch.randn(9, 2, 32, generator=generator).bfloat16() for _ in range(2))
    v = torch.randn(9, 6, 16, generator=generator).bfloat16()
    beta = torch.rand(9, 6, generator=generator).bfloat16()
    g = -torch.rand(9, 6, generator=generator)
    q, k = unit_length(raw_q.float()) / 32**0.5, unit_length(raw_k.float())
    out = layer.verify(Tokens(q, k, v, beta.float(), g.exp()), plan_chain(9))
    for row in range(9):
        step = (x[row] for x in (raw_q, raw_k, v, g, beta))
        want = delta_step_reference(*step, state)
        assert not different_bits(out[row], want, "HE")
    layer.accept(tuple(range(9)))
    assert not different_bits(layer.fold()[0], state, "HDE")


@pytest.mark.parametrize(
    "law", [law for law in LAWS if not law.cuda_only], ids=lambda law: law.name
)
def test_law(law):
    assert law.broken("cpu") is None


def test_rows_beyond_the_call_and_the_other_half_are_left_alone():
    layer, generator = Layer(SIZES, "cpu"), torch.Generator().manual_seed(2)
    layer.records.u.fill_(7.0)
    layer.verify(Tokens.draw(5, SIZES, "cpu", generator), plan_chain(5))
    written = layer.records.u[0] != 7.0
    assert bool(written[0, :5].all())
    assert not bool(written[0, 5:].any())
    assert not bool(written[1].any())
