// What a row does in a walk, apart from where it comes from.
#pragma once

#include "walk_tile.cuh"

struct Row {
  float k[KEYS], q[KEYS];
  Halves v;
};

__device__ __forceinline__ float over_lanes(float sum) {
#pragma unroll
  for (int lanes = COLUMN_LANES; lanes < 32; lanes *= 2) sum = __fadd_rn(sum, __shfl_xor_sync(ALL, sum, lanes));
  return sum;
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

__device__ __forceinline__ float product(const float (&x)[KEYS], const float (&y)[KEYS]) {
  float even = __fmul_rn(x[0], y[0]), odd = __fmul_rn(x[1], y[1]);
#pragma unroll
  for (int i = 2; i < KEYS; i += 2) {
    even = __fmaf_rn(x[i], y[i], even);
    odd = __fmaf_rn(x[i + 1], y[i + 1], odd);
  }
  return over_lanes(__fadd_rn(even, odd));
}

// What a row finds: S'k, a lane's part of S'q, and k.q.
struct Found {
  float seen[COLUMNS], asked[COLUMNS], met;
};

__device__ __forceinline__ void find(Found& found, const Tile& s, const Row& row) {
  products(found.seen, s, row.k);
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) found.seen[c] = over_lanes(found.seen[c]);
  products(found.asked, s, row.q);
  found.met = product(row.k, row.q);
}

// u = beta (v - decay S'k)
__device__ __forceinline__ void change(float (&u)[COLUMNS], const Found& found, const Row& row, float decay,
                                       float beta) {
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c)
    u[c] = __fmul_rn(__fmaf_rn(-decay, found.seen[c], __bfloat162float(row.v.at[c])), beta);
}

// o = decay S'q + (k.q) u
__device__ __forceinline__ void answer(float (&o)[COLUMNS], const Found& found, const float (&u)[COLUMNS],
                                       float decay) {
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) o[c] = __fmaf_rn(found.met, u[c], __fmul_rn(decay, over_lanes(found.asked[c])));
}

// Where a lane writes its columns of the next row: u and the output, which the warp holds where a gate follows.
struct RowOutputs {
  float* u;
  __nv_bfloat16* out;
  int u_step, out_step;  // to the row after it
};


__device__ __forceinline__ void write_row(RowOutputs& to, bool writes, const float (&u)[COLUMNS],
                                          const float (&o)[COLUMNS]) {
  Halves rounded;
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) rounded.at[c] = __float2bfloat16_rn(o[c]);
  if (writes) {
    store_values(to.u, u);
    *reinterpret_cast<Halves*>(to.out) = rounded;
  }
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
