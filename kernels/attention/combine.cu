// Merge the partial results of a row and head over the chunks of its context, and gate the result.
//
// top = largest top; sum and weight = those of the chunks times 2^(chunk's top - top), a chain over
// chunks c = s, s + 8, s + 16, .. for each of eight strands s, then the strands in order. Chunks past
// the row's own position are not looked at, so it does not matter how many were launched.
//
// Sums come in fp16 (partials.cuh): their power of two joins the factor, in fp32. That product rounds only below
// 2^-126, by 2^-150 at most; the sum of a factor times a number of fp16 and what was added before rounds once.

#include <cuda_bf16.h>
#include <math_constants.h>

#include "../common/launch_order.cuh"
#include "../common/operands.cuh"
#include "chunks.cuh"
#include "partials.cuh"

constexpr int D = 256;
constexpr int STRANDS = 8, OCTETS = D / 8, QUADS = D / 4, THREADS = STRANDS / EACH * OCTETS;
// Compile-time choices, by `CombineTile` of combine_tile.py: EACH (strands that a thread adds up), AHEAD (partial
// results of a strand that are asked for before their scales are known), MIN_BLOCKS, none of which changes a bit. And
// KV_BYTES, which says how sums lie.
static_assert(THREADS >= QUADS, "a thread for each quad of the result");

struct Problem {
  const __half* sums;         // [chunks, T * H, D], as partials.cuh says
  const float* powers;        // [chunks, T * H, SIDES]: what they are multiplied by
  const float* tops;          // [chunks, T * H]
  const float* weights;       // [chunks, T * H]
  const __nv_bfloat16* gate;  // [T, H, D], strides gate_stride, gate_head_stride
  __nv_bfloat16* out;         // [T, H * D], row stride out_stride
  const int* start;
  const int* depths;          // [T]
  int gate_stride, gate_head_stride, out_stride, rows, heads, chunks;
  NextOperands next;          // of out
};

// Sums of an octet, two quads.
struct Octet {
  float4 quads[2];
};

__device__ __forceinline__ void add_scaled(float4& sum, float scale, unsigned low, unsigned high) {
  const float2 first = __half22float2(reinterpret_cast<const __half2&>(low));
  const float2 second = __half22float2(reinterpret_cast<const __half2&>(high));
  sum.x = __fmaf_rn(scale, first.x, sum.x);
  sum.y = __fmaf_rn(scale, first.y, sum.y);
  sum.z = __fmaf_rn(scale, second.x, sum.z);
  sum.w = __fmaf_rn(scale, second.y, sum.w);
}

__device__ __forceinline__ void add(float4& sum, const float4& more) {
  sum.x = __fadd_rn(sum.x, more.x);
  sum.y = __fadd_rn(sum.y, more.y);
  sum.z = __fadd_rn(sum.z, more.z);
  sum.w = __fadd_rn(sum.w, more.w);
}

__device__ __forceinline__ uint4 load(const __half* sums, long long rows) {
  return *reinterpret_cast<const uint4*>(sums + rows * D);
}

// bf16(attention) times bf16(sigmoid(gate)), rounded.
__device__ __forceinline__ __nv_bfloat16 gated(float sum, float weight, __nv_bfloat16 gate) {
  const float attention = __bfloat162float(__float2bfloat16_rn(__fdiv_rn(sum, weight)));
  const float sigmoid = __fdiv_rn(1.0f, 1.0f + expf(-__bfloat162float(gate)));
  return __float2bfloat16_rn(__fmul_rn(attention, __bfloat162float(__float2bfloat16_rn(sigmoid))));
}

