"""silu(gate) * up: what it takes, and what it costs on both GPUs."""

import pytest
import torch
from torch.nn import functional

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
