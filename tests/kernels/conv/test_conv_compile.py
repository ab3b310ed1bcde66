"""Every convolution kernel compiles for both GPUs within a block's resources."""

from functools import cache

import pytest

from kernels.common.compile import Binary
from kernels.conv import kernel, prefill_kernel
from kernels.conv.op import FOLD_LANES, warps_of
from kernels.conv.prefill import PREFILL_ROWS
from tests.kernels.compiling import assert_fits, assert_ieee, compile_launch

KERNELS = {
    "conv_gates": kernel.conv_gates_kernel,
    "conv_prefill": prefill_kernel.conv_prefill_kernel,
    "conv_fold": kernel.conv_fold_kernel,
}
CAPABILITIES = (90, 121)
HEADS = ((16, 48), (16, 32), (16, 16), (1, 3))
"""Key and value heads of 128: the 27B, its siblings, the demo model."""

MOST_REGISTERS = {1: 80, 8: 128, 32: 128}
"""Of a thread where a | b are multiplied: 6 blocks of four warps a multiprocessor, 8 of two, 16 of
one."""

INTEGERS = ("length_ptr", "parity_ptr", "num_pending_ptr", "pending_rows_ptr", "parents_ptr")


def types_of(op: str) -> dict[str, str]:
    wide = ("decay_rate_ptr", "dt_bias_ptr")
    wide += ("k_ptr", "decay_ptr", "q_ptr", "beta_ptr") if op == "conv_gates" else ("g_ptr",)
    return dict.fromkeys(INTEGERS, "*i32") | dict.fromkeys(wide, "*fp32") | {"weight_ptr": "*i64"}


@cache
def compiled(
    op: str,
    heads: tuple[int, int],
    capability: int,
    rows: int = 32,
    overlap: bool = False,
    inputs: int = 0,
) -> Binary:
    common = {
        "KEY_HEADS": heads[0],
        "VALUE_HEADS": heads[1],
        "HEAD_LANES": 1 << (heads[1] - 1).bit_length(),
        "D": 128,
    }
    constants, num_warps = {
        "conv_gates": (
            {**common, "PAIRS": 7, "Q_SCALE": 128**-0.5, "OVERLAP": overlap, "INPUTS": inputs},
            warps_of(rows, multiplies=bool(inputs))),
        "conv_prefill": ({**common, "ROWS": PREFILL_ROWS, "HAS_LENGTH": True}, 4),
        "conv_fold": ({"WIDTH": (2 * heads[0] + heads[1]) * 128, "LANES": FOLD_LANES}, 4),
    }[op]  # fmt: skip
    options = {"num_warps": num_warps, "enable_fp_fusion": False, "launch_pdl": overlap}
    unaligned = ("stride_ab_row", "stride_gates_row") if heads == (1, 3) else ()
    return compile_launch(
        KERNELS[op], constants, options, capability, types_of(op), unaligned=unaligned
    )


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize(
    ("op", "rows"), [("conv_gates", 1), ("conv_gates", 32), ("conv_prefill", 32), ("conv_fold", 32)]
)
def test_a_kernel_compiles_without_spills(op, rows, heads, capability):
    assert_fits(compiled(op, heads, capability, rows))


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("rows", MOST_REGISTERS)
def test_the_product_of_a_27b_has_no_spills_and_no_contracted_step(rows, capability):
    binary = compiled("conv_gates", (16, 48), capability, rows, overlap=True, inputs=5120)
    usage = binary.usage()
    assert usage["STACK"] == usage["LOCAL"] == binary.spill_bytes() == 0
    assert usage["REG"] <= MOST_REGISTERS[rows]
    assert [word for word in ("fma.", "approx", ".ftz", "div.full") if word in binary.ptx] == []


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("op", ["conv_gates", "conv_prefill"])
def test_no_step_is_contracted_approximate_or_flushed(op, capability):
    assert_ieee(compiled(op, (16, 48), capability))


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_verify_of_many_rows_needs_no_shared_memory_and_no_barrier(capability):
    binary = compiled("conv_gates", (16, 48), capability)
    assert binary.shared_bytes == 0
    assert "BAR.SYNC" not in str(dict(binary.mnemonics()))


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_the_kernel_waits_for_the_one_before_only_with_overlap(capability):
    assert "griddepcontrol" not in compiled("conv_gates", (16, 48), capability).ptx
    ptx = compiled("conv_gates", (16, 48), capability, overlap=True).ptx
    assert "griddepcontrol.wait" in ptx
    assert "griddepcontrol.launch_dependents" in ptx
