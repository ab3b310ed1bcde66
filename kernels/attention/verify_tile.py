"""Choose how a verify of attention is launched: data that changes no bit.

A block holds rows of one KV head as 16-row tiles of the matrix unit and reads its chunk once for
all of them. Shared memory bounds how many: a multiprocessor of sm_90 has room for 96 (16 rows of
the verify at 6 query heads a KV head), one of sm_121 for 48. More rows make more row groups, each
with its own pass over the chunk.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from kernels.attention.chunks import TILE
from kernels.common.chips import Capability
from kernels.common.round import MAX_ROWS

Sm = Literal[90, 100, 121]
"""A kind of multiprocessor, by the memory it has and what its matrix unit takes."""

HEAD_DIM = 256

SIDE = 128
"""Columns of a partial result whose fp16 sums share a power of two (partials.cuh)."""

MOST_UNITS = 32
"""Fills of all rings of a block at most: there are barriers for as many."""

MAX_UNITS = {2: 32, 1: 16}
"""Units of all rings of a block at most, by bytes of a stored number: 128 KiB of codes are more
than one multiprocessor needs on their way."""

SHORTEST = 1024
"""Context class whose chunks find a block each in two groups of rows."""

SHORT = 4096
"""Context class up to which chunks are few, and rows in two groups use more multiprocessors."""

LONG = 8192
"""Context class from which on there are chunks enough for two streams of a block."""

UNDER_WAY = 64 << 10
"""Bytes that a multiprocessor of sm_90 has asked for of a long context, enough for all of the
bandwidth. What else is asked for stands behind them: the merging of the rows before."""

AHEAD = 128 << 10
"""Bytes behind its rings that it asks the L2 for before a predecessor has ended, of few rows:
what is merged of many takes the room and the time."""

FEW_LINES = 32
"""Rows of the matrix unit that are few."""

SHARED_OF_AN_SM: Mapping[Sm, int] = {90: 233_472, 100: 233_472, 121: 102_400}
"""Bytes of shared memory of a multiprocessor, by its kind."""

RESERVED = 1024
"""Bytes of shared memory that the system keeps of each block."""

MAX_TILES = {90: 6, 100: 6, 121: 3}
"""16-row tiles of a block at most, that rows fill."""

WARPS_OF_CODES = 8
"""Warps of a block of verify_codes.cu that compute, all of them together."""


@dataclass(frozen=True)
class VerifyTile:
    """One launch choice.

    Attributes:
        m_tiles: 16-row tiles of a block.
        streams: chunks that a multiprocessor computes at a time: a block's of BF16, of codes each a
            block's of its own.
        team: warps that share the columns of the same sums; of codes all eight.
        units: fills of a stream's ring, at least those of a tile's keys and the rows' own.
        wide: four warps multiply together, 64 rows of the matrix unit at a time; sm_90 alone.
        kv_bytes: of a stored number: 2 for BF16, 1 for e4m3. No choice: it is the store's.
        under_way: fills of a stream's ring that are asked for and not there yet, at most.
        behind: fills behind those of the ring that the L2 is asked for before a predecessor has
            ended.
    """

    m_tiles: int
    streams: int
    team: int
    units: int
    kv_bytes: int = 2
    wide: bool = False
    under_way: int = MOST_UNITS
    behind: int = 0

    @property
    def kernel(self) -> str:
        """The stem of its source, and its name there."""
        return "verify" if self.kv_bytes == 2 else "verify_codes"

    @property
    def per_sm(self) -> int:
        """Blocks launched for each multiprocessor, which has shared memory for as many."""
        return 1 if self.kv_bytes == 2 else self.streams

    def macros(self, share: int) -> Mapping[str, int]:
        """Return what its source is compiled with, for `share` query heads a KV head."""
        return {
            "SHARE": share,
            "M_TILES": self.m_tiles,
            "STREAMS": self.streams // self.per_sm,
            "TEAM": self.team,
            "UNITS": self.units,
            "UNDER_WAY": self.under_way,
            "BEHIND": self.behind,
            "WIDE": int(self.wide),
            "MIN_BLOCKS": self.per_sm,
            "KV_BYTES": self.kv_bytes,
        }

    @property
    def threads(self) -> int:
        """Threads of a block: warps that compute, and one for each ring, or four for many sums."""
        if self.kv_bytes == 1:
            return 32 * (WARPS_OF_CODES + (4 if self.m_tiles >= 4 else 1))
        if self.wide:
            return 32 * (self.m_tiles + (4 if self.m_tiles > 4 else 1))
        return 32 * self.streams * (self.m_tiles * self.team + 1)

    @property
    def unit(self) -> int:
        """Positions of one fill of the ring."""
        return 64 if self.wide else 32

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block; verify_problem.cuh lays it out."""
        rings = self.streams // self.per_sm * self.units * self.unit * HEAD_DIM * self.kv_bytes
        return rings + _fixed_bytes(self.m_tiles, self.kv_bytes)

    def fits(self, sm: Sm) -> bool:
        """Say whether the planned blocks fit a multiprocessor."""
        held = self.per_sm * (self.shared_bytes + RESERVED)
        rings = self.streams // self.per_sm
        enough = TILE // self.unit < self.units <= MAX_UNITS[self.kv_bytes] // rings
        # of codes: a block whose warps hand on registers wants all of a multiprocessor
        crew = self.team == WARPS_OF_CODES and (self.m_tiles < 4 or self.streams == 1)
        fours = self.streams == self.team == 1 and self.m_tiles % 4 == 0 and sm == 90
        fitting = enough and (crew or self.kv_bytes == 2) and (fours or not self.wide)
        return fitting and held <= SHARED_OF_AN_SM[sm]


