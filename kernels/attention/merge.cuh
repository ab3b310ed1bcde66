// Merge the partial results of a row and head over the chunks of its context, and gate the result.
//
// top = largest top; sum and weight = those of the chunks times 2^(chunk's top - top), a chain over
// chunks c = s, s + 8, s + 16, .. for each of eight strands s, then the strands in order. Chunks past
// the row's own position are not looked at, so it does not matter how many were launched, nor who merges.
#pragma once

#include <cuda_bf16.h>
#include <math_constants.h>

#include "chunks.cuh"
#include "partials.cuh"

constexpr int STRANDS = 8;

// Where the results of all rows go, and what gates them.
struct Gated {
  const __nv_bfloat16* gate;  // [T, H, D], strides gate_stride, gate_head_stride
  __nv_bfloat16* out;         // [T, H * D], row stride out_stride
  int gate_stride, gate_head_stride, out_stride;
};

__device__ __forceinline__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ void add_scaled(float4& sum, float scale, const float4& more) {
  sum.x = __fmaf_rn(scale, more.x, sum.x);
  sum.y = __fmaf_rn(scale, more.y, sum.y);
  sum.z = __fmaf_rn(scale, more.z, sum.z);
  sum.w = __fmaf_rn(scale, more.w, sum.w);
}

// A quad of partial sums, from the cache that all multiprocessors share.
__device__ __forceinline__ float4 load_quad(const float* quad) {
  return __ldcg(reinterpret_cast<const float4*>(quad));
}

// bf16(attention) times bf16(sigmoid(gate)), rounded.
__device__ __forceinline__ __nv_bfloat16 gated(float sum, float weight, __nv_bfloat16 gate) {
  const float attention = __bfloat162float(__float2bfloat16_rn(__fdiv_rn(sum, weight)));
  const float sigmoid = __fdiv_rn(1.0f, 1.0f + expf(-__bfloat162float(gate)));
  return __float2bfloat16_rn(__fmul_rn(attention, __bfloat162float(__float2bfloat16_rn(sigmoid))));
}

// What gates a quad of a row and head.
struct Gates {
  __nv_bfloat16 of[4];

  __device__ __forceinline__ void load(const Gated& p, int row, int head, int sixteen, int t) {
    const __nv_bfloat16* const from = p.gate + static_cast<long long>(row) * p.gate_stride +
                                      head * static_cast<long long>(p.gate_head_stride) + sixteen * 16;
#pragma unroll
    for (int i = 0; i < 4; ++i) of[i] = from[column_of(t, i)];
  }

  __device__ __forceinline__ void write(const Gated& p, int row, int head, int sixteen, int t, const float4& sum,
                                        float weight) const {
    __nv_bfloat16* const to = p.out + static_cast<long long>(row) * p.out_stride + head * 256 + sixteen * 16;
    to[column_of(t, 0)] = gated(sum.x, weight, of[0]);
    to[column_of(t, 1)] = gated(sum.y, weight, of[1]);
    to[column_of(t, 2)] = gated(sum.z, weight, of[2]);
    to[column_of(t, 3)] = gated(sum.w, weight, of[3]);
  }
};
