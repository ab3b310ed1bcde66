"""Say how the sampling kernels are launched. Pure Python."""

from kernels.common.launch_options import launch_options

SEARCH_STEPS = 14
"""Launches of one search: the first cuts 30 temperatures into 15 parts, each other one divides
what is left by 16, and 16^13 = 2^52 is more than there are keys."""

OPTIONS = launch_options(4)
TOP_OPTIONS = launch_options(16)
ACCEPT_OPTIONS = launch_options(1)
