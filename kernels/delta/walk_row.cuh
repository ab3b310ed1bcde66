// What a row does in a walk, apart from where it comes from.
#pragma once

#include "walk_tile.cuh"

// A lane's part of a row.
struct Row {
  float k[KEYS], q[KEYS];
  __nv_bfloat16 v;  // of its own column
};

__device__ __forceinline__ float over_lanes(float sum) {
#pragma unroll
  for (int lanes = COLUMN_LANES; lanes < 32; lanes *= 2) sum = __fadd_rn(sum, __shfl_xor_sync(ALL, sum, lanes));
  return sum;
}

// The sum over the eight lanes of a column, of the column that is the lane's own: lanes pass on the sums
// that the other goes on with. The order is that of over_lanes.
__device__ __forceinline__ float own_over_lanes(const float (&sum)[COLUMNS], int sharer) {
  static_assert(COLUMNS == 2 || COLUMNS == 4, "as many of the eight lanes have a column each");
  const bool odd = sharer & 1, upper = sharer & 2;
  const auto exchanged = [](float kept, float given, int lanes) {
    return __fadd_rn(kept, __shfl_xor_sync(ALL, given, lanes));
  };
  float own = exchanged(odd ? sum[1] : sum[0], odd ? sum[0] : sum[1], COLUMN_LANES);
  if constexpr (COLUMNS == 4) {
    const float high = exchanged(odd ? sum[3] : sum[2], odd ? sum[2] : sum[3], COLUMN_LANES);
    own = exchanged(upper ? high : own, upper ? own : high, 2 * COLUMN_LANES);
  } else {
    own = exchanged(own, own, 2 * COLUMN_LANES);
  }
  return exchanged(own, own, 4 * COLUMN_LANES);
}

// Give each lane all of its columns of what lanes have of their own.
__device__ __forceinline__ void spread(float (&all)[COLUMNS], float own, int lane) {
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) all[c] = __shfl_sync(ALL, own, c * COLUMN_LANES + lane % COLUMN_LANES);
}

// S'x: a lane's part of each of its columns.
__device__ __forceinline__ void products(float (&sum)[COLUMNS], const Tile& s, const float (&x)[KEYS]) {
  float even[COLUMNS], odd[COLUMNS];
#pragma unroll
  for (int i = 0; i < KEYS; i += 2)
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
      even[c] = i == 0 ? __fmul_rn(s[0][c], x[0]) : __fmaf_rn(s[i][c], x[i], even[c]);
      odd[c] = i == 0 ? __fmul_rn(s[1][c], x[1]) : __fmaf_rn(s[i + 1][c], x[i + 1], odd[c]);
    }
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) sum[c] = __fadd_rn(even[c], odd[c]);
}

// A lane's part of x.y.
__device__ __forceinline__ float part_of_product(const float (&x)[KEYS], const float (&y)[KEYS]) {
  float even = __fmul_rn(x[0], y[0]), odd = __fmul_rn(x[1], y[1]);
#pragma unroll
  for (int i = 2; i < KEYS; i += 2) {
    even = __fmaf_rn(x[i], y[i], even);
    odd = __fmaf_rn(x[i + 1], y[i + 1], odd);
  }
  return __fadd_rn(even, odd);
}

// What a row finds: k.q, and S'k and S'q of a lane's own column.
struct Found {
  float seen, asked, met;
};

__device__ __forceinline__ void find(Found& found, const Tile& s, const Row& row, int sharer) {
  float sum[COLUMNS];
  products(sum, s, row.k);
  found.seen = own_over_lanes(sum, sharer);
  products(sum, s, row.q);
  found.asked = own_over_lanes(sum, sharer);
  found.met = over_lanes(part_of_product(row.k, row.q));
}

// u = beta (v - decay S'k)
__device__ __forceinline__ float change(const Found& found, const Row& row, float decay, float beta) {
  return __fmul_rn(__fmaf_rn(-decay, found.seen, __bfloat162float(row.v)), beta);
}

// o = decay S'q + (k.q) u
__device__ __forceinline__ float answer(const Found& found, float u, float decay) {
  return __fmaf_rn(found.met, u, __fmul_rn(decay, found.asked));
}

// Where a lane writes its own column of the next row: u and the output, which the warp holds where a gate follows.
struct RowOutputs {
  float* u;
  __nv_bfloat16* out;
  int u_step, out_step;  // to the row after it
};

__device__ __forceinline__ void write_row(RowOutputs& to, bool writes, float u, float o) {
  if (writes) *to.u = u, *to.out = __float2bfloat16_rn(o);
  to.u += to.u_step;
  to.out += to.out_step;
}

// A lane keeps and finds its own part of a tile: no lane reads what another wrote.
__device__ __forceinline__ Values* kept_part(Values* kept, int slot, int lane) {
  return kept + slot * KEYS * 32 + lane;
}

__device__ __forceinline__ void keep(Values* to, const Tile& s) {
#pragma unroll
  for (int i = 0; i < KEYS; ++i) store_values(to + i * 32, s[i]);
}

__device__ __forceinline__ void recall(Tile& s, const Values* from) {
#pragma unroll
  for (int i = 0; i < KEYS; ++i) load_values(s[i], from + i * 32);
}
