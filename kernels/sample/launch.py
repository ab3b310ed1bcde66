"""Say how the sampling kernels are launched. Pure Python."""

SEARCH_STEPS = 14
"""Launches of one search: the first cuts 30 temperatures into 15 parts, each other one divides
what is left by 16, and 16^13 = 2^52 is more than there are keys."""

OPTIONS = {"num_warps": 4, "enable_fp_fusion": False}
TOP_OPTIONS = {"num_warps": 16, "enable_fp_fusion": False}
ACCEPT_OPTIONS = {"num_warps": 1}
