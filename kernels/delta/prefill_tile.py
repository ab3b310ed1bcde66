"""Describe how the chunked delta rule is launched."""

from dataclasses import dataclass
from typing import Any

import torch

from kernels.delta.reference import CHUNK, LENGTH_EPS

WIDTH = 128
"""Width of keys and values that the kernels are built for."""

BLOCK = 16
"""Tokens of a diagonal block of the triangular system: substituted column by column."""


@dataclass(frozen=True)
class PrefillTile:
    """A launch of the two kernels.

    Attributes:
        values: columns of the state that one program of the walk holds: 16, 32, 64 or 128.
        chunk_warps: warps of a program that prepares a chunk.
        scan_warps: warps of a program of the walk.
        stages: chunks whose operands the walk holds in shared memory at once.
        part: channels of keys and queries that a program prepares a chunk from at once.

    Raises:
        ValueError: four warps walk with one stage, which Triton 3.6 compiles wrong for Hopper.
    """

    values: int
    chunk_warps: int
    scan_warps: int
    stages: int
    part: int = 64

    def __post_init__(self) -> None:
        if (self.scan_warps, self.stages) == (4, 1):
            raise ValueError(
                "PrefillTile: a walk of 4 warps with 1 stage reads wrong memory on Hopper (Triton "
                "3.6); take 2 stages or 8 warps"
            )

    def chunk_constants(self, heads_a_key: int) -> dict[str, Any]:
        """Return the constants of the kernel that prepares chunks."""
        return {
            "EPS": LENGTH_EPS,
            "PART": self.part,
            "HEADS_A_KEY": heads_a_key,
            "WIDTH": WIDTH,
            "CHUNK": CHUNK,
            "BLOCK": BLOCK,
        }

    def scan_constants(self, heads_a_key: int) -> dict[str, Any]:
        """Return the constants of the walk."""
        return {
            "HEADS_A_KEY": heads_a_key,
            "WIDTH": WIDTH,
            "CHUNK": CHUNK,
            "VALUES": self.values,
            "STAGES": self.stages,
        }

    def chunk_options(self) -> dict[str, Any]:
        """Return the launch options of the kernel that prepares chunks."""
        return {"num_warps": self.chunk_warps, "num_stages": 1}

    def scan_options(self) -> dict[str, Any]:
        """Return the launch options of the walk."""
        return {"num_warps": self.scan_warps, "num_stages": 1}


HOPPER = PrefillTile(values=64, chunk_warps=4, scan_warps=4, stages=2)
"""For 227 KiB of shared memory a block, where the next chunk is read while one is walked."""

SMALL = PrefillTile(values=32, chunk_warps=8, scan_warps=8, stages=1)
"""For 99 KiB."""


def of_capability(capability: int) -> PrefillTile:
    """Return the launch for a compute capability: 90 for an H200, 121 for a GB10."""
    return HOPPER if capability == 90 else SMALL


def default(device: torch.device) -> PrefillTile:
    """Return the launch for a device; a CPU, which interprets, takes the small one."""
    if device.type != "cuda":
        return SMALL
    major, minor = torch.cuda.get_device_capability(device)
    return of_capability(10 * major + minor)
