"""Both kernels of the chunked form fit both GPUs: registers, shared memory, no spill, no atomic."""

import pytest

from kernels.common.compile import disassembly_of, mnemonics_of, usage_of
from kernels.common.shared_memory import MAX_SHARED_BYTES
from kernels.delta.prefill_launch import chunk_cubin, walk_cubin
from kernels.delta.prefill_tile import (
    BY_FOUR_WARPS,
    BY_ONE_WARP,
    CHUNK_SHARED_BYTES,
    CHUNK_WARPS,
    WIDTH,
    PrefillTile,
    default,
)
from tests.kernels.compiling import bases

CAPABILITIES = {90: (9, 0), 121: (12, 1)}
NUM_SMS = {90: 132, 121: 48}
REGISTERS_OF_AN_SM = 65_536
HEADS_OF_27B = 48
STATE, REST = 2 * 8 * 8, 3 * 2 * 10
"""Products of 16 x 8 x 16 that a warp of the walk makes of a chunk: with parts of the state, with
keys or with queries; and of write or mix with what is left of values, on and below the diagonal."""


WAITS = 10
"""Places where four warps wait for products: three a meeting, three in the loop, one behind."""


@pytest.fixture(scope="module", params=CAPABILITIES)
def capability(request) -> int:
    return request.param


@pytest.fixture(scope="module")
def walk(capability) -> bytes:
    return walk_cubin(default(CAPABILITIES[capability]), CAPABILITIES[capability])


@pytest.fixture(scope="module")
def chunk(capability) -> bytes:
    return chunk_cubin(CAPABILITIES[capability])


def assert_nothing_spilt(code: bytes) -> None:
    usage = usage_of(code)
    assert usage["STACK"] == usage["LOCAL"] == 0
    assert not bases(mnemonics_of(code)).keys() & {"LDL", "STL"}


def assert_no_atomic(code: bytes) -> None:
    assert not bases(mnemonics_of(code)).keys() & {"RED", "ATOM", "ATOMG", "ATOMS", "REDG"}


def test_the_walk_keeps_nothing_in_local_memory(walk):
    assert_nothing_spilt(walk)
    assert_no_atomic(walk)


def test_what_prepares_chunks_keeps_nothing_in_local_memory(chunk):
    assert_nothing_spilt(chunk)
    assert_no_atomic(chunk)


@pytest.mark.parametrize(("gpu", "tile"), [(121, BY_ONE_WARP), (90, PrefillTile(64, 2))])
def test_a_chunk_takes_a_warp_the_products_that_were_counted(gpu, tile):
    """Three with parts of the state or of writes; zeros above the diagonal are not multiplied."""
    names = mnemonics_of(walk_cubin(tile, CAPABILITIES[gpu]))
    assert names["HMMA.16816.F32.BF16"] == bases(names)["HMMA"] == 3 * STATE + 2 * REST


def test_four_warps_together_do_not_wait_for_each_product():
    """The walk meets its first chunk before the loop, and each next one at the end of it."""
    names = mnemonics_of(walk_cubin(BY_FOUR_WARPS, CAPABILITIES[90]))
    asks, rest, writes = 2 * 2 * 8, 2 * 3 * 6, 2 * 2 * 4
    assert bases(names)["HGMMA"] == 2 * asks + rest + writes
    assert names["WARPGROUP.DEPBAR.LE"] == WAITS


def test_operands_are_copied_while_products_run(walk):
    counts = bases(mnemonics_of(walk))
    assert counts["LDGSTS"] > 0
    assert counts["UBLKCP"] >= 2


def test_what_the_kernel_before_prepared_is_read_after_it_has_ended(walk, chunk):
    text = disassembly_of(walk)
    assert mnemonics_of(walk)["ACQBULK"] == mnemonics_of(chunk)["PREEXIT"] == 1
    assert text.index("ACQBULK") < text.index("UBLKCP")


def test_a_block_of_the_walk_fits(capability, walk):
    tile = default(CAPABILITIES[capability])
    assert tile.shared_bytes() <= MAX_SHARED_BYTES[capability]
    assert usage_of(walk)["REG"] * tile.threads <= REGISTERS_OF_AN_SM
    assert HEADS_OF_27B * WIDTH // tile.values <= NUM_SMS[capability]


def test_a_multiprocessor_has_room_for_the_blocks_that_prepare_chunks(capability, chunk):
    at_once = {90: 3, 121: 2}[capability]
    reserved = 1024
    assert at_once * (CHUNK_SHARED_BYTES + reserved) <= MAX_SHARED_BYTES[capability] + reserved
    assert at_once * usage_of(chunk)["REG"] * 32 * CHUNK_WARPS <= REGISTERS_OF_AN_SM


def test_each_gpu_has_its_launch():
    assert default((9, 0)) == BY_FOUR_WARPS
    assert default((12, 1)) == default((12, 0)) == default((8, 9)) == BY_ONE_WARP
