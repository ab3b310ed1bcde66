// How the sums of a partial result are kept, and what computes and merges them alike.
//
// In fp16, half of the bytes of fp32, divided by a power of two that each SIDE columns of a row have of their own:
// the largest finite magnitude among them comes to lie in [2^14, 2^15), or below where it is under 2^-112. So
// nothing overflows, and a number is off by 2^-11 of itself, or by 2^-25 of the power, which is no more than 2^-39 of
// the largest (2^-151 where that is so small). What is not finite stays so and has no part in the power.
#pragma once

#include <cuda_fp16.h>
#include <math_constants.h>

constexpr int SIDE = 128;  // columns of a row that share a power
constexpr int SIDES = 2;   // of the 256 of a head

// Of each 32 columns of a row lane t of a matrix instruction holds eight, which lie side by side: a store fills 64
// bytes of a row. They are two quads, one of each sixteen columns. Column of element i of quad t: two tiles of eight
// columns, which transposed loads of codes have dealt out in turn.
__device__ __forceinline__ int column_of(int t, int i) {
  return KV_BYTES == 2 ? i / 2 * 8 + 2 * t + i % 2 : 4 * t + i;
}

__device__ __forceinline__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// What sums are multiplied by before they are rounded, and what gives them back: powers of two, so exact.
struct Power {
  float down, up;
};

__device__ __forceinline__ Power power_of(float largest) {
  const unsigned exponent = max(__float_as_uint(largest) & 0x7F800000u, 15u << 23);
  return {__uint_as_float((268u << 23) - exponent), __uint_as_float(exponent - (14u << 23))};
}

__device__ __forceinline__ float largest_of_quad(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

// Two sums as they are kept.
__device__ __forceinline__ unsigned kept(float first, float second, float down) {
  const __half2 both = __floats2half2_rn(__fmul_rn(first, down), __fmul_rn(second, down));
  return reinterpret_cast<const unsigned&>(both);
}
