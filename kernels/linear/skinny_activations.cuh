// Bring activations from bf16 in memory to operands in the order of the weight's loads.
#pragma once

#include "skinny_barriers.cuh"
#include "skinny_problem.cuh"

// The 8 bf16 that meet a lane's eight codes at `vector`: what a lane t holds of a step are 32 inputs, in
// pieces as long as the codes of a 16-byte load. Rows beyond T are zeros.
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

// Magnitudes of two bf16, as bits: those of positive numbers rise with them.
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

// The largest magnitude, as bf16 bits, among what the lanes of a row found; all lanes get it.
__device__ __forceinline__ unsigned largest_of_row(unsigned most) {
  most = max(most & 0xFFFFu, most >> 16);
  most = max(most, __shfl_xor_sync(~0u, most, 1));
  return max(most, __shfl_xor_sync(~0u, most, 2));
}

// Find the factors of this lane's rows g, and bring the slice's activations to shared memory as operands.
// The warps that share a slice take its pieces of 8 inputs a lane in turn, each block from another one
// on, so that not all ask for the same lines of memory at the same time. Few pieces wait in registers for
// their factor, many are read again.
__device__ __forceinline__ void prepare_x(const Problem& p, uint4* shared_x, unsigned* shared_most, int begin, int end,
                                          int member, int lane, float (&factor)[ROW_BLOCKS]) {
  const int g = lane >> 2, t = lane & 3;
  auto piece = [&](int i) { return (i * CREW + member + static_cast<int>(blockIdx.x) / SPLITS) % (MOVED * CREW); };
  auto load = [&](int i, int r) {
    const int step = begin + piece(i) / 4;
    return step < end ? load_x(p, r * 8 + g, step, piece(i) % 4, t) : make_uint4(0, 0, 0, 0);
  };
  uint4 moved[KEPT ? MOVED : 1][ROW_BLOCKS];
  unsigned most[ROW_BLOCKS] = {};
#pragma unroll KEPT ? MOVED : 1
  for (int i = 0; i < MOVED; ++i) {
#pragma unroll
    for (int r = 0; r < ROW_BLOCKS; ++r) {
      uint4& x = moved[KEPT ? i : 0][r];
      x = load(i, r);
      most[r] = largest(most[r], x);
    }
  }
  if constexpr (FORMAT != BF16) {
#pragma unroll
    for (int r = 0; r < ROW_BLOCKS; ++r) {  // of several warps; a maximum has no order
      const unsigned whole = largest_of_row(most[r]);
      if (t == 0) atomicMax(shared_most + r * 8 + g, whole);
    }
    meet_workers();
  }
#pragma unroll
  for (int r = 0; r < ROW_BLOCKS; ++r) factor[r] = FORMAT == BF16 ? 1.0f : range_factor(shared_most[r * 8 + g]);
  if constexpr (SOURCE == SHARED) {
#pragma unroll KEPT ? MOVED : 1
    for (int i = 0; i < MOVED; ++i) {
      const int at = piece(i);
#pragma unroll
      for (int r = 0; r < ROW_BLOCKS; ++r) {
        const uint4 x = KEPT ? moved[KEPT ? i : 0][r] : load(i, r);
        uint4* const place = shared_x + (r * LONGEST + at / 4) * STEP_VECTORS + at % 4 * 32 + lane;
        if (at < LONGEST * 4) *place = operand(x, factor[r]);
      }
    }
  }
}

// The activations of one step.
struct Activations {
  const Problem& p;
  const uint4* lane_x;  // of this lane in the first block of rows
  int step, lane;
  const float (&factor)[ROW_BLOCKS];

  // B operands of two instructions: eight inputs of row g of a block of rows.
  __device__ __forceinline__ uint4 operands(int block, int vector) const {
    if constexpr (SOURCE == SHARED) return lane_x[block * LONGEST * STEP_VECTORS + vector * 32];
    return operand(load_x(p, block * 8 + (lane >> 2), step, vector, lane & 3), factor[block]);
  }
};
