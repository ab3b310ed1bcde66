"""silu(gate) * up: what it takes, and what it costs on both GPUs."""

import pytest
import torch
from torch.nn import functional

from kernels.common.compile import compile_kernel
from kernels.common.shared_memory import MAX_SHARED_BYTES
from kernels.linear.silu_mul import LANES, NUM_WARPS, silu_mul
from kernels.linear.silu_mul_kernel import silu_mul_kernel


def test_halves_of_one_product_serve_as_they_are():
    both = torch.randn(3, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    gate, up = both.chunk(2, 1)
    assert torch.equal(silu_mul(gate, up), functional.silu(gate) * up)


def test_what_does_not_match_is_refused():
    with pytest.raises(ValueError, match="up"):
        silu_mul(torch.zeros(2, 8).bfloat16(), torch.zeros(2, 9).bfloat16())
    with pytest.raises(TypeError, match="gate"):
        silu_mul(torch.zeros(2, 8), torch.zeros(2, 8).bfloat16())


@pytest.mark.parametrize("capability", [90, 121])
@pytest.mark.parametrize(("width", "overlap"), [(17408, False), (17408, True), (768, False)])
def test_it_compiles_without_spills(width, overlap, capability):
    names = silu_mul_kernel.arg_names
    signature = {name: "*bf16" if name.endswith("_ptr") else "i32" for name in names}
    aligned = [name for name in names if name.endswith("_ptr") or name.startswith("stride_")]
    binary = compile_kernel(
        silu_mul_kernel,
        signature,
        {"WIDTH": width, "LANES": LANES, "OVERLAP": overlap},
        {"num_warps": NUM_WARPS},
        capability,
        aligned,
    )
    usage = binary.usage()
    assert binary.shared_bytes <= MAX_SHARED_BYTES[capability]
    assert usage["STACK"] == usage["LOCAL"] == binary.spill_bytes() == 0
    assert ("griddepcontrol.wait" in binary.ptx) == overlap
    assert any(name.startswith("LDG.E.128") for name in binary.mnemonics())
