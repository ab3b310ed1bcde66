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

// The power of two that brings a row's slice into the range of fp16: 1 where the largest magnitude,
// given as bf16 bits, lies in [2^-6, 65504], else such that it comes to lie in [2^14, 2^15).
__device__ __forceinline__ float range_factor(unsigned most) {
  const unsigned bits = most << 16;
  if (bits == 0 || bits >= 0x7F800000u) return 1.0f;
  if (bits >= 0x3C800000u && bits <= 0x477F0000u) return 1.0f;
  const int exponent = static_cast<int>(bits >> 23) - 127;
  return __uint_as_float(static_cast<unsigned>(min(14 - exponent, 126) + 127) << 23);
}

// Find the factors of this lane's rows g, and bring the slice's activations to shared memory as
// operands. The warps that share a slice each take every CREW-th piece of 32 inputs a lane quartet.
__device__ __forceinline__ void prepare_x(const Problem& p, uint4* shared_x, unsigned* shared_most, int begin, int end,
                                          int member, int lane, float (&factor)[ROW_BLOCKS]) {
  const int g = lane >> 2, t = lane & 3;
  const int turned = blockIdx.x / SPLITS;  // so that not all blocks ask for the same lines at the same time
  uint4 moved[MOVED][ROW_BLOCKS];
  unsigned most[ROW_BLOCKS] = {};
#pragma unroll
  for (int i = 0; i < MOVED; ++i) {
    const int piece = (i * CREW + member + turned) % (MOVED * CREW), step = begin + piece / 4;
#pragma unroll
    for (int r = 0; r < ROW_BLOCKS; ++r) {
      moved[i][r] = step < end ? load_x(p, r * 8 + g, step, piece % 4, t) : make_uint4(0, 0, 0, 0);
      most[r] = largest(most[r], moved[i][r]);
    }
  }
  if constexpr (FORMAT != BF16) {
#pragma unroll
    for (int r = 0; r < ROW_BLOCKS; ++r) {
      const unsigned both = max(most[r] & 0xFFFFu, most[r] >> 16);
      const unsigned half = max(both, __shfl_xor_sync(~0u, both, 1));
      const unsigned all = max(half, __shfl_xor_sync(~0u, half, 2));
      if (t == 0) atomicMax(shared_most + r * 8 + g, all);
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < ROW_BLOCKS; ++r) {
    factor[r] = FORMAT == BF16 ? 1.0f : range_factor(shared_most[r * 8 + g]);
    if constexpr (SOURCE == SHARED) {
#pragma unroll
      for (int i = 0; i < MOVED; ++i) {
        const int piece = (i * CREW + member + turned) % (MOVED * CREW);
        if (piece < LONGEST * 4) shared_x[(piece / 4 * ROW_BLOCKS + r) * 128 + piece % 4 * 32 + lane] = operand(moved[i][r], factor[r]);
      }
    }
  }
}

// The activations of one step.
struct Activations {
  const Problem& p;
  const uint4* shared_x;
  int step;
  const float (&factor)[ROW_BLOCKS];

  // B operands of two instructions: eight inputs of row g of a block of rows.
  __device__ __forceinline__ uint4 operands(int block, int vector, int lane) const {
    if constexpr (SOURCE == SHARED) return shared_x[(block * 4 + vector) * 32 + lane];
    return operand(load_x(p, block * 8 + (lane >> 2), step, vector, lane & 3), factor[block]);
  }
};
