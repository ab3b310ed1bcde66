// Find the key of a row at a position that is not committed: on the row's own path.
//
// A tile that own rows reach into is the same for all rows up to `start`; beyond, position start + d
// of a row lies in slot start + path[d], and past the row's own position there is nothing: zeros. A
// fragment takes its rows from anywhere in shared memory, so where rows differ each row of the
// verify gets a pass with its own keys or values, and an accumulator takes the pass of its row. The
// place of a position in the instructions is that of a committed one, so are the bits.
#pragma once

#include "verify_matrix.cuh"
#include "verify_ring.cuh"

__device__ __forceinline__ int row_of(int matrix_row) { return matrix_row / SHARE; }

// Whether all that a word of keys or values holds is finite.
__device__ __forceinline__ bool is_finite(unsigned word) {
  if constexpr (KV_BYTES == 2) return (word & 0x7F80) != 0x7F80 && (word & 0x7F800000) != 0x7F800000;
  return (((word & 0x7F7F7F7F) + 0x01010101) & 0x80808080) == 0;  // of codes only 0x7F is no number
}

struct Tail {
  static constexpr int ALL = -1;

  const unsigned char* paths;  // [rows of the block, 32]
  const int* depths;           // [32], -1 beyond the rows of the block
  unsigned zeros;              // 128 bytes of them
  int own_slots;               // of a unit of own rows

  // The last position that the row of a row of the matrix unit attends to.
  __device__ __forceinline__ int reach(const Work& work, int matrix_row) const {
    return work.start + depths[min(row_of(matrix_row), MAX_ROWS - 1)];
  }

  // Whether the row of a row of the matrix unit attends to a position.
  __device__ __forceinline__ bool attends(const Work& work, int matrix_row, int position) const {
    return position < work.start || position <= reach(work, matrix_row);
  }

  // Whether it takes the pass of `row`, with the keys and values of that row; ALL is everybody's.
  __device__ __forceinline__ bool takes(const Work& work, int matrix_row, int position, int row) const {
    return attends(work, matrix_row, position) && (row == ALL || row == row_of(matrix_row));
  }

  // What a row attends to at place `at` of the tile at `base`, whose units begin with `unit`. ALL
  // stands for the longest row of a chain: others differ only in where they end. Where there is nothing,
  // a value is zeros; a key may be any, for its score is not looked at.
  template <bool KEY>
  __device__ __forceinline__ UnitRow find(const Ring& ring, const Work& work, int base, int at, int unit,
                                          int row) const {
    const int depth = base + at - work.start;
    if (depth < 0) return unit_row(ring.place(unit + at / UNIT), at % UNIT);
    if (base + at > work.last || (row != ALL && depth > depths[row])) {
      if constexpr (KEY) return unit_row(ring.place(unit), 0);
      return {zeros, 0, 0};
    }
    return own_row(ring.place(unit + FILLS), row == ALL ? depth : paths[row * MAX_ROWS + depth]);
  }

  // The same for ALL, without a branch.
  template <bool KEY>
  __device__ __forceinline__ UnitRow find_alike(const Ring& ring, const Work& work, int base, int at, int unit) const {
    const int depth = base + at - work.start, last = work.last - work.start;
    const UnitRow committed = unit_row(ring.place(unit + at / UNIT), at % UNIT);
    const UnitRow own = own_row(ring.place(unit + FILLS), max(min(depth, last), 0));
    const bool there = KEY || depth <= last;
    return {there ? depth < 0 ? committed.at : own.at : zeros, there ? depth < 0 ? committed.box : own.box : 0,
            there ? depth < 0 ? committed.turn : own.turn : 0};
  }

  __device__ __forceinline__ UnitRow own_row(unsigned unit, int row) const {
    return {unit + row * BOX_ROW, static_cast<unsigned>(own_slots) * BOX_ROW, row & 7};
  }

  // Whether all of the first rows of a unit of own rows is finite, for a whole warp.
  __device__ __forceinline__ bool all_finite(unsigned unit, int num_rows, int lane) const {
    bool finite = true;
    constexpr int ROW_PIECES = D / PIECE;
#pragma unroll 2
    for (int i = lane; i < num_rows * ROW_PIECES; i += 32) {
      const uint4 four = load_16(own_row(unit, i / ROW_PIECES).piece(i % ROW_PIECES));
      finite = finite && is_finite(four.x) && is_finite(four.y) && is_finite(four.z) && is_finite(four.w);
    }
    return __all_sync(~0u, finite);
  }
};
