"""What a block may ask for is a fact of the GPU, not of a kernel."""

from kernels.common.shared_memory import MAX_SHARED_BYTES

KIB = 1 << 10


def test_a_block_may_ask_for_all_but_one_kib_of_a_multiprocessor():
    assert MAX_SHARED_BYTES == {90: (228 - 1) * KIB, 121: (100 - 1) * KIB}
