// Add the sums of warps and of blocks in order, round and store them.
#pragma once

#include "../common/exact.cuh"
#include "skinny_problem.cuh"

__device__ __forceinline__ float rounded(float v) { return __bfloat162float(__float2bfloat16_rn(v)); }

// Round and store one output of one row, or of gate and up what they make, and return it; 0 where there is none.
__device__ __forceinline__ __nv_bfloat16 write(const Problem& p, const float* scales, int tile, int row, int output,
                                               const float (&sum)[PAIR]) {
  const int n = weight_tile(p, tile) * 16 + output;
  if (row >= p.rows || n >= p.n) return __nv_bfloat16(0.0f);
  float value = ROW_SCALED ? __fmul_rn(sum[0], scales[output]) : sum[0];
  const size_t at = static_cast<size_t>(row) * p.out_stride + n;
  if constexpr (OUT_FP32) {
    static_cast<float*>(p.out)[at] = value;
    return __nv_bfloat16(0.0f);
  }
  value = rounded(value);
  if constexpr (EPILOGUE == ADD_RESIDUAL)
    value = __fadd_rn(value, __bfloat162float(p.residual[static_cast<size_t>(row) * p.residual_stride + n]));
  if constexpr (EPILOGUE == SILU_PAIR) {
    const float up = rounded(ROW_SCALED ? __fmul_rn(sum[PAIR - 1], scales[16 + output]) : sum[PAIR - 1]);
    value = __fmul_rn(rounded(exact_silu(value)), up);
  }
  const __nv_bfloat16 result = __float2bfloat16_rn(value);
  static_cast<__nv_bfloat16*>(p.out)[at] = result;
  return result;
}

// Write the results of a block as operands of the product behind; a lane has four rows of one output. The
// largest magnitude of 8 outputs is found by the lanes that have the same rows.
__device__ __forceinline__ void write_operands(const Problem& p, int tile, int first_row, int output,
                                               const __nv_bfloat16 (&results)[4]) {
  const int input = weight_tile(p, tile) * 16 + output;
  unsigned most[2] = {};  // of two rows each
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (first_row + i < p.rows) *operand_place(p.next, first_row + i, input) = operand_of(results[i]);
    most[i / 2] |= magnitude(results[i]) << i % 2 * 16;
  }
#pragma unroll
  for (int apart = 2; apart < 16; apart *= 2) {
#pragma unroll
    for (int i = 0; i < 2; ++i) most[i] = __vmaxu2(most[i], __shfl_xor_sync(~0u, most[i], apart));
  }
  if (output % 8 != 0) return;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (first_row + i < p.rows) tell_largest(p.next, first_row + i, input, most[i / 2] >> i % 2 * 16 & 0xFFFFu);
}

// Sums are finished a block at a time: 16 outputs x 8 rows, lane l holding rows 4 (l % 2) onwards of
// output l / 2. In a warp's sums the rows of an output are swapped about, pairs staying together, so
// that neither the pairs that lanes write nor the fours that they read share a bank.
__device__ __forceinline__ int place_of_pair(int block, int row, int output) {
  return block * BLOCK_FLOATS + output * 8 + (row ^ (output >> 2) * 2);
}

__device__ __forceinline__ float4 plus(float4 a, float4 b) {
  return make_float4(__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y), __fadd_rn(a.z, b.z), __fadd_rn(a.w, b.w));
}

__device__ __forceinline__ float2 plus(float2 a, float2 b) {
  return make_float2(__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y));
}

// Add NUM sums, each of as many neighbours as V has, as a binary tree of neighbours.
template <int NUM, class V = float4>
__device__ __forceinline__ V tree_sum(const float* first, int stride) {
  if constexpr (NUM == 1) return *reinterpret_cast<const V*>(first);
  else return plus(tree_sum<NUM / 2, V>(first, stride), tree_sum<NUM / 2, V>(first + NUM / 2 * stride, stride));
}

__device__ __forceinline__ float4 sum_of_warps(const float* partial, int block, int lane) {
  const int output = lane >> 1, half = (lane & 1) ^ (output >> 3);
  const float4 sum = tree_sum<WARPS>(partial + block * BLOCK_FLOATS + output * 8 + half * 4, SUMS_STRIDE);
  return output >> 2 & 1 ? make_float4(sum.z, sum.w, sum.x, sum.y) : sum;
}

__device__ __forceinline__ void write_block(const Problem& p, const float* scales, int tile, int block, int lane,
                                            const float4 (&sum)[PAIR]) {
  const int first_row = block * 8 + (lane & 1) * 4, output = lane >> 1;
  __nv_bfloat16 results[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float one[PAIR];
#pragma unroll
    for (int half = 0; half < PAIR; ++half)
      one[half] = i == 0 ? sum[half].x : i == 1 ? sum[half].y : i == 2 ? sum[half].z : sum[half].w;
    results[i] = write(p, scales, tile, first_row + i, output, one);
  }
  if constexpr (EPILOGUE == SILU_PAIR) {
    if (p.next.image != nullptr) write_operands(p, tile, first_row, output, results);
  }
}
