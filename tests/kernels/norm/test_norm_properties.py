"""Properties that hold for every row: signs, powers of two, neighbours, views."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.common.compare import different_bits
from kernels.norm import add_rms_norm, gated_rms_norm, rms_norm
from kernels.norm.cases import EPS

WIDTHS = st.integers(1, 300)
ROWS = st.integers(1, 32)
SEEDS = st.integers(0, 2**31)
quick = settings(max_examples=40, deadline=None)


def rows_of(num_rows: int, width: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_rows, width, generator=generator) * 3
    return x.bfloat16(), torch.randn(width, generator=generator).bfloat16()


@quick
@given(ROWS, WIDTHS, SEEDS)
def test_a_row_is_the_same_alone_and_among_others(num_rows: int, width: int, seed: int):
    x, weight = rows_of(num_rows, width, seed)
    together = rms_norm(x, weight, EPS)
    alone = torch.cat([rms_norm(row[None], weight, EPS) for row in x])
    assert different_bits(together, alone, "TD") is None


@quick
@given(ROWS, WIDTHS, SEEDS)
def test_the_sign_of_a_row_passes_through(num_rows: int, width: int, seed: int):
    x, weight = rows_of(num_rows, width, seed)
    assert different_bits(rms_norm(-x, weight, EPS), -rms_norm(x, weight, EPS), "TD") is None


@quick
@given(WIDTHS, SEEDS, st.integers(-20, 20))
def test_powers_of_two_cancel_when_eps_scales_with_them(width: int, seed: int, power: int):
    x, weight = rows_of(4, width, seed)
    scaled = rms_norm(x * 2.0**power, weight, EPS * 4.0**power)
    assert different_bits(scaled, rms_norm(x, weight, EPS), "TD") is None


@quick
@given(ROWS, WIDTHS, SEEDS)
def test_the_fused_add_is_an_addition_and_a_norm(num_rows: int, width: int, seed: int):
    x, weight = rows_of(num_rows, width, seed)
    residual, _ = rows_of(num_rows, width, seed + 1)
    normed, total = add_rms_norm(x, residual, weight, EPS)
    assert different_bits(total, x + residual, "TD") is None
    assert different_bits(normed, rms_norm(x + residual, weight, EPS), "TD") is None


@quick
@given(st.integers(1, 8), st.integers(1, 6), st.integers(1, 150), SEEDS)
def test_a_gate_of_zero_closes_and_heads_do_not_mix(tokens: int, heads: int, width: int, seed: int):
    x, weight = rows_of(tokens * heads, width, seed)
    x = x.view(tokens, heads, width)
    gate = torch.ones_like(x)
    gate[:, 0] = 0.0
    out = gated_rms_norm(x, gate, weight, EPS)
    assert bool((out[:, 0] == 0).all())
    alone = gated_rms_norm(x[:, -1:], gate[:, -1:], weight, EPS)
    assert different_bits(out[:, -1:], alone, "THD") is None
