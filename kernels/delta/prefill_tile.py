"""Describe how the chunked delta rule is launched. Pure Python.

A GPU keeps one walk: its bits are those of the tensor cores' instructions. Nothing else here
changes one.
"""

from dataclasses import dataclass

from kernels.common.chips import Capability, has_wgmma
from kernels.delta.reference import CHUNK

WIDTH = 128
"""Width of keys and values that the kernels are built for."""

COLUMNS = 16
"""Columns of a state that one warp keeps in registers, as in prefill_walk.cuh."""

LOWER_BLOCKS = 10
"""Blocks of 16 x 16 on and below the diagonal of a chunk's matrix."""

PREPARED_BYTES = 4 * LOWER_BLOCKS * 16 * 16 * 2 + 4 * (2 * CHUNK + 4)
"""`Prepared` of prefill_products.cuh: two matrices in heads and tails, factors in fp32."""

CHUNK_WARPS = 4
"""Warps that prepare a chunk: one for each 16 tokens."""

CHUNK_SHARED_BYTES = 2 * CHUNK * WIDTH * 2 + 4 * CHUNK * 5
"""Shared memory of a block that prepares a chunk: keys and queries, whose place the triangular
system takes later, and five numbers a token."""


@dataclass(frozen=True)
class PrefillTile:
    """A launch of the walk over chunks.

    Attributes:
        values: columns of the state that a block holds: 64 or 128, a warp for every 16.
        buffers: chunks that a block has room for: 2, so that one is copied while one is walked, or
            1, where all but keys wait until the chunk before is done with their place.
        wgmma: walk by prefill_walk_wgmma.cu, which takes 64 values and 2 buffers.
    """

    values: int
    buffers: int
    wgmma: bool = False

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.values // COLUMNS

    def macros(self) -> dict[str, int]:
        """Return the compile-time constants of the walk."""
        return {
            "VALUES": self.values,
            "BUFFERS": self.buffers,
            "SHARED_BYTES": self.shared_bytes(),
        }

    def shared_bytes(self) -> int:
        """Return the shared memory of a block: keys twice, all else once a buffer."""
        rows, values = CHUNK * WIDTH * 2, CHUNK * self.values * 2
        barrier = 8
        held = 2 * rows + self.buffers * (rows + values + PREPARED_BYTES + barrier)
        return -(-held // 1024) * 1024


BY_FOUR_WARPS = PrefillTile(values=64, buffers=2, wgmma=True)
"""For 227 KiB of shared memory a block: 96 blocks for the 27B, four warps each."""

BY_ONE_WARP = PrefillTile(values=128, buffers=1)
"""For 99 KiB: 48 blocks for the 27B, as many as a GB10 has multiprocessors."""


def default(capability: Capability) -> PrefillTile:
    """Return the launch for a GPU."""
    return BY_FOUR_WARPS if has_wgmma(capability) else BY_ONE_WARP
