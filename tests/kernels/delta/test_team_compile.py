"""The gated walk by teams fits an H200, and leaves room there: no spill, no atomic."""

import pytest

from kernels.common.compile import mnemonics_of, usage_of
from kernels.common.shared_memory import MAX_SHARED_BYTES
from kernels.delta import team
from kernels.delta.walk_launch import team_cubin
from tests.kernels.compiling import bases

H200 = (9, 0)
NUM_SMS = 132
RESERVED = 1024
"""Bytes of shared memory that the system keeps of each team."""

REGISTERS_OF_AN_SM = 65_536
HEADS_OF_27B = 48


@pytest.fixture(
    scope="module", params=[(128, 128, True), (128, 128, False), (32, 64, True)], ids=str
)
def binary(request) -> tuple[int, int, bytes]:
    """Code, with the key dimension and the blocks of a cluster."""
    key_dim, value_dim, gated = request.param
    cluster = team.blocks_of(value_dim) if gated else 1
    return key_dim, cluster, team_cubin(key_dim, value_dim, H200, gated=gated)


def test_nothing_is_kept_in_local_memory(binary):
    usage = usage_of(binary[2])
    assert usage["LOCAL"] == 0
    assert usage["STACK"] == 0
    assert not bases(mnemonics_of(binary[2])).keys() & {"LDL", "STL"}


def test_a_block_leaves_a_third_of_the_registers_to_what_comes_behind(binary):
    assert usage_of(binary[2])["REG"] * team.THREADS <= REGISTERS_OF_AN_SM * 2 // 3


def test_no_sum_is_added_by_an_atomic(binary):
    assert not bases(mnemonics_of(binary[2])).keys() & {"RED", "ATOM", "ATOMG", "ATOMS", "REDG"}


def test_products_and_sums_are_fused_where_the_source_says_so(binary):
    """A row takes at least: two products and an update of all keys and columns of a lane."""
    key_dim, _, code = binary
    assert bases(mnemonics_of(code))["FFMA"] >= 3 * key_dim // 8 * 4 - 16


def test_rows_are_read_after_the_predecessor_has_ended_and_not_through_the_constant_path(binary):
    names = mnemonics_of(binary[2])
    assert names["ACQBULK"] == 1
    assert names["PREEXIT"] == 1
    assert not [name for name in names if name.startswith("LDG") and "CONSTANT" in name]


def test_a_gate_waits_for_its_own_sums_and_not_for_what_is_on_its_way_to_memory(binary):
    _, cluster, code = binary
    names = mnemonics_of(code)
    assert names["STAS"] == (cluster > 1)
    assert not [name for name in names if name.startswith("MEMBAR")]


def test_no_shared_memory_is_asked_for_behind_the_plans_back(binary):
    assert usage_of(binary[2])["SHARED"] == RESERVED


def test_a_layer_of_the_27b_leaves_multiprocessors_to_what_comes_behind():
    assert HEADS_OF_27B * team.blocks_of(128) == 96 < NUM_SMS


def test_heads_of_one_or_two_teams_are_this_kernels_on_an_h200_and_nowhere_else():
    assert team.takes(16, 128, H200, gated=True)
    assert team.takes(16, 64, H200, gated=False)
    assert not team.takes(16, 48, H200, gated=True)
    assert not team.takes(16, 256, H200, gated=False)
    assert team.takes(8, 128, H200, gated=False)
    assert not team.takes(7, 128, H200, gated=False)
    assert team.takes(1, 128, H200, gated=True)
    assert not team.takes(16, 128, (12, 1), gated=True)


def test_a_blocks_shared_memory_is_within_the_limit_at_any_number_of_rows():
    for num_rows in range(1, 33):
        assert team.shared_bytes(num_rows, 128) <= MAX_SHARED_BYTES[90]
