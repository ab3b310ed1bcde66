"""Every tile that products of many rows are launched with fits both GPUs, on the matrix unit.

Binaries are compiled with `SPLIT`, which holds the code of whole outputs too. NVFP4 codes are in
the order that each GPU holds them in: spread on sm_90, as stored on sm_121.
"""

from functools import cache

import pytest

from kernels.common.compile import Binary, compile_kernel
from kernels.common.shared_memory import MAX_SHARED_BYTES
from kernels.linear import middle_tile as tiles
from kernels.linear.expand import E4M3_ROWS, NVFP4_STEPS, OPTIONS
from kernels.linear.expand_kernel import expand_e4m3_kernel, expand_nvfp4_kernel
from kernels.linear.middle import SLICE_BLOCK, SLICE_OPTIONS
from kernels.linear.middle_kernel import add_slices_kernel, middle_kernel
from kernels.linear.middle_tile import MiddleTile
from kernels.linear.prefill_fp8 import DEFAULT, lowering
from kernels.linear.prefill_fp8_kernel import prefill_fp8_kernel
from kernels.linear.quantise import ROW_OPTIONS, ROW_WIDTH, STEP_OPTIONS, STEP_ROWS
from kernels.linear.quantise_kernel import quantise_rows_kernel, quantise_steps_kernel
from kernels.linear.requantise import FACTOR_OPTIONS, FACTOR_STEPS, STEPS
from kernels.linear.requantise import OPTIONS as ROUNDING_OPTIONS
from kernels.linear.requantise_kernel import requantise_kernel, row_factors_kernel
from tests.kernels.compiling import bases

CAPABILITIES = (90, 121)
MATRIX_UNIT = {90: "HGMMA", 121: "HMMA"}
CODES = {"nvfp4": "*u8", "fp8_block": "*i16", "e4m3_row": "*i16", "bf16": "*bf16"}
SCALES = {"nvfp4": "*u8", "fp8_block": "*fp32", "e4m3_row": "*fp32", "bf16": "*bf16"}
SPREAD = {90: True, 121: False}
UNALIGNED = ("num_rows", "num_steps", "num_slices")


def shapes(name: str, capability: int) -> list[MiddleTile]:
    """The tiles of a format: of the small formats all, of the others the largest."""
    machine = tiles.MACHINES[capability]
    tall = [tiles.default(name, 5120, 40, rows, capability) for rows, _ in machine.shapes]
    distinct = list({(t.tile_n, t.tile_t): t for t in tall}.values())
    return distinct if name in ("nvfp4", "fp8_block") else distinct[-1:]


CASES = [
    (name, capability, tile)
    for capability in CAPABILITIES
    for name in CODES
    for tile in shapes(name, capability)
]


def compile_named(kernel, types, constants, options, capability) -> Binary:
    """Compile with 32-bit integers for what has no type, all of them multiples of 16 but counts."""
    signature = {name: types.get(name, "i32") for name in kernel.arg_names}
    aligned = [
        name
        for name in kernel.arg_names
        if name not in constants and name not in UNALIGNED and "tensordesc" not in signature[name]
    ]
    return compile_kernel(kernel, signature, constants, options, capability, aligned)


def codes_type(name: str, spread: bool) -> str:
    return "*i32" if spread else CODES[name]


@cache
def middle_binary(
    name: str, capability: int, tile: MiddleTile, spread: bool | None = None
) -> Binary:
    mapped = f"tensordesc<bf16[{tile.tile_t}, 128]>"
    spread = name == "nvfp4" and (SPREAD[capability] if spread is None else spread)
    types = {
        "x_ptr": mapped if tile.tensor_map else "*bf16", "codes_ptr": codes_type(name, spread),
        "scales_ptr": SCALES[name], "row_scales_ptr": "*fp32", "out_ptr": "*bf16",
        "slices_ptr": "*fp32",
    }  # fmt: skip
    constants = tile.constants(name, 5120, tile.tensor_map)
    constants |= {"SPLIT": True, "SPREAD": spread, "NATIVE": capability}
    return compile_named(middle_kernel, types, constants, tile.options(), capability)


def assert_fits(binary: Binary) -> None:
    usage = binary.usage()
    assert binary.shared_bytes <= MAX_SHARED_BYTES[binary.capability]
    # a spilled register lives on the stack.
    assert usage["STACK"] == usage["LOCAL"] == 0


def matrix_unit(binary: Binary) -> set[str]:
    return bases(binary.mnemonics()).keys() & {"HGMMA", "QGMMA", "HMMA", "QMMA", "OMMA"}


@pytest.mark.parametrize(("name", "capability", "tile"), CASES, ids=str)
def test_a_tile_fits_and_multiplies_on_the_matrix_unit(name, capability, tile):
    binary = middle_binary(name, capability, tile)
    assert_fits(binary)
    assert matrix_unit(binary) == {MATRIX_UNIT[capability]}


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_sums_of_a_slice_are_written_sixteen_bytes_an_instruction(capability):
    stores = middle_binary("nvfp4", capability, shapes("nvfp4", capability)[-1]).mnemonics()
    assert {name for name in stores if name.startswith("STG")} == {"STG.E.128"}


@pytest.mark.parametrize(
    ("name", "spread"), [("nvfp4", True), ("nvfp4", False), ("fp8_block", False)], ids=str
)
def test_decoded_weights_stay_in_registers_on_hopper(name, spread):
    tile = shapes(name, 90)[-1]
    mnemonics = middle_binary(name, 90, tile, spread).mnemonics()
    pairs_per_thread = tile.tile_n * 64 // (32 * tile.num_warps)
    if spread:
        # four lanes read each word and take one of its pairs, sixteen bytes of words a load.
        assert mnemonics["LDS.128"] >= pairs_per_thread // 4
        assert mnemonics["SHF.L.W.U32.HI"] == pairs_per_thread
    else:
        assert sum(mnemonics[f"LDS.{size}"] for size in ("U8", "U16")) >= pairs_per_thread
    assert mnemonics["HGMMA.64"] == 8
    assert not [word for word in mnemonics if word.startswith("LDSM")]


