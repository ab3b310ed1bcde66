"""Every kernel of sampling compiles for both GPUs within a block's resources."""

import pytest

from kernels.common import logit_rows
from kernels.sample import accept_kernel, draw_kernel, launch, logits_kernel, search_kernel
from kernels.sample import top_kernel as top
from tests.kernels.compiling import assert_fits, compile_launch

VOCABULARY = 248_320
CHUNKS = logit_rows.lanes_of(logit_rows.num_chunks(VOCABULARY))
GROUPS = logit_rows.lanes_of(logit_rows.num_groups(VOCABULARY))
POINTERS = {
    "logits_ptr": "*fp32", "floats_ptr": "*fp64", "ints_ptr": "*i64", "seen_ptr": "*u8",
    "generated_ptr": "*u8", "maxima_ptr": "*i64", "brackets_ptr": "*i64", "targets_ptr": "*fp64",
    "sums_ptr": "*i64", "floors_ptr": "*i64", "scores_ptr": "*fp64",
}  # fmt: skip
CHUNKED = {"CHUNK": logit_rows.CHUNK, "LANES": CHUNKS}
TOP = {"GROUP": logit_rows.GROUP, "LANES": GROUPS, "TOP": logit_rows.MAX_TOP}
SETTLED = {"LANES": CHUNKS}
LAUNCHES = {
    "best": (top.best_kernel, launch.OPTIONS, {"LANES": CHUNKS}),
    "settle": (search_kernel.settle_kernel, launch.OPTIONS,
               SETTLED | {"COUNTS": 0, "HAS_FLOOR": 1}),
    "draw of a row": (draw_kernel.draw_row_kernel, launch.OPTIONS, {"LANES": CHUNKS}),
    "accept": (accept_kernel.accept_kernel, launch.ACCEPT_OPTIONS, {}),
    "mark": (accept_kernel.mark_kernel, launch.ACCEPT_OPTIONS, {}),
}  # fmt: skip
for penalised in (0, 1):
    flags = {"PENALISED": penalised}
    name = " penalised" if penalised else ""
    LAUNCHES |= {
        f"maxima of groups{name}": (logits_kernel.maxima_kernel, launch.OPTIONS,
            flags | {"CHUNK": logit_rows.CHUNK, "GROUP": logit_rows.GROUP}),
        f"maxima of chunks{name}": (logits_kernel.maxima_kernel, launch.OPTIONS,
            flags | {"CHUNK": logit_rows.CHUNK, "GROUP": logit_rows.CHUNK}),
        f"draw among the top{name}": (top.draw_top_kernel, launch.TOP_OPTIONS, flags | TOP),
        f"count{name}": (search_kernel.search_kernel, launch.OPTIONS,
            flags | CHUNKED | {"COUNTS": 1, "HAS_FLOOR": 0}),
        f"weigh{name}": (search_kernel.search_kernel, launch.OPTIONS,
            flags | CHUNKED | {"COUNTS": 0, "HAS_FLOOR": 1}),
        f"draw of a chunk{name}": (draw_kernel.draw_chunk_kernel, launch.OPTIONS,
            flags | CHUNKED | {"HAS_FLOOR": 1}),
    }  # fmt: skip


@pytest.mark.parametrize("capability", [90, 121])
@pytest.mark.parametrize("launched", LAUNCHES)
def test_a_launch_compiles_without_spills(launched, capability):
    function, options, constants = LAUNCHES[launched]
    assert_fits(compile_launch(function, constants, options, capability, POINTERS, pointer="*i32"))
