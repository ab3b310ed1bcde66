// What a row does in a walk whose outputs others finish: each lane goes on with a column of its own.
#pragma once

#include "walk_row.cuh"

// S'q, a lane's part, and S <- decay S behind it.
__device__ __forceinline__ void ask_and_fade(float (&sum)[COLUMNS], Tile& s, const float (&q)[KEYS], float decay) {
  float even[COLUMNS], odd[COLUMNS];
#pragma unroll
  for (int i = 0; i < KEYS; i += 2)
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
      even[c] = i == 0 ? __fmul_rn(s[0][c], q[0]) : __fmaf_rn(s[i][c], q[i], even[c]);
      odd[c] = i == 0 ? __fmul_rn(s[1][c], q[1]) : __fmaf_rn(s[i + 1][c], q[i + 1], odd[c]);
      s[i][c] = __fmul_rn(decay, s[i][c]);
      s[i + 1][c] = __fmul_rn(decay, s[i + 1][c]);
    }
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) sum[c] = __fadd_rn(even[c], odd[c]);
}

// S <- S + k u': with the fade before, the update of `advance`.
__device__ __forceinline__ void write(Tile& s, const float (&k)[KEYS], const float (&u)[COLUMNS]) {
#pragma unroll
  for (int i = 0; i < KEYS; ++i)
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) s[i][c] = __fmaf_rn(k[i], u[c], s[i][c]);
}
