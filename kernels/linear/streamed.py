"""Count what a block of skinny_streamed.cu holds. Pure Python.

Such a block has all its outputs in registers from the first step of K to the last, and activations
stream past beside the weights.
"""

from kernels.linear.formats import TILE_ROWS

GROUP_TILES = 4
"""Tiles of a warpgroup, one a warp: the 64 outputs of a wgmma instruction."""

MOST_GROUPS = 6
"""Warpgroups that multiply, of a block. With six, registers are so few that the compiler lets each
instruction wait for the one before; they are as fast where a block has one slice of K."""

BRINGERS = 4
"""Warps that bring activations, 8 rows each."""

SLICES = 8
"""Parts of K, whose sums are added as a binary tree of neighbours."""

LEVELS = {1: 2, 2: 1, 4: 0, 8: 0}
"""Sums of the tree over slices that wait in shared memory, by blocks that share K; one more waits
in registers."""

TILE_CODES_BYTES = 1024
"""NVFP4 codes of one tile and step."""

RUN_BYTES = 128
"""Scales of 16 rows of a weight and one step."""

STEP_X_BYTES = 2048
"""Activations of 8 rows and one step, as operands."""

SUMS_BYTES = 512
"""The fp32 sums of one tile and 8 rows."""


def streamed_bytes(
    groups: int, tiles: int, stages: int, splits: int, row_blocks: int, *, paired: bool, left: bool
) -> int:
    """Return the dynamic shared memory of a block.

    Args:
        groups: warpgroups that multiply.
        tiles: of a block.
        stages: steps that the ring holds.
        splits: blocks that share K.
        row_blocks: of 8 activation rows.
        paired: a tile is 8 rows of gate and 8 of up.
        left: a slice of tiles that are left over comes before the block's own.
    """
    barriers = aligned(8 * (2 * stages + 3 + BRINGERS))
    factors = (SLICES // splits + left) * 32 * 4
    scales = aligned((tiles + GROUP_TILES * left) * TILE_ROWS * 4)
    kept = GROUP_TILES * groups * LEVELS[splits] * row_blocks * SUMS_BYTES
    sent = 0 if splits == 1 else -(-tiles * row_blocks // splits) * splits * SUMS_BYTES
    runs = num_runs(tiles, paired=paired)
    slot = tiles * TILE_CODES_BYTES + runs * RUN_BYTES + row_blocks * STEP_X_BYTES
    return barriers + factors + scales + kept + sent + stages * slot


def left_bytes(num_tiles: int, row_blocks: int) -> tuple[int, int]:
    """Return the bytes of the sums of tiles that are left over, and of the counts of their slices.

    Args:
        num_tiles: that are left over, a multiple of four.
        row_blocks: of 8 activation rows.
    """
    return SLICES * num_tiles * row_blocks * SUMS_BYTES, num_tiles // GROUP_TILES * 4


def num_runs(tiles: int, *, paired: bool) -> int:
    """Return the runs of scales that a step of a block's tiles needs.

    Of a pair's tiles, 8 rows each of gate and up, the first may begin in the middle of a run.
    """
    return 2 * (tiles // 2 + 1) if paired else tiles


def aligned(num_bytes: int) -> int:
    """Round up to what the copy engine writes at."""
    return -(-num_bytes // 128) * 128
