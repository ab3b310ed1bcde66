"""The walk fits both GPUs: registers, shared memory for the planned blocks, no spill, no atomic."""

import pytest

from kernels.common.compile import mnemonics_of, usage_of
from kernels.common.shared_memory import MAX_SHARED_BYTES
from kernels.delta.tile import (
    MAX_KEY_DIM,
    VALUE_STRIDE,
    WARP,
    WARPS,
    fits,
    shared_bytes,
    tiles_of,
)
from kernels.delta.walk_launch import cubin
from tests.kernels.compiling import bases

CAPABILITIES = {90: (9, 0), 121: (12, 1)}
NUM_SMS = {90: 132, 121: 48}
SHARED_OF_AN_SM = {90: 233_472, 121: 102_400}
RESERVED = 1024
"""Bytes of shared memory that the system keeps of each block."""

REGISTERS_OF_AN_SM = 65_536
HEADS_OF_27B = 48
SHAPES = ((128, 128), (32, 16))
"""D and E: of every model, and the smallest there is."""


@pytest.fixture(
    scope="module",
    params=[
        *(
            (capability, *SHAPES[0], gated)
            for capability in CAPABILITIES
            for gated in (False, True)
        ),
        *((capability, *SHAPES[1], False) for capability in CAPABILITIES),
    ],
    ids=str,
)
def binary(request) -> tuple[int, int, bytes]:
    """Code, with the key dimension and the blocks of a cluster."""
    capability, key_dim, value_dim, gated = request.param
    code = cubin(key_dim, value_dim, CAPABILITIES[capability], gated=gated)
    return key_dim, tiles_of(value_dim, gated=True) // WARPS[True] if gated else 1, code


def test_nothing_is_kept_in_local_memory(binary):
    usage = usage_of(binary[2])
    assert usage["LOCAL"] == 0
    assert usage["STACK"] == 0
    assert not bases(mnemonics_of(binary[2])).keys() & {"LDL", "STL"}


def test_no_sum_is_added_by_an_atomic(binary):
    assert not bases(mnemonics_of(binary[2])).keys() & {"RED", "ATOM", "ATOMG", "ATOMS", "REDG"}


def test_products_and_sums_are_fused_where_the_source_says_so(binary):
    """A walk's row and two folds take at least: 2 products, 3 updates of all keys and columns."""
    key_dim, _, code = binary
    counts = bases(mnemonics_of(code))
    assert counts["FFMA"] + 2 * counts["FFMA2"] >= 5 * key_dim // 8 * 4 - 16


def test_rows_are_read_after_the_predecessor_has_ended_and_not_through_the_constant_path(binary):
    names = mnemonics_of(binary[2])
    assert names["ACQBULK"] == 1
    assert names["PREEXIT"] == 1
    assert not [name for name in names if name.startswith("LDG") and "CONSTANT" in name]


def test_a_gate_waits_for_its_own_sums_and_not_for_what_is_on_its_way_to_memory(binary):
    """The exchange in a cluster: a store to each block arrives by itself, no fence of memory."""
    _, cluster, code = binary
    names = mnemonics_of(code)
    assert names["STAS"] == (cluster if cluster > 1 else 0)
    assert not [name for name in names if name.startswith("MEMBAR")]


def test_no_shared_memory_is_asked_for_behind_the_plans_back(binary):
    """`usage_of` reads the last kernel of a cubin, which is the walk: all of its own is dynamic."""
    assert usage_of(binary[2])["SHARED"] == RESERVED


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize(("num_rows", "gated"), [(1, False), (32, False), (16, True), (32, True)])
def test_all_of_a_27b_is_resident_on_hopper_and_two_warps_or_more_a_multiprocessor_else(
    num_rows, gated, capability
):
    usage = usage_of(cubin(128, 128, CAPABILITIES[capability], gated=gated))
    registers = -(-usage["REG"] // 8) * 8 * WARP * WARPS[gated]
    blocks = HEADS_OF_27B * tiles_of(128, gated=gated) // WARPS[gated]
    shared = shared_bytes(num_rows, 128, 128, gated=gated) + RESERVED
    room = min(SHARED_OF_AN_SM[capability] // shared, REGISTERS_OF_AN_SM // registers)
    if capability == 90:
        assert room * NUM_SMS[capability] >= blocks
    else:
        assert room * WARPS[gated] >= 2


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("gated", [False, True])
def test_a_blocks_shared_memory_is_within_the_limit_for_all_that_fits(gated, capability):
    for key_dim in range(1, 2 * MAX_KEY_DIM):
        if fits(key_dim, VALUE_STRIDE):
            for num_rows in range(1, 33):
                held = shared_bytes(num_rows, key_dim, 128, gated=gated)
                assert held <= MAX_SHARED_BYTES[capability]
