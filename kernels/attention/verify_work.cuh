// Share the chunks of a context out among the blocks of a KV head and row group.
//
// Each block begins with one of the last and longest chunks. What more there is, `shares.py` has dealt out
// so that all have about the same bytes to move. Who computes a chunk changes no bit.
#pragma once

#include "chunks.cuh"
#include "verify_problem.cuh"

constexpr int TAIL_UNITS = 2 * (FILLS + 1);  // of a tile that own rows reach into

struct Chunk {
  int number;      // -1: no more
  int low;         // its first position
  int full, tail;  // tiles of committed positions, and tiles after them
  __device__ __forceinline__ int committed() const { return 2 * FILLS * full; }  // units of them
  __device__ __forceinline__ int units() const { return committed() + TAIL_UNITS * tail; }
  // Whether a unit holds the rows' own keys or values.
  __device__ __forceinline__ bool is_own(int unit) const {
    return unit >= committed() && (unit - committed()) % (FILLS + 1) == FILLS;
  }
};

// The rows of a block: row0 on, all with one KV head.
struct Rows {
  int row0, count, group;
};

__device__ __forceinline__ Rows rows_of(const Problem& p) {
  const int row0 = blockIdx.x % p.row_groups * p.group_rows;
  return {row0, min(p.group_rows, p.rows - row0), static_cast<int>(blockIdx.x) / p.row_groups % p.groups};
}

// Depth of a row of the block; -1 beyond them.
__device__ __forceinline__ int depth_of(const Problem& p, const Rows& rows, int row) {
  return row < rows.count ? p.depths[rows.row0 + row] : -1;
}

struct Work {
  int start, last;        // committed positions; the last position of a row of the block
  int bin, bins, active;  // this block among those of its rows; chunks of the context
  int first;              // of a chunk's partial results, that of the block's first row and head
  int shares;             // where those of contexts of so many chunks begin

  // Where the partial result of a row of the matrix unit lies.
  __device__ __forceinline__ int place(const Problem& p, int chunk, int matrix_row) const {
    return chunk * p.rows * p.heads + first + matrix_row / SHARE * p.heads + matrix_row % SHARE;
  }

  // The number of a stream's first chunk, and of what it takes after a chunk; -1: no more.
  __device__ __forceinline__ int first_of(const Problem& p, int stream) const {
    if (stream == 0) return active > bin ? active - 1 - bin : -1;
    return active > bins ? p.shares[shares + p.chunks + (stream - 1) * bins + bin] : -1;
  }
  __device__ __forceinline__ int after(const Problem& p, int number) const {
    return active > bins ? p.shares[shares + number] : -1;
  }

  __device__ __forceinline__ Chunk chunk(int number) const {
    if (number < 0) return {-1, 0, 0, 0};
    const Span span = chunk_span(number);
    const int full = max(min(span.high, start) - span.low, 0) / TILE;
    const int rest = min(span.high, last + 1) - (span.low + full * TILE);
    return {number, span.low, full, span.high > start && rest > 0 ? (rest + TILE - 1) / TILE : 0};
  }
};

// The block's share, as long as its rows' depths are not known.
__device__ __forceinline__ Work work_of(const Problem& p) {
  const int start = *p.start, active = min(chunk_of(start + p.rows - 1) + 1, p.chunks);
  const int bin = static_cast<int>(blockIdx.x) / (p.row_groups * p.groups);
  const Rows rows = rows_of(p);
  return {start, start - 1, bin, p.bins, active, rows.row0 * p.heads + rows.group * SHARE,
          (active - 1 - p.bins) * (p.chunks + (STREAMS - 1) * p.bins)};
}
