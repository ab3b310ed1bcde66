"""Every norm kernel and tile-table row compiles for both GPUs within a block's resources."""

import tomllib
from functools import cache
from pathlib import Path

import pytest

from kernels.common.compile import Binary
from kernels.common.operands import APART, ORDERS
from kernels.norm import NormTile, kernel, tile
from tests.kernels.compiling import (
    assert_fits,
    assert_ieee,
    bases,
    compile_launch,
    loads_before_wait,
)

KERNELS = {
    "rms_norm": kernel.rms_norm_kernel,
    "add_rms_norm": kernel.add_rms_norm_kernel,
    "gated_rms_norm": kernel.gated_rms_norm_kernel,
}
CAPABILITIES = (90, 121)
ROWS = sorted(
    {
        (row["op"], row["width"], NormTile(row["num_warps"], row["rows_per_program"]))
        for table in (Path(tile.__file__).parent / "tiles").glob("*.toml")
        for row in tomllib.loads(table.read_text())["tile"]
    },
    key=str,
)


@cache
def compiled(
    op: str,
    width: int,
    chosen: NormTile,
    capability: int,
    weight: str = "*bf16",
    *,
    order: int = 0,
    overlap: bool = False,
) -> Binary:
    constants = chosen.constants(width)
    if op == "gated_rms_norm":
        constants |= {"ROUND_PRODUCT": weight == "*bf16", "INPUTS": 48 * width if order else 0}
    constants |= {"ORDER": order, "OVERLAP": overlap}
    types = {"eps": "fp32", "weight_ptr": weight}
    types |= {"image_ptr": "*fp16", "largest_ptr": "*i16"} if order else {}
    return compile_launch(KERNELS[op], constants, chosen.options(), capability, types)


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize(("op", "width", "chosen"), ROWS, ids=str)
def test_table_row_compiles_without_spills(op, width, chosen, capability):
    assert_fits(compiled(op, width, chosen, capability))


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("op", KERNELS)
def test_an_overlapped_launch_waits_for_the_kernel_before_it(op, capability):
    binary = compiled(op, 128, tile.default(128), capability, overlap=True)
    assert_fits(binary)
    assert loads_before_wait(binary.cubin) == 1, "the weight"


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_an_fp32_weight_compiles_without_spills(capability):
    assert_fits(compiled("gated_rms_norm", 128, tile.default(128), capability, "*fp32"))


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("op", ["rms_norm", "add_rms_norm"])
def test_hidden_rows_move_sixteen_bytes_an_instruction(op, capability):
    mnemonics = compiled(op, 5120, tile.default(5120), capability).mnemonics()
    moves = {name for name in mnemonics if name.startswith(("LDG", "STG"))}
    assert moves == {"LDG.E.128", "STG.E.128"}


SIDE_BY_SIDE = [order for order in ORDERS if not order % 2]


@pytest.mark.parametrize("order", SIDE_BY_SIDE)
@pytest.mark.parametrize(("op", "width"), [("add_rms_norm", 5120), ("rms_norm", 768)])
def test_operands_are_written_sixteen_bytes_an_instruction_too(op, width, order):
    binary = compiled(op, width, tile.default(width), 90, order=order)
    alone = compiled(op, width, tile.default(width), 90)
    assert_fits(binary)
    stores = {name: n for name, n in binary.mnemonics().items() if name.startswith("STG")}
    assert stores.keys() == {"STG.E.128", "STG.E.U16"}  # the latter of magnitudes
    more = stores["STG.E.128"] - alone.mnemonics()["STG.E.128"]
    assert more == stores["STG.E.U16"]
    # nothing goes from thread to thread for it but the magnitude of a neighbour
    assert binary.shared_bytes == alone.shared_bytes
    assert bases(binary.mnemonics())["BAR"] == bases(alone.mnemonics())["BAR"]


@pytest.mark.parametrize(("op", "width"), [("add_rms_norm", 5120), ("rms_norm", 768)])
def test_operands_whose_pairs_lie_apart_are_written_pair_by_pair(op, width):
    binary = compiled(op, width, tile.default(width), 90, order=32 + APART)
    assert_fits(binary)
    stores = {name for name in binary.mnemonics() if name.startswith("STG")}
    assert stores == {"STG.E.128", "STG.E", "STG.E.U16"}


@pytest.mark.parametrize("order", ORDERS)
def test_operands_of_heads_compile_without_spills(order):
    assert_fits(compiled("gated_rms_norm", 128, tile.default(128), 90, order=order))


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize(("op", "width"), [("rms_norm", 5120), ("gated_rms_norm", 128)])
def test_no_step_is_contracted_approximate_or_flushed(op, width, capability):
    assert_ieee(compiled(op, width, tile.default(width), capability))
