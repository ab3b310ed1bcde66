"""Say which heads the walk's kernel takes, and what a launch of it holds. Pure Python.

There is one order of every sum (`walk.cu`) and no choice changes it: the bits are the same in every
launch on every GPU.
"""

COLUMNS = 16
"""Columns of a head's state that one warp, and so one block, keeps in registers."""

STAGES = 4
"""Rows of a warp's two rings in shared memory, as in walk_ring.cuh."""

KEY_STRIDE = 32
"""Keys that eight lanes take at a time, four each: D is a multiple of it."""

MAX_KEY_DIM = 128
"""Largest D: a lane keeps D / 2 numbers of the state, and as many again of keys and queries."""

WARP = 32


def macros(key_dim: int, value_dim: int) -> dict[str, int]:
    """Return the compile-time constants of walk.cu for heads of D keys and E values."""
    return {"KEY_DIM": key_dim, "VALUE_DIM": value_dim}


def fits(key_dim: int, value_dim: int) -> bool:
    """Say whether the kernel takes heads of D keys and E values."""
    whole = key_dim % KEY_STRIDE == 0 and value_dim % COLUMNS == 0
    return whole and 0 < key_dim <= MAX_KEY_DIM and value_dim > 0


def num_tiles(heads: int, value_dim: int) -> int:
    """Return the tiles of a layer, one block each."""
    return heads * value_dim // COLUMNS


def most_kept(num_rows: int) -> int:
    """Return the states that the walk of a tree of so many rows keeps at once, at most.

    A state is kept while the smaller of two subtrees is walked. To keep n states takes a row and
    two subtrees that each keep n - 1: 2^(n+1) - 1 rows.
    """
    return max(0, (num_rows + 1).bit_length() - 2)


def kept_bytes(num_rows: int, key_dim: int) -> int:
    """Return the dynamic shared memory of a block: fp32 tiles for the states kept."""
    return most_kept(num_rows) * key_dim * COLUMNS * 4


def shared_bytes(num_rows: int, key_dim: int) -> int:
    """Return all shared memory of a block: with the rings of pending rows and of rows.

    A pending row is k and 16 values of u, a row k, q and 16 values of v in bf16.
    """
    slot = 4 * (key_dim + COLUMNS) + 4 * 2 * key_dim + 2 * COLUMNS
    return kept_bytes(num_rows, key_dim) + STAGES * slot
