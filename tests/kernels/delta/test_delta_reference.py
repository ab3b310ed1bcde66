"""The delta rule in its two forms, against its definition in fp64 and against each other."""

import pytest
import torch
from torch.nn import functional

from kernels.common.compare import different_bits
from kernels.delta.reference import (
    delta_chunk_reference,
    delta_step_reference,
    gates_reference,
)

SIZES = [(1, 2, 6, 16, 16), (63, 1, 3, 32, 24), (64, 3, 3, 16, 16), (150, 2, 4, 24, 40)]


def inputs(T: int, G: int, H: int, D: int, E: int):
    generator = torch.Generator().manual_seed(T)
    draw = lambda *shape: torch.randn(shape, generator=generator)
    q, k, v = draw(T, G, D).bfloat16(), draw(T, G, D).bfloat16(), draw(T, H, E).bfloat16()
    rate = -torch.rand(H, generator=generator).mul(15).add(1)
    g, beta = gates_reference(
        draw(T, H).bfloat16(), draw(T, H).bfloat16(), rate, draw(H) - 4
    )  # fmt: skip
    return q, k, v, g, beta, draw(H, D, E) * 0.1


def truth(q, k, v, g, beta, state):
    """The definition, token by token and head by head, in fp64."""
    q, k, v, g, beta, state = (x.double() for x in (q, k, v, g, beta, state))
    share = v.shape[1] // q.shape[1]
    out = torch.empty_like(v)
    state = state.clone()
    for t in range(v.shape[0]):
        for h in range(v.shape[1]):
            key = k[t, h // share] / (k[t, h // share].square().sum() + 1e-6).sqrt()
            query = q[t, h // share] / (q[t, h // share].square().sum() + 1e-6).sqrt()
            faded = g[t, h].exp() * state[h]
            write = beta[t, h] * (v[t, h] - faded.t() @ key)
            state[h] = faded + torch.outer(key, write)
            out[t, h] = state[h].t() @ query / q.shape[-1] ** 0.5
    return out, state


def steps(q, k, v, g, beta, state):
    rows = [delta_step_reference(q[t], k[t], v[t], g[t], beta[t], state) for t in range(v.shape[0])]
    return torch.stack(rows)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("form", [steps, delta_chunk_reference])
def test_both_forms_are_the_definition_within_rounding(sizes, form):
    *most, state = inputs(*sizes)
    want, want_state = truth(*most, state)
    got = form(*most, state)
    # one rounding to bf16 (2^-9 relative), and fp32 sums of order 100 terms
    torch.testing.assert_close(got.double(), want, rtol=2**-8, atol=1e-5)
    torch.testing.assert_close(state.double(), want_state, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cut", [64, 128])
def test_a_chunked_call_cut_at_64_has_the_bits_of_the_whole(cut: int):
    *most, state = inputs(150, 2, 4, 24, 40)
    cut_state = state.clone()
    whole = delta_chunk_reference(*most, state)
    parts = [
        delta_chunk_reference(*(x[rows] for x in most), cut_state)
        for rows in (slice(0, cut), slice(cut, None))
    ]
    assert different_bits(torch.cat(parts), whole, "THD") is None
    assert torch.equal(state, cut_state)


def test_no_decay_and_no_write_leave_the_state():
    q, k, v, g, beta, state = inputs(70, 1, 2, 16, 16)
    before = state.clone()
    delta_chunk_reference(q, k, v, torch.zeros_like(g), torch.zeros_like(beta), state)
    assert torch.equal(state, before)


def test_a_full_write_is_read_back():
    _, k, v, g, beta, state = inputs(1, 1, 1, 16, 16)
    out = delta_step_reference(
        k[0], k[0], v[0], torch.zeros_like(g[0]), torch.ones_like(beta[0]), state
    )
    torch.testing.assert_close(out.float() * 4, v[0].float(), rtol=2**-7, atol=2**-7)


def test_a_strong_decay_stays_finite_in_a_chunk():
    q, k, v, g, beta, state = inputs(128, 1, 2, 16, 16)
    out = delta_chunk_reference(q, k, v, torch.full_like(g, -80.0), beta, state)
    assert out.isfinite().all()
    assert state.isfinite().all()


def test_gates_have_their_rounding_points():
    a, b = torch.tensor([[30.0, -3.0]]).bfloat16(), torch.tensor([[0.3, 0.0]]).bfloat16()
    rate, bias = torch.tensor([-2.0, -2.0]), torch.tensor([0.5, 0.5])
    g, beta = gates_reference(a, b, rate, bias)
    assert g.dtype == torch.float32
    assert beta.dtype == torch.bfloat16
    assert g[0, 0] == -61.0  # softplus is the identity above 20
    assert g[0, 1] == -2.0 * functional.softplus(torch.tensor(-2.5))
    assert beta[0, 1] == 0.5
