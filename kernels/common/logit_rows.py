"""Fix how kernels cut a row of logits. Pure Python.

Fixed for every GPU and every number of rows: a row's choice knows nothing of its company, and the
sum of its log-probability has one order.
"""

MAX_IDS = 1 << 20
"""Token ids that a key of `ordered_keys.py` has room for."""

CHUNK = 2048
"""Logits of a row that one program reads: 122 programs a row of the 27B, one for each SM of an
H200."""

GROUP = 64
"""Neighbouring logits whose largest key stands for them when the best k are sought."""

MAX_TOP = 32
"""Most ids that the best k may be."""


def num_chunks(num_logits: int) -> int:
    """Return the chunks of a row."""
    return -(-num_logits // CHUNK)


def num_groups(num_logits: int) -> int:
    """Return the groups of a row."""
    return -(-num_logits // GROUP)


def lanes_of(count: int) -> int:
    """Return the power of two that holds a count."""
    return max(2, 1 << (count - 1).bit_length())