def sm_of(capability: Capability) -> Sm:
    """Return the kind of multiprocessor whose tiles a GPU takes."""
    kinds: dict[int, Sm] = {9: 90, 10: 100}
    return kinds.get(capability[0], 121)


@dataclass(frozen=True)
class RowGroups:
    """How rows are shared out: `number` groups of `rows` rows, the last may have fewer."""

    number: int
    rows: int


def row_groups(rows: int, share: int, sm: Sm, max_context: int, kv_bytes: int = 2) -> RowGroups:
    """Cut rows evenly into the fewest groups that fit a block, of a short context in two at least.

    In the class behind the shortest a block has two chunks in turn: rows go in groups of the 64
    rows that sm_90 multiplies at a time, whose blocks have half as much to do between loads.

    Args:
        rows: T, 1 to 32.
        share: query heads a KV head.
        sm: the kind of multiprocessor.
        max_context: the context class.
        kv_bytes: of a stored number.
    """
    most = 16 * MAX_TILES[sm] // share
    number = -(-rows // most)
    if max_context <= SHORT and sm != 121 and 2 * rows > most:
        number = max(number, 2)
    if SHORTEST < max_context <= 2 * SHORTEST and sm == 90 and kv_bytes == 2:
        number = max(number, -(-rows // (64 // share)))
    return RowGroups(number, -(-rows // number))


def default(group_rows: int, share: int, sm: Sm, max_context: int, kv_bytes: int = 2) -> VerifyTile:
    """Return the launch choice for groups of so many rows in a context class.

    From two tiles on warps of sm_90 multiply together. A long context has chunks enough for two
    streams of a multiprocessor, where their rings and sums find room.
    Few warps are made twice as many, which share columns. Of a long context sm_90 asks in measure.
    """
    m_tiles = -(-group_rows * share // 16)
    long = max_context > LONG and sm != 121
    wide = sm == 90 and kv_bytes == 2 and m_tiles > 1
    if wide:
        m_tiles = -(-m_tiles // 4) * 4
    unit = 64 if wide else 32
    streams = 2 if long and m_tiles <= (3 if kv_bytes == 2 else 1) else 1
    team = WARPS_OF_CODES if kv_bytes == 1 else 2 if m_tiles * streams <= 3 else 1
    blocks = 1 if kv_bytes == 2 else streams
    rings = streams // blocks
    room = SHARED_OF_AN_SM[sm] // blocks - RESERVED - _fixed_bytes(m_tiles, kv_bytes)
    units = min(MAX_UNITS[kv_bytes], room // (unit * HEAD_DIM * kv_bytes)) // rings
    tile = VerifyTile(m_tiles, streams, team, units, kv_bytes, wide)
    if sm != 90 or kv_bytes == 1 or max_context <= SHORT:
        return tile
    fill = streams * unit * HEAD_DIM * kv_bytes
    behind = min(units, AHEAD // fill) if group_rows * share <= FEW_LINES else 0
    return replace(tile, under_way=UNDER_WAY // fill, behind=behind)


def _fixed_bytes(m_tiles: int, kv_bytes: int) -> int:
    """Count what is not a ring: queries, barriers, zeros, work, paths, depths.

    Of codes also scales, maxima and weights, whose rows are padded by 16 bytes.
    """
    rows = 16 * m_tiles
    more = 0
    if kv_bytes == 1:
        score_columns = WARPS_OF_CODES // (2 if m_tiles % 2 == 0 else 1)
        more = rows * (4 * (1 + score_columns) + 2 * TILE + 16)
    return rows * 2 * HEAD_DIM + 512 + 128 + 32 + MAX_ROWS * MAX_ROWS + 4 * MAX_ROWS + more
