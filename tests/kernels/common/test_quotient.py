"""Gates are divided without a branch: for every bf16 the bits of a plain division."""

import pytest
import torch

from kernels.common import exact_torch
from kernels.delta.model import fma

SMALLEST, LOWEST, LARGEST = 1e-6, -44.0, 1e30
"""Limits of `exact_silus` of exact.cuh, beyond which it divides plainly."""


def gates() -> torch.Tensor:
    """Every finite bf16 between the limits."""
    bits = torch.arange(1 << 16, dtype=torch.int32) << 16
    x = bits.view(torch.float32)
    return x[x.isfinite() & (x.abs() >= SMALLEST) & (x >= LOWEST) & (x <= LARGEST)]


def quotient(x: torch.Tensor, d: torch.Tensor, off: int) -> torch.Tensor:
    """`quotient` of exact.cuh, from a reciprocal that is some units in the last place off."""
    by = ((1.0 / d).view(torch.int32) + off).view(torch.float32)
    one = torch.ones_like(d)
    by = fma(fma(-d, by, one), by, by)
    q = x * by
    for _ in range(2):
        q = fma(fma(-d, q, x), by, q)
    return q


@pytest.mark.parametrize("off", [-1, 0, 1])
def test_every_gate_has_the_bits_of_the_plain_division(off):
    """The GPU's reciprocal is at most one unit off."""
    x = gates()
    d = 1.0 + exact_torch.exp(-x)
    assert len(x) > 18_000
    assert torch.equal(quotient(x, d, off), x / d)


def test_just_below_a_power_of_two_it_is_one_unit_off():
    """So small gates are left to the plain division."""
    x, d = torch.tensor([2.0**-23]), torch.tensor([2.0 - 2.0**-23])
    assert not torch.equal(quotient(x, d, 1), x / d)