// Write a quad's four columns of sixteen, from an input on, as operands too. Every second quad shares the eights.
__device__ __forceinline__ void write_operands(const NextOperands& to, int row, int first, int t,
                                               const __nv_bfloat16 (&x)[4]) {
  unsigned most[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const __half2 pair = __halves2half2(operand_of(x[2 * i]), operand_of(x[2 * i + 1]));
    *reinterpret_cast<__half2*>(operand_place(to, row, first + column_of(t, 2 * i))) = pair;
    most[i] = max(magnitude(x[2 * i]), magnitude(x[2 * i + 1]));
  }
  if constexpr (KV_BYTES == 1) most[0] = most[1] = max(most[0], most[1]);  // both of one eight
  constexpr int SHARERS = KV_BYTES == 1 ? 2 : 4;
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int apart = 1; apart < SHARERS; apart *= 2) most[i] = max(most[i], __shfl_xor_sync(~0u, most[i], 2 * apart));
  if (t % 2 == 0) {
    const int eight = t / 2;
    tell_largest(to, row, first + 8 * eight, most[eight]);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) combine(const __grid_constant__ Problem p) {
  extern __shared__ __align__(16) float shared[];
  float2* const powers = reinterpret_cast<float2*>(shared);                 // [chunks]
  float* const scales = shared + 2 * p.chunks;                              // [chunks]
  float* const weights = scales + p.chunks;                                 // [chunks]
  float* const warp_tops = weights + p.chunks;                              // [THREADS / 32]
  float* const strand_weights = warp_tops + THREADS / 32;                   // [STRANDS]
  float4* const strands = reinterpret_cast<float4*>(shared + (4 * p.chunks + THREADS / 32 + STRANDS + 3) / 4 * 4);
  const int octet = threadIdx.x % OCTETS, first = threadIdx.x / OCTETS * EACH;  // first: of this thread's strands
  // The quad whose result this thread writes, if it does, and its columns: sixteen of them, of which it has those
  // of a lane.
  const int quad = threadIdx.x, lane = quad / 2 % 4, sixteen = (quad / 8 * 2 + quad % 2) * 16;
  const int row = blockIdx.x / p.heads, head = blockIdx.x % p.heads;
  const long long step = static_cast<long long>(p.rows) * p.heads;

  if constexpr (OVERLAP) {
    let_successor_start();
    await_predecessor();
  }
  // All loads that need no other's result go out together, first those that all threads wait for; what lies
  // beyond the row is not used.
  const float* const tops = p.tops + blockIdx.x;
  const float* const chunk_weights = p.weights + blockIdx.x;
  const float2* const chunk_powers = reinterpret_cast<const float2*>(p.powers) + blockIdx.x;
  float own_top = 0.0f, own_weight = 0.0f;  // of the chunk of this thread's number
  float2 own_powers = {0.0f, 0.0f};
  if (threadIdx.x < p.chunks) {
    own_top = tops[threadIdx.x * step];
    own_weight = chunk_weights[threadIdx.x * step];
    own_powers = chunk_powers[threadIdx.x * step];
  }
  const __half* const mine = p.sums + blockIdx.x * static_cast<long long>(D) + octet * 8;
  uint4 some[AHEAD][EACH];
  auto ask = [&](int from, int end) {
#pragma unroll
    for (int i = 0; i < AHEAD; ++i)
#pragma unroll
      for (int e = 0; e < EACH; ++e)
        if (from + i * STRANDS + e < end) some[i][e] = load(mine, (from + i * STRANDS + e) * step);
  };
  ask(first, p.chunks);
  const __nv_bfloat16* const gate = p.gate + static_cast<long long>(row) * p.gate_stride +
                                    head * static_cast<long long>(p.gate_head_stride) + sixteen;
  __nv_bfloat16 gates[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (quad < QUADS) gates[i] = gate[column_of(lane, i)];
  float most = -CUDART_INF_F;
  const int reached = chunk_of(*p.start + p.depths[row]) + 1, count = min(reached, p.chunks);
  auto keep = [&](int chunk, float top, float weight, float2 power) {
    scales[chunk] = top;
    weights[chunk] = weight;
    powers[chunk] = power;
    if (chunk < count) most = fmaxf(most, top);
  };
  if (threadIdx.x < p.chunks) keep(threadIdx.x, own_top, own_weight, own_powers);
#pragma unroll 1
  for (int i = threadIdx.x + THREADS; i < p.chunks; i += THREADS)
    keep(i, tops[i * step], chunk_weights[i * step], chunk_powers[i * step]);
#pragma unroll
  for (int i = 16; i > 0; i /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, i));
  if (threadIdx.x % 32 == 0) warp_tops[threadIdx.x / 32] = most;
  __syncthreads();
  most = warp_tops[0];
#pragma unroll
  for (int i = 1; i < THREADS / 32; ++i) most = fmaxf(most, warp_tops[i]);

  Octet sum[EACH] = {};
  float weight[EACH] = {};
  for (int from = first; from < count; from += AHEAD * STRANDS) {
    if (from > first) ask(from, count);
#pragma unroll
    for (int i = 0; i < AHEAD; ++i)
#pragma unroll
      for (int e = 0; e < EACH; ++e) {
        const int chunk = from + i * STRANDS + e;
        if (chunk >= count) continue;
        const float scale = exp2_of(scales[chunk] - most);
        const float by = __fmul_rn(scale, octet < OCTETS / SIDES ? powers[chunk].x : powers[chunk].y);
        add_scaled(sum[e].quads[0], by, some[i][e].x, some[i][e].y);
        add_scaled(sum[e].quads[1], by, some[i][e].z, some[i][e].w);
        weight[e] = __fmaf_rn(scale, weights[chunk], weight[e]);
      }
  }
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
#pragma unroll
    for (int i = 0; i < 2; ++i) strands[(first + e) * QUADS + octet * 2 + i] = sum[e].quads[i];
    if (octet == 0) strand_weights[first + e] = weight[e];
  }
  __syncthreads();
  if (quad >= QUADS) return;
  float4 all = strands[quad];
  float weight_of_all = strand_weights[0];
#pragma unroll
  for (int i = 1; i < STRANDS; ++i) {
    add(all, strands[i * QUADS + quad]);
    weight_of_all = __fadd_rn(weight_of_all, strand_weights[i]);
  }
  if (reached > p.chunks) weight_of_all = CUDART_NAN_F;  // the context outgrew the launch: never a quiet answer
  const int column = head * D + sixteen;
  __nv_bfloat16* const out = p.out + static_cast<long long>(row) * p.out_stride + column;
  const __nv_bfloat16 results[4] = {gated(all.x, weight_of_all, gates[0]), gated(all.y, weight_of_all, gates[1]),
                                    gated(all.z, weight_of_all, gates[2]), gated(all.w, weight_of_all, gates[3])};
#pragma unroll
  for (int i = 0; i < 4; ++i) out[column_of(lane, i)] = results[i];
  if (p.next.image != nullptr) write_operands(p.next, row, column, lane, results);
}
