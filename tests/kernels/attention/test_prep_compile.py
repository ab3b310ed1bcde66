"""The preparation of attention compiles for both GPUs within a block's resources."""

from functools import cache

import pytest

from kernels.attention.prep import PREFILL_ROWS
from kernels.attention.prep_kernel import attention_prep_kernel as kernel
from kernels.common.compile import Binary, compile_kernel
from kernels.common.shared_memory import MAX_SHARED_BYTES
from tests.kernels.compiling import loads_before_wait

CAPABILITIES = (90, 121)
HEADS = (24, 16, 6)
"""Query heads of the 27B, of a sibling and of the demo model; the heads are 256 wide in all."""


@cache
def compiled(
    heads: int,
    rows: int,
    has_depths: bool,
    capability: int,
    overlap: bool = False,
    has_codes: bool = False,
) -> Binary:
    names = kernel.arg_names
    signature = {name: "*bf16" if name.endswith("_ptr") else "i32" for name in names}
    signature |= {"start_ptr": "*i32", "depths_ptr": "*i32", "eps": "fp32"}
    if has_codes:
        signature |= {"keys_ptr": "*u8", "values_ptr": "*u8"}
        signature |= {"key_scales_ptr": "*fp32", "value_scales_ptr": "*fp32"}
    constants = {
        "QUERY_HEADS": heads,
        "D": 256,
        "PAIRS": 8,
        "HALF": 32,
        "ROWS": rows,
        "HAS_DEPTHS": has_depths,
        "HAS_CODES": has_codes,
        "OVERLAP": overlap,
    }
    aligned = [name for name in names if name.endswith("_ptr") or name.startswith("stride_")]
    options = {
        "num_warps": 1 if rows == 1 else 4,
        "enable_fp_fusion": False,
        "launch_pdl": overlap,
    }
    return compile_kernel(kernel, signature, constants, options, capability, aligned)


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize(("rows", "has_depths"), [(1, True), (1, False), (PREFILL_ROWS, False)])
@pytest.mark.parametrize(("heads", "has_codes"), [*((one, False) for one in HEADS), (24, True)])
def test_the_kernel_compiles_without_spills(heads, has_codes, rows, has_depths, capability):
    binary = compiled(heads, rows, has_depths, capability, has_codes=has_codes)
    usage = binary.usage()
    assert binary.shared_bytes <= MAX_SHARED_BYTES[capability]
    assert usage["STACK"] == usage["LOCAL"] == binary.spill_bytes() == 0


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("has_codes", [False, True])
def test_no_step_is_contracted_approximate_or_flushed(has_codes, capability):
    ptx = compiled(24, 1, True, capability, has_codes=has_codes).ptx
    assert [word for word in ("fma.", "approx", ".ftz", "div.full") if word in ptx] == []


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_the_gpu_rounds_to_codes_itself_and_saturates(capability):
    ptx = compiled(24, 1, True, capability, has_codes=True).ptx
    assert "cvt.rn.satfinite.e4m3x2.f32" in ptx
    assert "e4m3" not in compiled(24, 1, True, capability).ptx


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_row_of_a_verify_needs_no_shared_memory(capability):
    assert compiled(24, 1, True, capability).shared_bytes == 0


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_the_kernel_waits_for_the_one_before_only_with_overlap(capability):
    assert "griddepcontrol" not in compiled(24, 1, True, capability).ptx
    binary = compiled(24, 1, True, capability, overlap=True)
    assert "griddepcontrol.launch_dependents" in binary.ptx
    weights, place, angles = 6, 2, 4
    assert loads_before_wait(binary.cubin) == weights + place + angles
