"""Say how the head's kernels are launched. Pure Python."""

from kernels.common.launch_options import launch_options

CHUNK_PAIRS = 11
"""log2 of `logit_rows.CHUNK`: levels of a chunk's tree of sums."""

CHUNK_OPTIONS = launch_options(4)
ROW_OPTIONS = launch_options(4)
TOP_OPTIONS = launch_options(16)
