"""Say how the head's kernels are launched. Pure Python."""

CHUNK_PAIRS = 11
"""log2 of `logit_rows.CHUNK`: levels of a chunk's tree of sums."""

CHUNK_OPTIONS = {"num_warps": 4, "enable_fp_fusion": False}
ROW_OPTIONS = {"num_warps": 4, "enable_fp_fusion": False}
TOP_OPTIONS = {"num_warps": 16, "enable_fp_fusion": False}
