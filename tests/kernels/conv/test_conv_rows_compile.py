"""Rows of a round fit beside a product of many rows on an H200; sums are those of the source."""

import pytest
import torch

from kernels.common.compile import mnemonics_of, usage_of
from kernels.conv import rows_launch
from kernels.conv.arguments import GateInputs
from kernels.conv.rows_launch import (
    PIECE_BYTES,
    SHARED_BYTES,
    TILE_ROWS,
    WARPS,
    cubin,
    num_blocks,
    rows_of_a_warp,
)
from kernels.delta import team
from tests.kernels.compiling import bases

H200 = (9, 0)
REGISTERS_OF_AN_SM = 65_536
OF_A_PRODUCT = 20 * 32 * 88
"""Registers that a product of 16 or of 32 rows of the 27B takes there: twenty warps."""

INPUTS = 5120
NUM_SMS = 132
SHARED_OF_AN_SM = 233_472
RESERVED = 1024
"""Bytes of shared memory that the system keeps of each block."""


@pytest.fixture(scope="module")
def binary() -> bytes:
    return cubin(INPUTS, H200)


def test_nothing_is_kept_in_local_memory(binary):
    usage = usage_of(binary)
    assert usage["LOCAL"] == usage["STACK"] == 0
    assert not bases(mnemonics_of(binary)).keys() & {"LDL", "STL"}


def test_a_block_fits_beside_a_products(binary):
    usage = usage_of(binary)
    registers = -(-usage["REG"] // 8) * 8 * 32 * WARPS
    assert OF_A_PRODUCT + registers <= REGISTERS_OF_AN_SM
    assert usage["SHARED"] == RESERVED + 4 * WARPS * 2 * TILE_ROWS


def test_no_sum_is_added_by_an_atomic(binary):
    assert not bases(mnemonics_of(binary)).keys() & {"RED", "ATOM", "ATOMG", "ATOMS", "REDG"}


def test_the_sums_of_a_and_b_are_fused_and_no_tap_is(binary):
    """A step of a | b meets two weights with each row, four inputs of a thread."""
    counts = bases(mnemonics_of(binary))
    assert counts["FFMA"] >= 2 * TILE_ROWS * 4
    assert counts["FMUL"] >= 4 * 4


def test_what_convolves_waits_for_the_predecessor_and_what_multiplies_does_not(binary):
    names = mnemonics_of(binary)
    assert names["PREEXIT"] == names["ACQBULK"] == 1
    assert not [name for name in names if name.startswith("LDG") and "CONSTANT" in name]


def test_a_warps_windows_have_room_where_the_steps_of_a_product_have():
    assert SHARED_BYTES == WARPS * 3 * 6 * PIECE_BYTES
    assert WARPS * 4 * rows_of_a_warp(32) * PIECE_BYTES <= SHARED_BYTES


@pytest.mark.parametrize("rows", [4, 8, 16, 32])
def test_blocks_that_convolve_are_few_enough_to_be_there_when_the_product_ends(rows):
    multiply = -(-rows // TILE_ROWS) * 48
    convolve = num_blocks(rows, 16, 48) - multiply
    assert convolve * WARPS * rows_of_a_warp(rows) >= rows * 80
    assert convolve <= 160 < 2 * NUM_SMS


@pytest.mark.parametrize("rows", range(4, 33))
def test_a_block_of_the_walk_fits_beside_one_that_convolves(rows):
    walk = team.shared_bytes(rows, 128) + RESERVED
    assert walk + SHARED_BYTES + RESERVED + 4 * WARPS * 2 * TILE_ROWS <= SHARED_OF_AN_SM


def test_rows_and_heads_that_fill_no_block_have_one():
    assert num_blocks(5, 1, 3) == 2 * 3 + -(-5 * 5 // WARPS)


@pytest.mark.usefixtures("on_gpu")
def test_rows_go_by_another_kernel_where_something_begins_between_two_loads(monkeypatch, shifted):
    monkeypatch.setattr(rows_launch, "_choices", lambda _device: H200)
    x, inputs = torch.zeros((4, 640)).bfloat16(), torch.zeros((4, 128)).bfloat16()
    gates = GateInputs(inputs, torch.zeros((6, 128)).bfloat16())
    scalar, table = torch.zeros(2, dtype=torch.int32)[1:], torch.zeros(33, dtype=torch.int32)[1:]
    others = (
        torch.zeros((640, 4)).bfloat16(), torch.zeros(3), torch.zeros(3),
        torch.zeros((2, 3, 640)).bfloat16(), torch.zeros((2, 32, 640)).bfloat16(),
        torch.zeros((2, 32, 1, 128)), torch.zeros((2, 32, 3)), scalar, scalar, table, table,
        torch.zeros((4, 1, 128)), torch.zeros((4, 3, 128)).bfloat16(), torch.zeros((4, 3)),
    )  # fmt: skip
    assert rows_launch.takes(x, gates, 128, others)
    assert not rows_launch.takes(shifted(x), gates, 128, others)
    for place, one in enumerate(others):
        if one.dim() > 1:
            moved = (*others[:place], shifted(one), *others[place + 1 :])
            assert not rows_launch.takes(x, gates, 128, moved)
