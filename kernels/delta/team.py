"""Say which walks are done by teams of two kinds of warps, and what a launch of one holds.

Pure Python. On an H200 a team has half a head of the 27B: four warps walk, one on each scheduler,
and four bring and finish the rows.
"""

from kernels.common.chips import Capability, measured_like
from kernels.common.round import MAX_ROWS
from kernels.delta.tile import most_kept

COLUMNS = 16
"""Columns of the state that one warp keeps in registers."""

WARPS = 4
"""Warps of a team that walk."""

BLOCK = WARPS * COLUMNS
"""Columns of a team."""

FINISHERS = 4
"""Warps that bring and finish rows."""

THREADS = 32 * (WARPS + FINISHERS)

ROWS_FROM = {False: 8, True: 1}
"""Rows from which teams are quicker, by whether a gate follows (README)."""


def takes(num_rows: int, value_dim: int, capability: Capability, *, gated: bool) -> bool:
    """Say whether walks of so many rows, of heads of E values, are this kernel's.

    It was measured on an H200, whose multiprocessors have room for all rows of a call.
    """
    whole = value_dim in (BLOCK, 2 * BLOCK)
    return measured_like(capability) == 90 and whole and num_rows >= ROWS_FROM[gated]


def blocks_of(value_dim: int) -> int:
    """Return the teams of a head, which are a cluster where it is gated."""
    return value_dim // BLOCK


def macros(key_dim: int, value_dim: int, *, gated: bool) -> dict[str, int]:
    """Return the compile-time constants of team.cu."""
    return {
        "KEY_DIM": key_dim,
        "VALUE_DIM": value_dim,
        "TILE_COLUMNS": COLUMNS,
        "WARPS": WARPS,
        "GATED": int(gated),
        "HELD_BYTES": _held_bytes(key_dim),
        "ROW_BYTES": _row_bytes(key_dim),
    }


def shared_bytes(num_rows: int, key_dim: int) -> int:
    """Return all shared memory of a block: with the tiles that its warps keep, and the rows."""
    kept = most_kept(num_rows) * 4 * key_dim * BLOCK
    return _held_bytes(key_dim) + kept + num_rows * _row_bytes(key_dim)


def _held_bytes(key_dim: int) -> int:
    """Return the bytes of any call.

    Barriers, what the other block of the head tells, gates of rows, u and S'q of rows, pending rows
    of k and u.
    """
    barriers, told, gates = 96, BLOCK + MAX_ROWS * 4, MAX_ROWS * 2 * 4
    found, pending = MAX_ROWS * 2 * 4 * BLOCK, MAX_ROWS * 4 * (key_dim + BLOCK)
    return barriers + told + gates + found + pending


def _row_bytes(key_dim: int) -> int:
    """Return the bytes of a row: k, q and a block's v."""
    return 4 * 2 * key_dim + 2 * BLOCK
