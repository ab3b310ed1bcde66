"""Choose how a verify of attention is launched: data that changes no bit.

A block holds rows of one KV head as 16-row tiles of the matrix unit and reads its chunk once for
all of them. Shared memory bounds how many: a multiprocessor of sm_90 has room for 96 (16 rows of
the verify at 6 query heads a KV head), one of sm_121 for 48. More rows make more row groups, each
with its own pass over the chunk.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kernels.common.round import MAX_ROWS

HEAD_DIM = 256

UNIT = 32
"""Positions of one fill of the ring."""

MAX_UNITS = 32
"""Units of all rings of a block."""

LONG = 8192
"""Context class from which on there are chunks enough for two streams of a block."""

SHARED_OF_AN_SM = {90: 233_472, 121: 102_400}
"""Bytes of shared memory of a multiprocessor, by compute capability."""

RESERVED = 1024
"""Bytes of shared memory that the system keeps of each block."""

MAX_TILES = {90: 6, 121: 3}
"""16-row tiles of a block at most."""

Capability = Literal[90, 121]

_Q_BYTES = 2 * HEAD_DIM


@dataclass(frozen=True)
class VerifyTile:
    """One launch choice.

    Attributes:
        m_tiles: 16-row tiles of a block.
        streams: chunks that a block computes at a time.
        team: warps that compute the same rows of a stream, each its part of the columns of values.
        units: fills of 32 positions that a stream's ring holds, at least 3.
        kv_bytes: of a stored number: 2 for BF16, 1 for e4m3. No choice: it is the store's.
        wide: multiply by four warps together, whole tiles of BF16 on sm_90; 16-row tiles in fours.
    """

    m_tiles: int
    streams: int
    team: int
    units: int
    kv_bytes: int = 2
    wide: bool = False

    def macros(self, share: int) -> Mapping[str, int]:
        """Return what verify.cu is compiled with, for `share` query heads a KV head."""
        return {
            "SHARE": share,
            "M_TILES": self.m_tiles,
            "STREAMS": self.streams,
            "TEAM": self.team,
            "UNITS": self.units,
            "KV_BYTES": self.kv_bytes,
            "WIDE": int(self.wide),
        }

    @property
    def threads(self) -> int:
        """Threads of a block: those that compute, and a warp for each stream that feeds its ring."""
        warps = self.streams * self.m_tiles * self.team
        return 32 * (warps + (4 if self.wide and warps == 8 else self.streams))

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block; verify_problem.cuh lays it out."""
        return _fixed_bytes(self.m_tiles) + self.streams * self.units * _unit_bytes(self.kv_bytes)

    def fits(self, capability: Capability) -> bool:
        """Say whether a block fits a multiprocessor."""
        held = self.shared_bytes + RESERVED
        enough = self.units >= 3 and self.streams * self.units <= MAX_UNITS
        return enough and held <= SHARED_OF_AN_SM[capability]


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

    In a short context a block has one chunk, and warps that would have none share its columns.
    """
    m_tiles = -(-group_rows * share // 16)
    room = SHARED_OF_AN_SM[capability] - RESERVED - _fixed_bytes(m_tiles)
    room //= _unit_bytes(kv_bytes)
    long = max_context > LONG
    most = min(2 if kv_bytes == 2 else 4, 8 // (m_tiles + 1)) if long else 1
    streams = max(1, min(most, room // 4))
    team = 1 if long else max(1, 4 // m_tiles)
    return VerifyTile(m_tiles, streams, team, min(MAX_UNITS, room) // streams, kv_bytes)


def _unit_bytes(kv_bytes: int) -> int:
    return UNIT * HEAD_DIM * kv_bytes


def _fixed_bytes(m_tiles: int) -> int:
    """Count what is not the ring: barriers, zeros, work, paths, depths, Q."""
    return 512 + 128 + 32 + MAX_ROWS * MAX_ROWS + 4 * MAX_ROWS + 16 * m_tiles * _Q_BYTES
