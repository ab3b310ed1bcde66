"""Count what a block of skinny_streamed.cu holds. Pure Python.

Such a block has all its outputs in registers from the first step of K to the last, and activations
stream past beside the weights.
"""

from kernels.linear.formats import TILE_ROWS

GROUP_TILES = 4
"""Tiles of a warpgroup, one a warp: the 64 outputs of a wgmma instruction."""

MOST_GROUPS = 6
"""Warpgroups that multiply, of a block: sums of more find no registers."""

MOST_ALONE = 3
"""Warps of a block that multiply alone, by mma.sync."""

BRINGERS = 4
"""Warps that bring activations, 8 rows each."""

TILE_STEP_BYTES = 1152
"""NVFP4 codes and scales of one tile and step."""

STEP_X_BYTES = 2048
"""Activations of 8 rows and one step."""

SUMS_BYTES = 512
"""The fp32 sums of one tile and 8 rows."""


def streamed_multipliers(groups: int, tiles: int) -> int:
    """Return the warps of a block that multiply: those of warpgroups, and more with a tile alone."""
    return max(GROUP_TILES * groups, tiles)


def streamed_bytes(groups: int, tiles: int, stages: int, slices: int, row_blocks: int) -> int:
    """Return the dynamic shared memory of a block.

    Args:
        groups: warpgroups that multiply.
        tiles: of a block.
        stages: steps that the ring holds.
        slices: of K, of a block.
        row_blocks: of 8 activation rows.
    """
    barriers = _aligned(8 * (2 * stages + 1))
    factors = slices * 32 * 4
    scales = _aligned(tiles * TILE_ROWS * 4)
    levels = 2 if slices >= 8 else 1 if slices >= 4 else 0
    kept = streamed_multipliers(groups, tiles) * levels * row_blocks * SUMS_BYTES
    slot = tiles * TILE_STEP_BYTES + row_blocks * STEP_X_BYTES
    return barriers + factors + scales + kept + stages * slot


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // 128) * 128
