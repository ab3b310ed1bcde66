// How the sums of a partial result lie, and what computes and merges them alike.
#pragma once

// Of each sixteen columns of a row four quads: quad t has what lane t of a matrix instruction holds of them,
// so that a store fills 64 bytes of a row. Column of element i of quad t: two tiles of eight columns, which
// transposed loads of codes have dealt out in turn.
__device__ __forceinline__ int column_of(int t, int i) {
  return KV_BYTES == 2 ? i / 2 * 8 + 2 * t + i % 2 : 4 * t + i;
}

__device__ __forceinline__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
