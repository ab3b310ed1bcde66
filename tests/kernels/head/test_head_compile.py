"""Every kernel of the head compiles for both GPUs within a block's resources."""

import pytest

from kernels.common.logit_rows import CHUNK, GROUP, MAX_TOP, lanes_of, num_chunks, num_groups
from kernels.head import kernel
from kernels.head.launch import CHUNK_OPTIONS, CHUNK_PAIRS, ROW_OPTIONS, TOP_OPTIONS
from tests.kernels.compiling import assert_fits, compile_launch

VOCABULARY = 248_320
CHUNKS = lanes_of(num_chunks(VOCABULARY))
POINTERS = {
    "logits_ptr": "*fp32", "best_ptr": "*i64", "sums_ptr": "*fp32", "logprobs_ptr": "*fp32",
    "values_ptr": "*fp32",
}  # fmt: skip
CHUNKED = {"CHUNK": CHUNK, "PAIRS": CHUNK_PAIRS}
LAUNCHES = {
    "best of a chunk": (kernel.best_of_chunk_kernel, CHUNK_OPTIONS,
                        CHUNKED | {"HAS_MAP": 0, "HAS_BANNED": 0, "LOGPROB": 0, "OVERLAP": 0}),
    "with all options": (kernel.best_of_chunk_kernel, CHUNK_OPTIONS,
                         CHUNKED
                         | {"HAS_MAP": 1, "HAS_BANNED": 1, "LOGPROB": 1, "OVERLAP": 1}),
    "best of a row": (kernel.best_of_row_kernel, ROW_OPTIONS,
                      {"LOGPROB": 1, "LANES": CHUNKS, "PAIRS": CHUNKS.bit_length() - 1,
                       "OVERLAP": 1}),
    "best of groups": (kernel.best_of_group_kernel, CHUNK_OPTIONS,
                       {"CHUNK": CHUNK, "GROUP": GROUP}),
    "best k of a row": (kernel.top_of_row_kernel, TOP_OPTIONS,
                        {"GROUP": GROUP, "LANES": lanes_of(num_groups(VOCABULARY)),
                         "TOP": MAX_TOP}),
}  # fmt: skip


@pytest.mark.parametrize("capability", [90, 121])
@pytest.mark.parametrize("launch", LAUNCHES)
def test_a_launch_compiles_without_spills(launch, capability):
    function, options, constants = LAUNCHES[launch]
    assert_fits(compile_launch(function, constants, options, capability, POINTERS, pointer="*i32"))
