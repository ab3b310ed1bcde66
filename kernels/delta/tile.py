"""Say which heads the walk's kernel takes, and what a launch of it holds. Pure Python.

There is one order of every sum (`walk.cu`) and no choice changes it: the bits are the same in every
launch on every GPU.
"""

from kernels.common.round import MAX_ROWS

COLUMNS = {False: 16, True: 8}
"""Columns of a head's state that one warp keeps in registers, by whether a gate follows.

A row costs a warp some instructions besides those of its columns, so wide tiles are quicker where
each is alone on its scheduler. A gated head's meet in few multiprocessors, where narrow ones fill
the schedulers."""

STAGES = 4
"""Rows of a warp's two rings in shared memory, as in walk_ring.cuh."""

KEY_STRIDE = 32
"""Keys that eight lanes take at a time, four each: D is a multiple of it."""

VALUE_STRIDE = 16
"""E is a multiple of it: a head's tiles pair up, so that those of a gated one make a cluster."""

MAX_KEY_DIM = 128
"""Largest D: a lane keeps D / 2 numbers of the state, and as many again of keys and queries."""

MAX_GATED_DIM = 128
"""Largest E of a walk that ends in a gate: the blocks of a head are one cluster, of at most 8."""

WARP = 32

WARPS = {False: 1, True: 2}
"""Warps of a block, which divide the tiles of a head. Without a gate they have nothing to tell each
other; of a gated head 99 KiB hold those of two. An H200 has another kernel for most (team.py)."""


def macros(key_dim: int, value_dim: int, *, gated: bool) -> dict[str, int]:
    """Return the compile-time constants of walk.cu for heads of D keys and E values."""
    return {
        "KEY_DIM": key_dim,
        "VALUE_DIM": value_dim,
        "TILE_COLUMNS": COLUMNS[gated],
        "WARPS": WARPS[gated],
        "GATED": int(gated),
        "HELD_BYTES": held_bytes(key_dim, value_dim, gated=gated),
    }


def fits(key_dim: int, value_dim: int) -> bool:
    """Say whether the kernel takes heads of D keys and E values."""
    whole = key_dim % KEY_STRIDE == 0 and value_dim % VALUE_STRIDE == 0
    return whole and 0 < key_dim <= MAX_KEY_DIM and value_dim > 0


def tiles_of(value_dim: int, *, gated: bool) -> int:
    """Return the tiles of a head, one warp each."""
    return value_dim // COLUMNS[gated]


def most_kept(num_rows: int) -> int:
    """Return the states that the walk of a tree of so many rows keeps at once, at most.

    A state is kept while the smaller of two subtrees is walked. To keep n states takes a row and
    two subtrees that each keep n - 1: 2^(n+1) - 1 rows.
    """
    return max(0, (num_rows + 1).bit_length() - 2)


def held_bytes(key_dim: int, value_dim: int, *, gated: bool) -> int:
    """Return the shared memory of a block beside kept states: rings, and what a gate needs.

    A pending row is k and a tile's values of u, a row k, q and those of v in bf16. For a gate every
    row holds outputs and values of z, and a sum a tile; a barrier fills 16 bytes.
    """
    columns, warps = COLUMNS[gated], WARPS[gated]
    slot = 4 * (key_dim + columns) + 4 * 2 * key_dim + 2 * columns
    part = MAX_ROWS * 2 * 2 * columns
    head = MAX_ROWS * 4 * tiles_of(value_dim, gated=gated) + 16
    return warps * STAGES * slot + (warps * part + head if gated else 0)


def shared_bytes(num_rows: int, key_dim: int, value_dim: int, *, gated: bool) -> int:
    """Return all shared memory of a block: with an fp32 tile a warp for each state kept."""
    kept = WARPS[gated] * most_kept(num_rows) * key_dim * COLUMNS[gated] * 4
    return held_bytes(key_dim, value_dim, gated=gated) + kept
