// Bring activations from bf16 in memory to operands in the order of the weight's loads.
#pragma once

#include "skinny_problem.cuh"

__device__ __forceinline__ uint4 load_x(const Problem& p, int row, int step, int vector, int t) {
  if (row >= p.rows) return make_uint4(0, 0, 0, 0);
  const int first = 8 * vector;
  const int k = step * STEP + first / CHUNK_INPUTS * 4 * CHUNK_INPUTS + t * CHUNK_INPUTS + first % CHUNK_INPUTS;
  return *reinterpret_cast<const uint4*>(p.x + static_cast<size_t>(row) * p.x_stride + k);
}

__device__ __forceinline__ unsigned halves(unsigned low, unsigned high, float factor) {
  __half2 v = __floats2half2_rn(__uint_as_float(low) * factor, __uint_as_float(high) * factor);
  return *reinterpret_cast<unsigned*>(&v);
}

// Turn eight bf16 into the B operands of two instructions.
__device__ __forceinline__ uint4 operand(uint4 x, float factor) {
#if FORMAT == BF16
  return x;
#else
  uint4 v;
  v.x = halves(x.x << 16, x.x & 0xFFFF0000u, factor);
  v.y = halves(x.y << 16, x.y & 0xFFFF0000u, factor);
  v.z = halves(x.z << 16, x.z & 0xFFFF0000u, factor);
  v.w = halves(x.w << 16, x.w & 0xFFFF0000u, factor);
  return v;
#endif
}

__device__ __forceinline__ unsigned largest(unsigned most, uint4 x) {
  most = __vmaxu2(most, x.x & 0x7FFF7FFFu);
  most = __vmaxu2(most, x.y & 0x7FFF7FFFu);
  most = __vmaxu2(most, x.z & 0x7FFF7FFFu);
  return __vmaxu2(most, x.w & 0x7FFF7FFFu);
}

// The power of two that brings a row's slice into the range of fp16: 1 where the largest magnitude
// lies in [2^-6, 65504], else such that it comes to lie in [2^14, 2^15). Lanes of a row agree.
__device__ __forceinline__ float range_factor(unsigned most) {
  most = __vmaxu2(most, __shfl_xor_sync(~0u, most, 1));
  most = __vmaxu2(most, __shfl_xor_sync(~0u, most, 2));
  const unsigned bits = max(most & 0xFFFFu, most >> 16) << 16;
  if (bits == 0 || bits >= 0x7F800000u) return 1.0f;
  if (bits >= 0x3C800000u && bits <= 0x477F0000u) return 1.0f;
  const int exponent = static_cast<int>(bits >> 23) - 127;
  return __uint_as_float(static_cast<unsigned>(min(14 - exponent, 126) + 127) << 23);
}

// Find the factor of this lane's row of each block, and turn what registers hold into operands.
// `most` is the largest magnitude of each row so far, of those that are not held.
__device__ __forceinline__ void find_factors(uint4 (&held)[SOURCE == REGISTERS ? SLICE : 1][ROW_BLOCKS][4],
                                             unsigned (&most)[ROW_BLOCKS], float (&factor)[ROW_BLOCKS]) {
#pragma unroll
  for (int r = 0; r < ROW_BLOCKS; ++r) {
    if constexpr (SOURCE == REGISTERS && FORMAT != BF16) {
#pragma unroll
      for (int s = 0; s < SLICE; ++s)
        for (int v = 0; v < 4; ++v) most[r] = largest(most[r], held[s][r][v]);
    }
    factor[r] = FORMAT == BF16 ? 1.0f : range_factor(most[r]);
    if constexpr (SOURCE == REGISTERS) {
#pragma unroll
      for (int s = 0; s < SLICE; ++s)
        for (int v = 0; v < 4; ++v) held[s][r][v] = operand(held[s][r][v], factor[r]);
    }
  }
}
