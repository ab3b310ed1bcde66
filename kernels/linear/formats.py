"""Numbers that define the storage formats; loads no torch, so that sizes can be counted early."""

FP8_BLOCK = 128
"""Rows and columns that share one scale in the block format."""

NVFP4_GROUP = 16
"""Inputs that share one scale in the 4-bit format."""

E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Magnitudes of the eight 4-bit codes; bit 3 of a code is its sign."""

STEP = 128
"""Inputs of one step of a product: the unit of every split of K, and of padding."""

TILE_ROWS = 16
"""Weight rows of one tile: the M of the matrix instruction."""

CHUNK_INPUTS = {"nvfp4": 32, "fp8_block": 16, "e4m3_row": 16, "bf16": 8}
"""Inputs that a lane's 16-byte load of codes holds, by format."""
