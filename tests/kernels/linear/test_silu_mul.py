"""silu(gate) * up: what it takes, and what it costs on both GPUs."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from kernels.common import exact_torch
from kernels.common.compile import Binary
from kernels.common.operands import APART, ORDERS
from kernels.linear.silu_mul import LANES, NUM_WARPS, silu_mul
from kernels.linear.silu_mul_kernel import silu_mul_kernel
from tests.kernels.compiling import assert_fits, compile_launch


def test_halves_of_one_product_serve_as_they_are():
    both = torch.randn(3, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    gate, up = both.chunk(2, 1)
    assert torch.equal(silu_mul(gate, up), functional.silu(gate) * up)


def test_what_does_not_match_is_refused():
    with pytest.raises(ValueError, match="up"):
        silu_mul(torch.zeros(2, 8).bfloat16(), torch.zeros(2, 9).bfloat16())
    with pytest.raises(TypeError, match="gate"):
        silu_mul(torch.zeros(2, 8), torch.zeros(2, 8).bfloat16())


def compiled(width: int, overlap: bool, order: int, capability: int) -> Binary:
    constants = {"WIDTH": width, "LANES": LANES, "ORDER": order, "OVERLAP": overlap}
    types = {"image_ptr": "*fp16", "largest_ptr": "*i16"} if order else {}
    return compile_launch(silu_mul_kernel, constants, {"num_warps": NUM_WARPS}, capability, types)


@pytest.mark.parametrize("capability", [90, 121])
@pytest.mark.parametrize(("width", "overlap"), [(17408, False), (17408, True), (768, False)])
def test_it_compiles_without_spills(width, overlap, capability):
    binary = compiled(width, overlap, 0, capability)
    assert_fits(binary)
    assert ("griddepcontrol.wait" in binary.ptx) == overlap
    assert any(name.startswith("LDG.E.128") for name in binary.mnemonics())


def test_operands_whose_pairs_lie_apart_are_written_pair_by_pair():
    binary = compiled(17408, True, 32 + APART, 90)
    assert_fits(binary)
    stores = {name for name in binary.mnemonics() if name.startswith("STG")}
    assert stores == {"STG.E.128", "STG.E", "STG.E.U16"}


@pytest.mark.parametrize("order", [order for order in ORDERS if not order % 2])
def test_operands_are_written_sixteen_bytes_an_instruction(order):
    binary = compiled(17408, True, order, 90)
    assert_fits(binary)
    stores = {name for name in binary.mnemonics() if name.startswith("STG")}
    assert stores == {"STG.E.128", "STG.E.U16"}  # the latter of magnitudes, one for 128 inputs
    assert binary.mnemonics()["STG.E.U16"] == 1


def contracted_silu(x: np.ndarray) -> np.ndarray:
    """`exact.silu` with every product that meets a sum rounded with it, once."""

    def fma(a, b, c):
        wide = (np.asarray(one, np.float32).astype(np.longdouble) for one in (a, b, c))
        a, b, c = wide
        return (a * b + c).astype(np.float32)

    y = np.clip(-x, np.float32(-126), np.float32(126))
    n = fma(y, 1.4426950408889634, 12582912.0) - np.float32(12582912.0)
    r = fma(-n, 1.4286068203094173e-06, fma(-n, 0.693145751953125, y))
    p = fma(r, 1.9841269841269841e-04, 1.3888888888888889e-03)
    for coefficient in (1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0):
        p = fma(p, r, coefficient)
    exponent = n.astype(np.int32)
    low, high = (
        ((one + 127) << 23).view(np.float32) for one in (exponent >> 1, exponent - (exponent >> 1))
    )
    return x / fma(p * low, high, 1.0)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs sums of 64 bits")
@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value")
def test_contracted_steps_change_no_bit_of_any_gate():
    """A pair's epilogue contracts none: rounded to bf16 both are one number, for all numbers."""
    gates = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    gates = gates[~gates.isnan()].float()
    exact, contracted = exact_torch.silu(gates), torch.from_numpy(contracted_silu(gates.numpy()))
    assert 0 < int((exact != contracted).sum()) < 200  # they are not one computation
    rounded = exact.bfloat16(), contracted.bfloat16()
    assert bool(((rounded[0] == rounded[1]) | (rounded[0].isnan() & rounded[1].isnan())).all())


@pytest.mark.parametrize("capability", [90, 121])
def test_the_compiler_contracts_what_was_computed(capability):
    """Eleven products meet a sum in an exponential and its denominator, eight gates a thread."""
    ptx = compiled(17408, False, 0, capability).ptx
    assert ptx.count("fma.rn.f32 ") == 8 * 11
