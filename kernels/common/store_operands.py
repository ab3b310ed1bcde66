"""Write rows of activations as operands (`operands.py`) too, in the kernel that makes them."""

import triton
import triton.language as tl

from kernels.common.typing import constexpr


@triton.jit
def store_operands(
    values,  # bf16 [ROWS, LANES]
    rows,  # int64 [ROWS, 1]
    num_rows,
    first,  # [ROWS, 1] or one for all: input of the first lane, a multiple of 128
    image_ptr,  # fp16 [blocks, WIDTH / 128, 4, 32, 8]
    largest_ptr,  # int16 [8 x blocks, 2, WIDTH / 16]
    WIDTH: constexpr,
    LANES: constexpr,
    VALUES: constexpr,  # of a row, whole eights: lanes behind them may be others' inputs
    ROWS: constexpr,
    ORDER: constexpr,
) -> None:
    """Store fp16 operands, and of each row the largest magnitude among 8 inputs.

    Eight inputs stay together, in one store of 16 bytes, or their pairs are stored apart.
    """
    APART: constexpr = ORDER % 2
    STEPS: constexpr = WIDTH // 128
    PIECES: constexpr = ORDER // 8
    row = rows.to(tl.int32)  # of 32 at most: places fit
    own = tl.arange(0, LANES // 8)[None, :] < VALUES // 8
    eight = first // 8 + tl.arange(0, LANES // 8)[None, :]
    # in a dimension of their own, so that the compiler sees that eight places follow each other
    chunk = eight[:, :, None]
    piece = chunk % 16
    vector = piece // (4 * PIECES) * PIECES + piece % PIECES
    lane = (row % 8 * 4)[:, :, None] + piece // PIECES % 4
    vectors = ((row // 8 * STEPS)[:, :, None] + chunk // 16) * 4 + vector
    within = tl.arange(0, 8)[None, None, :]
    if APART:
        place = vectors * 256 + within // 2 * 64 + lane * 2 + within % 2
    else:
        place = (vectors * 32 + lane) * 8 + within
    halves = tl.reshape(values.to(tl.float32).to(tl.float16), (ROWS, LANES // 8, 8))
    written = (row < num_rows)[:, :, None] & (own & (eight < WIDTH // 8))[:, :, None]
    tl.store(image_ptr + place, halves, mask=written)
    magnitudes = values.to(tl.int16, bitcast=True).to(tl.int32) & 0x7FFF
    most = tl.max(tl.reshape(magnitudes, (ROWS, LANES // 8, 8)), axis=2)
    written = (row < num_rows) & own & (eight < WIDTH // 8)
    at = row * (WIDTH // 8) + eight % 2 * (WIDTH // 16) + eight // 2
    tl.store(largest_ptr + at, most.to(tl.int16), mask=written)
