"""Prefill attention: against its definition in fp64, its rules, its refusals."""

import pytest
import torch
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right

from kernels.attention.prefill import attention_prefill

SIZES = [(1, 1, 2, 1, 16), (1, 37, 6, 1, 32), (20, 20, 6, 2, 32), (17, 90, 4, 4, 16)]


def inputs(T: int, S: int, H: int, G: int, D: int):
    generator = torch.Generator().manual_seed(T * S)
    draw = lambda *shape: torch.randn(shape, generator=generator).bfloat16()
    return draw(T, H, D), draw(G, S, D), draw(G, S, D)


def truth(q, keys, values):
    """The definition, row by row and head by head, in fp64."""
    (T, H, D), (G, S, _) = q.shape, keys.shape
    out = torch.empty(T, H, D, dtype=torch.float64)
    for t in range(T):
        for h in range(H):
            upto, group = S - T + t + 1, h // (H // G)
            scores = keys[group, :upto].double() @ q[t, h].double() / D**0.5
            out[t, h] = scores.softmax(0) @ values[group, :upto].double()
    return out


def library(q, keys, values):
    """What a GPU runs, on the library's CPU kernel."""
    rule = causal_lower_right(q.shape[0], keys.shape[1])
    mixed = functional.scaled_dot_product_attention(
        q.transpose(0, 1)[None], keys[None], values[None], attn_mask=rule, enable_gqa=True
    )
    return mixed[0].transpose(0, 1)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("form", [attention_prefill, library])
def test_it_is_the_definition_within_rounding(sizes, form):
    rows = inputs(*sizes)
    # scores of order 1 and weights below 1, each rounded to bf16 (2^-9), then the output
    torch.testing.assert_close(form(*rows).double(), truth(*rows), rtol=2**-6, atol=2**-6)


@pytest.mark.parametrize("form", [attention_prefill, library])
def test_a_row_sees_nothing_after_itself(form):
    q, keys, values = inputs(8, 30, 6, 2, 32)
    before = form(q, keys, values).clone()
    keys[:, -3:], values[:, -3:] = 100.0, -100.0
    after = form(q, keys, values)
    assert torch.equal(before[:5], after[:5])
    assert not torch.equal(before[5:], after[5:])


def test_it_writes_into_a_given_output_and_reads_a_part_of_a_store():
    q, keys, values = inputs(5, 12, 4, 2, 16)
    store = torch.full((2, 40, 16), torch.nan).bfloat16()
    store[:, :12] = keys
    out = torch.full_like(q, torch.nan)
    assert attention_prefill(q, store[:, :12], values, out=out) is out
    assert torch.equal(out, attention_prefill(q, keys, values))


def test_refusals_say_what_to_do():
    q, keys, values = inputs(5, 12, 4, 2, 16)
    with pytest.raises(ValueError, match=r"S = 3 positions; append the rows' keys"):
        attention_prefill(q, keys[:, :3], values[:, :3])
    with pytest.raises(ValueError, match=r"H = 3 query heads cannot share G = 2"):
        attention_prefill(q[:, :3], keys, values)
    with pytest.raises(TypeError, match=r"keys must be bfloat16 \[G, S, D\], got float32"):
        attention_prefill(q, keys.float(), values)
    with pytest.raises(ValueError, match=r"values must be \[G, S, D\]"):
        attention_prefill(q, keys, values[:, :3])
