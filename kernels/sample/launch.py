"""Fix how the sampling kernels cut a row, and how they are launched. Pure Python.

Fixed for every GPU and every number of rows, so that a row's choice knows nothing of its company.
"""

MAX_ROWS = 32
"""Rows of a call, and of the tables of a tree."""

CHUNK = 2048
"""Logits of a row that one program reads."""

GROUP = 64
"""Neighbouring logits whose largest key stands for them when the most likely ids are sought."""

MAX_TOP = 32
"""Largest top_k that is served by sorting; a larger one is found by a search."""

SEARCH_STEPS = 14
"""Launches of one search: the first cuts 30 temperatures into 15 parts, each other one divides
what is left by 16, and 16^13 = 2^52 is more than there are keys."""

OPTIONS = {"num_warps": 4, "enable_fp_fusion": False}
TOP_OPTIONS = {"num_warps": 16, "enable_fp_fusion": False}
ACCEPT_OPTIONS = {"num_warps": 1}


def num_chunks(num_logits: int) -> int:
    """Return the chunks of a row."""
    return -(-num_logits // CHUNK)


def num_groups(num_logits: int) -> int:
    """Return the groups of a row."""
    return -(-num_logits // GROUP)


def lanes_of(count: int) -> int:
    """Return the power of two that holds a count."""
    return max(2, 1 << (count - 1).bit_length())