@pytest.mark.parametrize(
    ("name", "tile"), [(n, t) for n, c, t in CASES if c == 90 and n != "bf16"], ids=str
)
def test_no_register_is_reused_while_the_matrix_unit_may_read_it(name, tile):
    # ptxas loses sight of operands in flight where a loop begins again: nothing may be in flight.
    after_the_last = middle_binary(name, 90, tile).ptx.rpartition("wgmma.mma_async")[2]
    in_the_loop, branch, _ = after_the_last.partition("bra")
    assert branch
    assert "wgmma.wait_group.sync.aligned 0;" in in_the_loop


def test_bf16_weights_are_read_from_shared_memory():
    ptx = middle_binary("bf16", 90, shapes("bf16", 90)[0]).ptx
    product = ptx.partition("wgmma.mma_async")[2].partition(";")[0]
    first_operand = product.partition("}")[2].lstrip(", ")
    assert first_operand[:1] not in ("", "{")  # a descriptor, not registers


@pytest.mark.parametrize("tile", shapes("nvfp4", 90), ids=str)
def test_spread_codes_cost_no_more_than_stored_ones_on_hopper(tile):
    spread, stored = (middle_binary("nvfp4", 90, tile, order) for order in (True, False))
    assert spread.shared_bytes <= stored.shared_bytes
    for kind in ("", "PRMT", "LDS", "STS", "SHFL"):
        mine, other = (
            sum(count for word, count in one.mnemonics().items() if word.startswith(kind))
            for one in (spread, stored)
        )
        assert mine <= other


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_slices_are_added_with_all_loads_in_flight(capability):
    types = {"slices_ptr": "*fp32", "row_scales_ptr": "*fp32", "out_ptr": "*bf16"}
    constants = {"FORMAT": "nvfp4", "SLICES": 8, "BLOCK": SLICE_BLOCK}
    binary = compile_named(add_slices_kernel, types, constants, SLICE_OPTIONS, capability)
    assert_fits(binary)
    assert binary.mnemonics()["LDG.E.128"] >= 8


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_expansion_fits_and_stores_sixteen_bytes(capability):
    types = {"runs_ptr": "*u8", "row_scales_ptr": "*fp32", "out_ptr": "*bf16"}
    nvfp4 = [
        compile_named(
            expand_nvfp4_kernel,
            types | {"codes_ptr": codes_type("nvfp4", spread)},
            {"STEPS": NVFP4_STEPS, "SPREAD": spread},
            OPTIONS,
            capability,
        )
        for spread in (False, True)
    ]
    types = {"codes_ptr": "*u8", "scales_ptr": "*fp32", "out_ptr": "*bf16"}
    rows = {"ROWS": E4M3_ROWS, "BY_ROW": False}
    e4m3 = compile_named(expand_e4m3_kernel, types, rows, OPTIONS, capability)
    for binary in (*nvfp4, e4m3):
        assert_fits(binary)
        assert {n for n in binary.mnemonics() if n.startswith("STG")} == {"STG.E.128"}


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_rounding_a_4_bit_weight_fits_and_stores_sixteen_bytes(capability):
    types = {"runs_ptr": "*u8", "row_scales_ptr": "*fp32", "out_ptr": "*u16"}
    types |= {"factors_ptr": "*fp32", "scales_ptr": "*fp32"}
    steps = {"STEPS": FACTOR_STEPS}
    assert_fits(compile_named(row_factors_kernel, types, steps, FACTOR_OPTIONS, capability))
    for spread in (False, True):
        codes = {"codes_ptr": codes_type("nvfp4", spread)}
        constants = {"STEPS": STEPS, "SPREAD": spread, "NATIVE": True}
        options = ROUNDING_OPTIONS
        binary = compile_named(requantise_kernel, types | codes, constants, options, capability)
        assert_fits(binary)
        assert {n for n in binary.mnemonics() if n.startswith("STG")} == {"STG.E.128"}


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("by_row", [False, True])
def test_the_fp8_option_fits_and_uses_fp8_tensor_cores(capability, by_row):
    types = {
        "x_map": f"tensordesc<fp8e4nv[{DEFAULT.tile_t}, 128]>",
        "codes_map": f"tensordesc<fp8e4nv[{DEFAULT.tile_n}, 128]>",
        "x_scales_ptr": "*fp32", "scales_ptr": "*fp32", "out_ptr": "*bf16",
    }  # fmt: skip
    constants = {"TILE_T": DEFAULT.tile_t, "TILE_N": DEFAULT.tile_n, "BY_ROW": by_row}
    options = DEFAULT.options() | lowering(divmod(capability, 10))
    product = compile_named(prefill_fp8_kernel, types, constants, options, capability)
    assert_fits(product)
    assert matrix_unit(product) == {"QGMMA" if capability == 90 else "QMMA"}
    types = {"x_ptr": "*bf16", "codes_ptr": "*fp8e4nv", "scales_ptr": "*fp32"}
    rows = {"ROWS": STEP_ROWS}
    assert_fits(compile_named(quantise_steps_kernel, types, rows, STEP_OPTIONS, capability))
    wide = {"WIDTH": ROW_WIDTH}
    assert_fits(compile_named(quantise_rows_kernel, types, wide, ROW_OPTIONS, capability))
