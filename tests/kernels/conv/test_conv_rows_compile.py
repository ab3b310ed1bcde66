"""Rows of a round compile for both GPUs, three blocks an SM, sums as the source has them."""

import pytest

from kernels.common.compile import mnemonics_of, usage_of
from kernels.conv.rows_launch import TILE_HEADS, TILE_ROWS, WARPS, cubin, num_blocks
from tests.kernels.compiling import bases

CAPABILITIES = {90: (9, 0), 121: (12, 1)}
REGISTERS_OF_A_SCHEDULER = 16_384
OF_A_PRODUCT = 5 * 32 * 72
"""Registers that a product of 16 rows of the 27B takes there: five warps."""

INPUTS = 5120
RESERVED = 1024
"""Bytes of shared memory that the system keeps of each block."""


@pytest.fixture(scope="module", params=CAPABILITIES.values(), ids=str)
def binary(request) -> bytes:
    return cubin(INPUTS, request.param)


def test_nothing_is_kept_in_local_memory_and_three_blocks_share_a_multiprocessor(binary):
    usage = usage_of(binary)
    assert usage["LOCAL"] == 0
    assert usage["STACK"] == 0
    assert not bases(mnemonics_of(binary)).keys() & {"LDL", "STL"}
    assert usage["REG"] * 32 * WARPS * 3 <= 4 * REGISTERS_OF_A_SCHEDULER
    assert usage["SHARED"] == RESERVED + 4 * WARPS * 16


def test_a_block_fits_beside_a_products_on_hopper():
    registers = -(-usage_of(cubin(INPUTS, (9, 0)))["REG"] // 8) * 8 * 32
    assert OF_A_PRODUCT + WARPS // 4 * registers <= REGISTERS_OF_A_SCHEDULER


def test_no_sum_is_added_by_an_atomic(binary):
    assert not bases(mnemonics_of(binary)).keys() & {"RED", "ATOM", "ATOMG", "ATOMS", "REDG"}


def test_products_and_sums_of_a_and_b_are_rounded_apart(binary):
    """Each weight of a block meets each row, two inputs of a thread; FMUL2 is two of them."""
    counts = bases(mnemonics_of(binary))
    products = TILE_ROWS * 2 * TILE_HEADS * 2
    assert counts["FMUL"] + 2 * counts["FMUL2"] >= products
    assert counts["FADD"] + 2 * counts["FADD2"] >= products


def test_both_kinds_of_blocks_wait_for_the_predecessor(binary):
    names = mnemonics_of(binary)
    assert names["PREEXIT"] == 1
    assert names["ACQBULK"] == 2
    assert not [name for name in names if name.startswith("LDG") and "CONSTANT" in name]


def test_a_weight_is_read_once_for_four_rows_of_two_heads():
    convolved = 16 * 80 // WARPS
    assert num_blocks(16, 16, 48) == 16 // 4 * 48 // 2 + convolved
    assert num_blocks(5, 1, 3) == 2 * 2 + -(-5 * 5 // WARPS)
