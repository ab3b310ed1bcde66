"""Both kernels of the chunked form compile for both GPUs within a block's resources."""

from functools import cache

import pytest

from kernels.common.compile import Binary
from kernels.common.shared_memory import MAX_SHARED_BYTES
from kernels.delta.prefill_kernel import delta_chunk_kernel, delta_scan_kernel
from kernels.delta.prefill_tile import PrefillTile, of_capability
from tests.kernels.compiling import compile_launch

SPILL_BYTES = {90: 192, 121: 0}
"""On an H200 the walk with 64 columns and 4 warps spills a little and is the fastest even so."""

FP32 = ("g_ptr", "factors_ptr", "state_ptr")
KERNELS = {"chunk": delta_chunk_kernel, "scan": delta_scan_kernel}


@cache
def compiled(which: str, tile: PrefillTile, capability: int, heads_a_key: int = 3) -> Binary:
    kernel = KERNELS[which]
    types = dict.fromkeys(FP32, "*fp32") | {"scale": "fp32"}
    if which == "chunk":
        constants, options = tile.chunk_constants(heads_a_key), tile.chunk_options()
    else:
        constants, options = tile.scan_constants(heads_a_key), tile.scan_options()
    return compile_launch(kernel, constants, options, capability, types)


@pytest.mark.parametrize("heads_a_key", [1, 3])
@pytest.mark.parametrize("capability", [90, 121])
@pytest.mark.parametrize("which", KERNELS)
def test_the_default_fits_without_spills(which: str, capability: int, heads_a_key: int):
    binary = compiled(which, of_capability(capability), capability, heads_a_key)
    assert binary.shared_bytes <= MAX_SHARED_BYTES[capability]
    assert binary.spill_bytes() <= SPILL_BYTES[capability]
    if capability == 121:
        assert binary.usage()["STACK"] == binary.usage()["LOCAL"] == 0


@pytest.mark.parametrize("which", KERNELS)
def test_products_run_on_the_tensor_cores_in_bf16(which: str):
    hopper = compiled(which, of_capability(90), 90).mnemonics()
    small = compiled(which, of_capability(121), 121).mnemonics()
    assert {name for name in hopper if "MMA" in name} == {"HGMMA.64"}
    assert {name for name in small if "MMA" in name} == {"HMMA.16816.F32.BF16"}
