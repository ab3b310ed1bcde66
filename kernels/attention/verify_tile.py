"""Choose how a verify of attention is launched: data that changes no bit.

A block holds rows of one KV head as 16-row tiles of the matrix unit and reads its chunk once for
all of them. Shared memory bounds how many: a multiprocessor of sm_90 has room for 96 (16 rows of
the verify at 6 query heads a KV head), one of sm_121 for 48. More rows make more row groups, each
with its own pass over the chunk.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kernels.attention.chunks import TILE
from kernels.common.round import MAX_ROWS

HEAD_DIM = 256
WARPS = 8
"""Warps of a block that compute; one more feeds the ring."""

UNIT = 32
"""Positions of one fill of the ring."""

MAX_UNITS = {2: 13, 1: 16}
"""Units of a ring, by bytes of a stored number: 208 KiB of BF16, 128 of codes, more than one
multiprocessor needs on their way."""

LONG = 8192
"""Context class from which on two small blocks share a multiprocessor."""

SHARED_OF_AN_SM = {90: 233_472, 121: 102_400}
"""Bytes of shared memory of a multiprocessor, by compute capability."""

RESERVED = 1024
"""Bytes of shared memory that the system keeps of each block."""

MAX_TILES = {90: 6, 121: 3}
"""16-row tiles of a block at most."""

Capability = Literal[90, 121]

_Q_BYTES = 2 * HEAD_DIM + 16
_WEIGHT_BYTES = 2 * TILE + 16


@dataclass(frozen=True)
class VerifyTile:
    """One launch choice.

    Attributes:
        m_tiles: 16-row tiles of a block.
        units: fills of 32 positions that the ring holds, at least 3.
        per_sm: blocks launched for each multiprocessor, which has shared memory for as many.
        kv_bytes: of a stored number: 2 for BF16, 1 for e4m3. No choice: it is the store's.
    """

    m_tiles: int
    units: int
    per_sm: int
    kv_bytes: int = 2

    def macros(self, share: int) -> Mapping[str, int]:
        """Return what verify.cu is compiled with, for `share` query heads a KV head."""
        return {
            "SHARE": share,
            "M_TILES": self.m_tiles,
            "UNITS": self.units,
            "WARPS": WARPS,
            "MIN_BLOCKS": self.per_sm,
            "KV_BYTES": self.kv_bytes,
        }

    @property
    def threads(self) -> int:
        """Threads of a block: four warps more give their registers to many sums, else one."""
        return 32 * (WARPS + (4 if self.m_tiles >= 4 else 1))

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block; verify_problem.cuh lays it out."""
        return _fixed_bytes(self.m_tiles) + self.units * _unit_bytes(self.kv_bytes)

    def fits(self, capability: Capability) -> bool:
        """Say whether the planned blocks fit a multiprocessor."""
        held = self.per_sm * (self.shared_bytes + RESERVED)
        most = MAX_UNITS[self.kv_bytes]
        return 3 <= self.units <= most and held <= SHARED_OF_AN_SM[capability]


@dataclass(frozen=True)
class RowGroups:
    """How rows are shared out: `number` groups of `rows` rows, the last may have fewer."""

    number: int
    rows: int


def row_groups(rows: int, share: int, capability: Capability) -> RowGroups:
    """Cut rows evenly into the fewest groups that fit a block.

    Args:
        rows: T, 1 to 32.
        share: query heads a KV head.
        capability: 90 or 121.
    """
    most = 16 * MAX_TILES[capability] // share
    number = -(-rows // most)
    return RowGroups(number, -(-rows // number))


def default(
    group_rows: int, share: int, capability: Capability, max_context: int, kv_bytes: int = 2
) -> VerifyTile:
    """Return the launch choice for groups of so many rows in a context class.

    A multiprocessor of sm_90 has shared memory for two blocks of one 16-row tile. They pay where
    there are chunks for both; in a short context one block with a ring twice as long is faster.
    """
    m_tiles = -(-group_rows * share // 16)
    per_sm = 2 if capability == 90 and m_tiles == 1 and max_context > LONG else 1
    room = SHARED_OF_AN_SM[capability] // per_sm - RESERVED
    units = min(MAX_UNITS[kv_bytes], (room - _fixed_bytes(m_tiles)) // _unit_bytes(kv_bytes))
    return VerifyTile(m_tiles, units, per_sm, kv_bytes)


def _unit_bytes(kv_bytes: int) -> int:
    return UNIT * HEAD_DIM * kv_bytes


def _fixed_bytes(m_tiles: int) -> int:
    """Count what is not the ring: barriers, zeros, work, paths, depths, scales, maxima, Q, P."""
    rows = 16 * m_tiles
    score_columns = WARPS // (2 if m_tiles % 2 == 0 else 1)
    head = 256 + 128 + 32 + MAX_ROWS * MAX_ROWS + 4 * MAX_ROWS
    return head + 4 * rows * (1 + score_columns) + rows * (_Q_BYTES + _WEIGHT_BYTES)
