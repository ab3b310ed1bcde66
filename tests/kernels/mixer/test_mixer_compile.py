"""The joined launch fits both GPUs: registers, shared memory, no spill, no atomic."""

from itertools import product

import pytest

from kernels.common.compile import mnemonics_of, usage_of
from kernels.common.cuda_kernel import FREE_SHARED_BYTES
from kernels.mixer.launch import cubin
from kernels.mixer.tile import MOST_ROWS, num_blocks, num_threads
from tests.kernels.compiling import bases

CAPABILITIES = {90: (9, 0), 121: (12, 1)}
REGISTERS_OF_AN_SM = 65_536
NUM_SMS = 132
HEADS_OF_27B, WIDTH_OF_27B = 48, 5120


@pytest.fixture(
    scope="module",
    params=product(CAPABILITIES, range(1, MOST_ROWS + 1), (False, True)),
    ids=str,
)
def binary(request) -> bytes:
    capability, num_rows, gated = request.param
    return cubin(num_rows, WIDTH_OF_27B, CAPABILITIES[capability], gated=gated)


def test_nothing_is_kept_in_local_memory(binary):
    usage = usage_of(binary)
    assert usage["LOCAL"] == 0
    assert usage["STACK"] == 0
    assert not bases(mnemonics_of(binary)).keys() & {"LDL", "STL"}


def test_no_sum_is_added_by_an_atomic(binary):
    assert not bases(mnemonics_of(binary)).keys() & {"RED", "ATOM", "ATOMG", "ATOMS", "REDG"}


def test_shared_memory_needs_no_leave(binary):
    assert usage_of(binary)["SHARED"] <= FREE_SHARED_BYTES


def test_warps_never_part(binary):
    """What a warp does follows from its number: the compiler sees that, or shuffles would cost."""
    assert not bases(mnemonics_of(binary)).keys() & {"WARPSYNC"}


def test_a_block_fits_a_multiprocessor_and_a_layer_of_the_27b_is_resident_on_an_h200(binary):
    registers = -(-usage_of(binary)["REG"] // 8) * 8 * num_threads()
    assert registers <= REGISTERS_OF_AN_SM
    assert num_blocks(HEADS_OF_27B) <= NUM_SMS


def test_rows_are_read_after_the_predecessor_has_ended(binary):
    """By the warps that convolve; what is multiplied is older."""
    names = mnemonics_of(binary)
    assert names["ACQBULK"] == 1
    assert names["PREEXIT"] == 1
    assert not [name for name in names if name.startswith("LDG") and "CONSTANT" in name]
