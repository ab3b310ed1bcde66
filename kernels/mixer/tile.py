"""Say which layers and rows the joined launch takes, and how its block is cut. Pure Python."""

from kernels.delta.tile import WARP, most_kept

MOST_ROWS = 3
"""Rows of a call at most. Every block convolves and multiplies all of them for its own head: of
more rows that takes longer than the launch it saves (README)."""

HEAD_DIM = 128
"""Channels of a head: a warp convolves one, four channels a lane."""

COLUMNS = 8
"""Columns of the state that a warp keeps in registers."""

TILE_WARPS = 8
"""Warps of a block that hold such a tile each: half a head's."""

GATE_WARPS = 4
"""Warps of a block that multiply a | b, as in mixer_problem.cuh."""

SHARE = 4
"""Inputs of a | b that a thread reads at a time."""


def takes(num_rows: int, key_dim: int, value_dim: int, num_inputs: int) -> bool:
    """Say whether the kernel takes rows of a layer with heads of D keys and E values."""
    whole = key_dim == value_dim == HEAD_DIM and num_inputs % SHARE == 0
    return whole and 1 <= num_rows <= MOST_ROWS


def macros(num_rows: int, num_inputs: int, *, gated: bool) -> dict[str, int]:
    """Return the compile-time constants of mixer.cu."""
    return {
        "KEY_DIM": HEAD_DIM,
        "VALUE_DIM": HEAD_DIM,
        "TILE_COLUMNS": COLUMNS,
        "WARPS": TILE_WARPS,
        "ROWS": num_rows,
        "KEPT": most_kept(num_rows),
        "INPUTS": num_inputs,
        "GATED": int(gated),
    }


def blocks_of_head() -> int:
    """Return the blocks that share a head: a cluster, where its outputs are gated."""
    return HEAD_DIM // (COLUMNS * TILE_WARPS)


def num_blocks(heads: int) -> int:
    """Return the blocks of a layer of so many value heads."""
    return heads * blocks_of_head()


def num_threads() -> int:
    """Return the threads of a block."""
    return WARP * (TILE_WARPS + GATE_WARPS)
