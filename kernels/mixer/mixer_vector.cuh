// Convolve a query, a key or a block's values of one row: a warp with four channels a lane.
#pragma once

#include "mixer_problem.cuh"

enum Kind { QUERY, KEY, VALUE };

// One such vector, in the hands of a warp.
struct Vector {
  int part, row;
  int channel;      // of the lane, its first
  bool is_mine;     // this block, and this lane, keeps the row's inputs for the next round
  int places[WINDOW - 1];  // of the rows before it, nearest first: from 0 on of this call, -1 the newest before
  uint4 taps[2];
  uint2 window[WINDOW];    // oldest first
};

__device__ __forceinline__ int width(const Mixer& p) { return (2 * p.key_heads + p.value_heads) * KEY_DIM; }

// Begin with task `index`: say what it is, and load its taps. Rows from ROWS on are no task.
__device__ __forceinline__ void load_taps(Vector& to, const Mixer& p, int index, int head, int first_column, int lane) {
  const int heads_per_key = p.value_heads / p.key_heads, key_head = head / heads_per_key;
  to.row = index / 3, to.part = index % 3;
  if (to.part == VALUE) {
    to.is_mine = lane < WARPS * TILE_COLUMNS / CHANNELS;
    to.channel = (2 * p.key_heads + head) * KEY_DIM + first_column + (to.is_mine ? lane : 0) * CHANNELS;
  } else {
    to.is_mine = head % heads_per_key == 0 && first_column == 0;
    to.channel = (to.part * p.key_heads + key_head) * KEY_DIM + lane * CHANNELS;
  }
  const uint4* const from = reinterpret_cast<const uint4*>(p.taps + to.channel * WINDOW);
  to.taps[0] = from[0], to.taps[1] = from[1];
}

// Load the rows of the window that are older than this call: pending ones, or those of the tail.
__device__ __forceinline__ void load_rows_before(Vector& to, const Mixer& p, int half_read, int pending,
                                                 int pending_row, int parent) {
  int place = to.row;
#pragma unroll
  for (int age = 0; age < WINDOW - 1; ++age) {
    const int follows = __shfl_sync(ALL, parent, place & 31);
    place = place >= 0 ? follows : place - 1;
    to.places[age] = place;
    const int at = pending + place, row = __shfl_sync(ALL, pending_row, at & 31);
    const __nv_bfloat16* const from =
        at >= 0 ? p.raw + static_cast<size_t>(half_read + row) * width(p)
                : p.tails + static_cast<size_t>(half_read / MAX_ROWS * 3 + 3 + at) * width(p);
    if (place < 0 && to.row < ROWS) to.window[WINDOW - 2 - age] = load_halves(from + to.channel);
  }
}

// Load the row and those of its window that came with it.
__device__ __forceinline__ void load_rows(Vector& to, const Mixer& p) {
  if (to.row >= ROWS) return;
  to.window[WINDOW - 1] = load_halves(p.x + to.row * p.x_stride + to.channel);
#pragma unroll
  for (int age = 0; age < WINDOW - 1; ++age)
    if (to.places[age] >= 0) to.window[WINDOW - 2 - age] = load_halves(p.x + to.places[age] * p.x_stride + to.channel);
}

// Where the record has a lane's four of a key.
__device__ __forceinline__ size_t key_place(const Mixer& p, int half, const Vector& one) {
  return static_cast<size_t>(half + one.row) * p.key_heads * KEY_DIM + one.channel - p.key_heads * KEY_DIM;
}

// Keep the row as it came; with row 0 the tail before it.
__device__ __forceinline__ void record_window(const Mixer& p, int half, const Vector& one) {
  const size_t wide = width(p);
  *reinterpret_cast<uint2*>(p.raw + (half + one.row) * wide + one.channel) = one.window[WINDOW - 1];
  if (one.row > 0) return;
#pragma unroll
  for (int i = 0; i < WINDOW - 1; ++i)
    *reinterpret_cast<uint2*>(p.tails + (half / MAX_ROWS * 3 + i) * wide + one.channel) = one.window[i];
}
