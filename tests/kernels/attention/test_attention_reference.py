"""Attention and rotation against their definitions, and what a row may see."""

import pytest
import torch

from kernels.attention.reference import attention_reference, gate_reference, rotate_reference
from kernels.common.compare import different_bits


def inputs(T: int, S: int, H: int, G: int, D: int):
    generator = torch.Generator().manual_seed(S)
    draw = lambda *shape: torch.randn(shape, generator=generator).bfloat16()
    return draw(T, H, D), draw(G, S, D), draw(G, S, D)


@pytest.mark.parametrize(
    ("T", "S", "H", "G", "D"),
    [
        (1, 1, 6, 2, 32),
        (1, 100, 6, 1, 64),
        (7, 7, 3, 3, 40),
        (5, 63, 4, 2, 256),
        (64, 150, 6, 1, 32),
    ],
)
def test_attention_is_its_definition_within_rounding(T, S, H, G, D):
    q, k, v = inputs(T, S, H, G, D)
    got = attention_reference(q, k, v)
    share = H // G
    for h in range(H):
        scores = q[:, h].double() @ k[h // share].double().t() * D**-0.5
        later = torch.arange(S)[None] > torch.arange(S - T, S)[:, None]
        weights = scores.masked_fill(later, -torch.inf).softmax(-1)
        want = weights @ v[h // share].double()
        # scores, weights and sum are each rounded to bf16: 2^-8 of scores up to 4 is 0.016
        torch.testing.assert_close(got[:, h].double(), want, rtol=0.03, atol=0.03)


def test_rows_of_a_call_are_those_of_calls_that_end_at_them():
    q, k, v = inputs(5, 70, 6, 2, 32)
    together = attention_reference(q, k, v)
    for row in range(5):
        end = 66 + row
        alone = attention_reference(q[row : row + 1], k[:, :end], v[:, :end])
        torch.testing.assert_close(together[row : row + 1], alone, rtol=2**-6, atol=2**-6)


def test_what_lies_beyond_a_row_changes_nothing():
    q, k, v = inputs(5, 70, 6, 2, 32)
    before = attention_reference(q, k, v)
    k[:, 68:], v[:, 68:] = 9.0, -9.0
    after = attention_reference(q, k, v)
    assert different_bits(after[:3], before[:3], "THD") is None
    assert not torch.equal(after[3:], before[3:])


def test_rotation_pairs_halves_and_leaves_the_rest():
    x = torch.tensor([[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]]).bfloat16()
    cos = torch.zeros(1, 4, dtype=torch.bfloat16)
    sin = torch.ones(1, 4, dtype=torch.bfloat16)
    assert rotate_reference(x, cos, sin).tolist() == [[[-3.0, -4.0, 1.0, 2.0, 5.0, 6.0]]]


def test_a_rotation_by_nothing_is_the_input():
    x = inputs(3, 1, 4, 1, 64)[0]
    cos, sin = torch.ones(3, 16).bfloat16(), torch.zeros(3, 16).bfloat16()
    assert different_bits(rotate_reference(x, cos, sin), x, "THD") is None


def test_the_gate_is_a_rounded_sigmoid():
    x, gate = torch.tensor([3.0]).bfloat16(), torch.tensor([0.7]).bfloat16()
    assert gate_reference(x, gate) == x * torch.sigmoid(gate.float()).bfloat16()
