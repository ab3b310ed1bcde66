// Lay a chain's own keys and values where its positions have their places in the tile that they begin in,
// so that the tile is computed as any other and only masked. Without it (a tree, a tile too few, a value that
// is not finite) verify_tail.cuh finds them row by row; both have the same bits.
#pragma once

#include "verify_tail.cuh"

constexpr bool PLACES = STREAMS == 1;  // a second stream's sums leave no registers for it

// Copy own rows to their places in a tile's units, and zeros behind them up to what a step takes.
__device__ __forceinline__ void place_rows(const Ring& ring, int unit, int low, int num_rows, bool value,
                                           const Tail& tail) {
  constexpr int PIECES = D / PIECE;
  const int end = value ? (low + num_rows + 15) & ~15 : low + num_rows;
  for (int i = threadIdx.x; i < (end - low) * PIECES; i += WORKERS) {
    const int row = i / PIECES, at = low + row, piece = i % PIECES;
    const uint4 none = {0, 0, 0, 0};
    const uint4 four = row < num_rows ? load_16(tail.own_row(ring.place(unit + FILLS), row).piece(piece)) : none;
    store_16(unit_row(ring.place(unit + at / UNIT), at % UNIT).piece(piece), four);
  }
}

// Place the own rows of a chain if its block has the tile that they lie in; by all threads that compute. Says
// whether it did.
__device__ __forceinline__ bool place_own(const Ring& ring, const Work& work, const Tail& tail, bool chain, int lane) {
  const Chunk chunk = work.chunk(0, 0);
  const int low = work.start - (chunk.low + chunk.full * TILE), num_rows = work.last - work.start + 1;
  const int unit = chunk.committed();
  const bool has = chunk.number >= 0 && chunk.tail == 1 && low >= 0 && low + num_rows <= TILE;
  if (!chain || !has || unit + TAIL_UNITS > UNITS) return false;
  ring.wait_for(unit, TAIL_UNITS);
  if (!tail.all_finite(ring.place(unit + TAIL_UNITS - 1), num_rows, lane)) return false;
  place_rows(ring, unit, low, num_rows, false, tail);
  place_rows(ring, unit + FILLS + 1, low, num_rows, true, tail);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // for products, and before the next fill
  meet();
  return true;
}
