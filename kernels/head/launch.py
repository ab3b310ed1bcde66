"""Fix how the kernels cut a row, and how they are launched. Pure Python.

Fixed for every GPU and every number of rows: the log-probability's sum has one order.
"""

CHUNK = 2048
"""Logits of a row that one program reads: 122 programs a row of the 27B, one for each SM of an
H200."""

CHUNK_PAIRS = 11
"""log2 of `CHUNK`."""

GROUP = 64
"""Neighbouring logits whose largest key stands for them when the best k are sought."""

MAX_TOP = 32
"""Most ids that the best k may be."""

CHUNK_OPTIONS = {"num_warps": 4, "enable_fp_fusion": False}
ROW_OPTIONS = {"num_warps": 4, "enable_fp_fusion": False}
TOP_OPTIONS = {"num_warps": 16, "enable_fp_fusion": False}


def num_chunks(num_logits: int) -> int:
    """Return the chunks of a row."""
    return -(-num_logits // CHUNK)


def num_groups(num_logits: int) -> int:
    """Return the groups of a row."""
    return -(-num_logits // GROUP)


def lanes_of(count: int) -> int:
    """Return the power of two that holds a count."""
    return max(2, 1 << (count - 1).bit_length())
