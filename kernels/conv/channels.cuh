// The arithmetic of a row's convolution and of its gates, four channels a lane.
//
// Sums have the order, and roundings the place, of gates_reference.KERNEL.
#pragma once

#include <cuda_bf16.h>

#include "../common/exact.cuh"

constexpr int CHANNELS = 4;              // of a lane, so that a warp has a head's
constexpr int WINDOW = 4;                // rows and taps of the convolution
constexpr float QUERY_LENGTH = 0.08838834764831845f;   // D^-0.5

// Sum a value of each lane by a tree of neighbours.
__device__ __forceinline__ float over_warp(float sum) {
#pragma unroll
  for (int lanes = 1; lanes < 32; lanes *= 2) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, lanes));
  return sum;
}

// Four neighbours of a row in bf16, and widened.
__device__ __forceinline__ uint2 load_halves(const __nv_bfloat16* from) {
  return *reinterpret_cast<const uint2*>(from);
}

__device__ __forceinline__ void widen(float (&to)[CHANNELS], uint2 halves) {
  to[0] = __uint_as_float(halves.x << 16), to[1] = __uint_as_float(halves.x & 0xffff0000u);
  to[2] = __uint_as_float(halves.y << 16), to[3] = __uint_as_float(halves.y & 0xffff0000u);
}

__device__ __forceinline__ float rounded(float x) { return __bfloat162float(__float2bfloat16_rn(x)); }

// Sum the window by its taps, oldest first, round, apply SiLU, round.
__device__ __forceinline__ void convolve_channels(float (&y)[CHANNELS], const uint2 (&window)[WINDOW],
                                                  const uint4 (&by)[2]) {
  float rows[WINDOW][CHANNELS], taps[CHANNELS][WINDOW];
#pragma unroll
  for (int i = 0; i < WINDOW; ++i) widen(rows[i], window[i]);
  widen(taps[0], {by[0].x, by[0].y}), widen(taps[1], {by[0].z, by[0].w});
  widen(taps[2], {by[1].x, by[1].y}), widen(taps[3], {by[1].z, by[1].w});
  float total[CHANNELS];
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c) {
    total[c] = __fmul_rn(rows[0][c], taps[c][0]);
#pragma unroll
    for (int i = 1; i < WINDOW; ++i) total[c] = __fadd_rn(total[c], __fmul_rn(rows[i][c], taps[c][i]));
    total[c] = rounded(total[c]);
  }
  exact_silus(y, total);
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c) y[c] = rounded(y[c]);
}

// 1 / length of the vector that the warp holds: squares added by a tree of neighbours.
__device__ __forceinline__ float inverse_length(const float (&y)[CHANNELS]) {
  const float first = __fadd_rn(__fmul_rn(y[0], y[0]), __fmul_rn(y[1], y[1]));
  const float second = __fadd_rn(__fmul_rn(y[2], y[2]), __fmul_rn(y[3], y[3]));
  return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(over_warp(__fadd_rn(first, second)), 1e-6f)));
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

// `softplus` of gates_kernel.py, which says why it is computed so.
__device__ __forceinline__ float softplus(float x) {
  const float z = exact_exp(-fabsf(x)), s = __fdiv_rn(z, __fadd_rn(2.0f, z)), square = __fmul_rn(s, s);
  float p = __fadd_rn(__fmul_rn(square, 6.6666666666666667e-02f), 7.6923076923076923e-02f);
  p = __fadd_rn(__fmul_rn(p, square), 9.0909090909090909e-02f);
  p = __fadd_rn(__fmul_rn(p, square), 1.1111111111111111e-01f);
  p = __fadd_rn(__fmul_rn(p, square), 1.4285714285714285e-01f);
  p = __fadd_rn(__fmul_rn(p, square), 0.2f);
  p = __fadd_rn(__fmul_rn(p, square), 3.3333333333333333e-01f);
  p = __fadd_rn(__fmul_rn(p, square), 1.0f);
  return __fadd_rn(x > 0.0f ? x : 0.0f, __fmul_rn(__fmul_rn(2.0f, s), p));
}

// What a head keeps of its state, by a; and what a row writes, by b.
__device__ __forceinline__ float decay_of(float a, float rate, float bias) {
  return exact_exp(__fmul_rn(rate, softplus(__fadd_rn(a, bias))));
}

__device__ __forceinline__ float share_of(float b) { return rounded(__fdiv_rn(1.0f, __fadd_rn(1.0f, exact_exp(-b)))); }
