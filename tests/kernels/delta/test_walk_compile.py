"""The walk fits both GPUs: registers, shared memory for the planned blocks, no spill, no atomic."""

from collections import Counter

import pytest

from kernels.common.compile import mnemonics_of, usage_of
from kernels.common.shared_memory import MAX_SHARED_BYTES
from kernels.delta.tile import COLUMNS, MAX_KEY_DIM, WARP, fits, num_tiles, shared_bytes
from kernels.delta.walk_launch import cubin

TARGETS = {90: "sm_90a", 121: "sm_121a"}
NUM_SMS = {90: 132, 121: 48}
SHARED_OF_AN_SM = {90: 233_472, 121: 102_400}
RESERVED = 1024
"""Bytes of shared memory that the system keeps of each block."""

REGISTERS_OF_AN_SM = 65_536
HEADS_OF_27B = 48
SHAPES = ((128, 128), (32, 16))
"""D and E: of every model, and the smallest there is."""


@pytest.fixture(scope="module", params=[(c, s) for c in TARGETS for s in SHAPES], ids=str)
def binary(request) -> tuple[int, int, bytes]:
    capability, (key_dim, value_dim) = request.param
    return capability, key_dim, cubin(key_dim, value_dim, TARGETS[capability])


def bases(code: bytes) -> Counter[str]:
    counts = Counter[str]()
    for name, number in mnemonics_of(code).items():
        counts[name.split(".")[0]] += number
    return counts


def test_nothing_is_kept_in_local_memory(binary):
    usage = usage_of(binary[2])
    assert usage["LOCAL"] == 0
    assert usage["STACK"] == 0
    assert not bases(binary[2]).keys() & {"LDL", "STL"}


def test_no_sum_is_added_by_an_atomic(binary):
    assert not bases(binary[2]).keys() & {"RED", "ATOM", "ATOMG", "ATOMS", "REDG"}


def test_products_and_sums_are_fused_where_the_source_says_so(binary):
    """A walk's row and two folds take at least: 2 products, 3 updates of all keys and columns."""
    _, key_dim, code = binary
    assert bases(code)["FFMA"] + 2 * bases(code)["FFMA2"] >= 5 * key_dim // 8 * 4 - 16


def test_rows_are_read_after_the_predecessor_has_ended_and_not_through_the_constant_path(binary):
    names = mnemonics_of(binary[2])
    assert names["ACQBULK"] == 1
    assert names["PREEXIT"] == 1
    assert not [name for name in names if name.startswith("LDG") and "CONSTANT" in name]


def test_static_shared_memory_is_what_is_planned(binary):
    """`usage_of` reads the last kernel of a cubin, which is the walk."""
    capability, key_dim, code = binary
    assert capability in TARGETS
    assert usage_of(code)["SHARED"] == shared_bytes(1, key_dim) + RESERVED


@pytest.mark.parametrize("capability", TARGETS)
def test_all_tiles_of_a_27b_are_resident_on_hopper_and_two_or_more_a_multiprocessor_else(
    capability,
):
    usage = usage_of(cubin(128, 128, TARGETS[capability]))
    registers = -(-usage["REG"] // 8) * 8 * WARP
    blocks = num_tiles(HEADS_OF_27B, 128)
    for num_rows in (1, 16, 32):
        shared = shared_bytes(num_rows, 128) + RESERVED
        room = min(SHARED_OF_AN_SM[capability] // shared, REGISTERS_OF_AN_SM // registers)
        assert room >= (-(-blocks // NUM_SMS[capability]) if capability == 90 else 2)


def test_a_blocks_shared_memory_is_within_the_limit_for_all_that_fits():
    for key_dim in range(1, 2 * MAX_KEY_DIM):
        if fits(key_dim, COLUMNS):
            for num_rows in range(1, 33):
                assert shared_bytes(num_rows, key_dim) <= min(MAX_SHARED_BYTES.values())


def test_limits_are_those_of_the_gpus():
    assert MAX_SHARED_BYTES == {90: 232_448, 121: 101_376}
