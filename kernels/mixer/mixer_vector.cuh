// Convolve a query, a key or a block's values of one row: a warp with four channels a lane.
#pragma once

#include "mixer_problem.cuh"

enum Part { QUERY, KEY, VALUE };

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

// Sum the window by its taps, oldest first, round, apply SiLU, round.
__device__ __forceinline__ void convolve_channels(float (&y)[CHANNELS], const Vector& one) {
  float rows[WINDOW][CHANNELS], taps[CHANNELS][WINDOW];
#pragma unroll
  for (int i = 0; i < WINDOW; ++i) widen(rows[i], one.window[i]);
  widen(taps[0], {one.taps[0].x, one.taps[0].y}), widen(taps[1], {one.taps[0].z, one.taps[0].w});
  widen(taps[2], {one.taps[1].x, one.taps[1].y}), widen(taps[3], {one.taps[1].z, one.taps[1].w});
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c) {
    float total = __fmul_rn(rows[0][c], taps[c][0]);
#pragma unroll
    for (int i = 1; i < WINDOW; ++i) total = __fadd_rn(total, __fmul_rn(rows[i][c], taps[c][i]));
    y[c] = rounded(exact_silu(rounded(total)));
  }
}

// 1 / length of the vector that the warp holds: squares added by a tree of neighbours.
__device__ __forceinline__ float inverse_length(const float (&y)[CHANNELS]) {
  const float first = __fadd_rn(__fmul_rn(y[0], y[0]), __fmul_rn(y[1], y[1]));
  const float second = __fadd_rn(__fmul_rn(y[2], y[2]), __fmul_rn(y[3], y[3]));
  return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(over_warp(__fadd_rn(first, second)), 1e-6f)));
}

// Where the record has a lane's four of a key.
__device__ __forceinline__ size_t key_place(const Mixer& p, int half, const Vector& one) {
  return static_cast<size_t>(half + one.row) * p.key_heads * KEY_DIM + one.channel - p.key_heads * KEY_DIM;
}

struct alignas(2 * CHANNELS) Four {
  __nv_bfloat16 at[CHANNELS];
};

__device__ __forceinline__ void store_halves(__nv_bfloat16* to, const float (&y)[CHANNELS]) {
  Four halves;
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c) halves.at[c] = __float2bfloat16_rn(y[c]);
  *reinterpret_cast<Four*>(to) = halves;
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
