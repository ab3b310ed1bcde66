"""Say what a chip can do, and whose measurements choose its launches. Pure Python.

A family asks by what it needs, so that a further chip is added in one place and not wherever a
number is compared.
"""

from typing import Literal

Capability = tuple[int, int]
"""Compute capability, (major, minor)."""


def can_run_kernels(capability: Capability) -> bool:
    """Say whether a chip has what every kernel here relies on: sm_90 and later."""
    return capability[0] >= 9


def has_wgmma(capability: Capability) -> bool:
    """Say whether four warps of a chip multiply together, from shared memory: sm_90 alone."""
    return capability[0] == 9


def has_large_blocks(capability: Capability) -> bool:
    """Say whether a block may have 227 KiB of shared memory: sm_90, and sm_100 and its like."""
    return capability[0] in (9, 10)


def measured_like(capability: Capability) -> Literal[90, 121]:
    """Return whose measurements choose for a chip where time alone decides.

    Args:
        capability: of the chip.

    Returns:
        90, an H200, for those of its own kind; 121, a GB10, for every other one.
    """
    return 90 if capability[0] == 9 else 121
