// Merge the partial results of a row and head over the chunks of its context, and gate the result.
//
// top = largest top; sum and weight = those of the chunks times 2^(chunk's top - top), a chain over
// chunks c = s, s + 8, s + 16, .. for each of eight strands s, then the strands in order. Chunks past
// the row's own position are not looked at, so it does not matter how many were launched.
//
// A block takes two heads of a row and half of their columns, which fill whole lines of the cache, or one head
// where a KV head has an odd number; the threads of a strand take a quad each.

#include <cuda_bf16.h>
#include <math_constants.h>

#include "chunks.cuh"
#include "partials.cuh"

constexpr int D = 256;
constexpr int STRANDS = 8, QUADS = 64, THREADS = STRANDS * QUADS;
constexpr int LINES = SHARE % 2 == 0 ? 2 : 1;
// By `combine_macros` of verify_launch.py: AHEAD, partial results of a strand that are asked for before
// their scales are known, and SHARE, query heads of a KV head; no bit hangs on them. And KV_BYTES.

struct Problem {
  Partials partials;
  const __nv_bfloat16* gate;  // [T, H, D], strides gate_stride, gate_head_stride
  __nv_bfloat16* out;         // [T, H * D], row stride out_stride
  const int* start;
  const int* depths;          // [T]
  int gate_stride, gate_head_stride, out_stride, heads, group_rows, chunks;
};

__device__ __forceinline__ void add_scaled(float4& sum, float scale, const float4& more) {
  sum.x = __fmaf_rn(scale, more.x, sum.x);
  sum.y = __fmaf_rn(scale, more.y, sum.y);
  sum.z = __fmaf_rn(scale, more.z, sum.z);
  sum.w = __fmaf_rn(scale, more.w, sum.w);
}

__device__ __forceinline__ float4 load(const float* quad) { return *reinterpret_cast<const float4*>(quad); }

// bf16(attention) times bf16(sigmoid(gate)), rounded.
__device__ __forceinline__ __nv_bfloat16 gated(float sum, float weight, __nv_bfloat16 gate) {
  const float attention = __bfloat162float(__float2bfloat16_rn(__fdiv_rn(sum, weight)));
  const float sigmoid = __fdiv_rn(1.0f, 1.0f + expf(-__bfloat162float(gate)));
  return __float2bfloat16_rn(__fmul_rn(attention, __bfloat162float(__float2bfloat16_rn(sigmoid))));
}

constexpr int BLOCKS = AHEAD > 4 ? 1 : __CUDA_ARCH__ < 1000 ? 3 : 2;  // of a multiprocessor at least

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) combine(const __grid_constant__ Problem p) {
  extern __shared__ __align__(16) float shared[];
  float2* const marks = reinterpret_cast<float2*>(shared);                    // [chunks, LINES]: scale, weight
  float4* const strands = reinterpret_cast<float4*>(marks + (LINES * p.chunks + 1) / 2 * 2);  // [STRANDS, QUADS]
  float* const strand_weights = reinterpret_cast<float*>(strands + THREADS);  // [STRANDS, LINES]
  float* const warp_tops = strand_weights + STRANDS * LINES;                  // [warps, LINES]
  const int quad = threadIdx.x % QUADS, strand = threadIdx.x / QUADS, t = quad % 4, line = quad / 4 % LINES;
  const int row = blockIdx.x / p.heads, place = blockIdx.x % p.heads, head = place / LINES * LINES + line;
  const int sixteen = place % LINES * (D / 16 / LINES) + quad / (4 * LINES);
  int first = p.partials.first_line(head / SHARE, row / p.group_rows) + row % p.group_rows * SHARE +
              place / LINES * LINES % SHARE;
  asm volatile("" : "+r"(first));  // worked out before the wait

  if constexpr (OVERLAP) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
  }
  // All loads that need no other's result go out together; what lies beyond the row is not used.
  const float* const mine = p.partials.quad(first + line, sixteen, t);
  const long long step = static_cast<long long>(p.partials.lines) * D;
  float4 ahead[AHEAD];
#pragma unroll
  for (int i = 0; i < AHEAD; ++i) ahead[i] = load(mine + min(strand + i * STRANDS, p.chunks - 1) * step);
  __nv_bfloat16 gates[4];
  if (strand == 0) {
    const __nv_bfloat16* const gate = p.gate + static_cast<long long>(row) * p.gate_stride +
                                      head * static_cast<long long>(p.gate_head_stride) + sixteen * 16;
#pragma unroll
    for (int i = 0; i < 4; ++i) gates[i] = gate[column_of(t, i)];
  }

  const int own = threadIdx.x % LINES;  // whose tops a thread looks at
  const int reached = chunk_of(*p.start + p.depths[row]) + 1, count = min(reached, p.chunks);
  float most = -CUDART_INF_F;
  for (int i = threadIdx.x; i < LINES * p.chunks; i += THREADS) {
    const long long place = p.partials.line(i / LINES, first + own);
    const float top = p.partials.tops[place];
    marks[i] = make_float2(top, p.partials.weights[place]);
    if (i / LINES < count) most = fmaxf(most, top);
  }
#pragma unroll
  for (int i = 16; i >= LINES; i /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, i));
  if (threadIdx.x % 32 < LINES) warp_tops[threadIdx.x / 32 * LINES + own] = most;
  __syncthreads();
  most = warp_tops[line];
#pragma unroll
  for (int i = 1; i < THREADS / 32; ++i) most = fmaxf(most, warp_tops[i * LINES + line]);

  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  float weight = reached > p.chunks ? CUDART_NAN_F : 0.0f;  // outgrown: never a quiet answer
  auto add = [&](int chunk, const float4& more) {
    const float2 mark = marks[chunk * LINES + line];
    const float scale = exp2_of(mark.x - most);
    add_scaled(sum, scale, more);
    weight = __fmaf_rn(scale, mark.y, weight);
  };
#pragma unroll
  for (int i = 0; i < AHEAD; ++i)
    if (strand + i * STRANDS < count) add(strand + i * STRANDS, ahead[i]);
#pragma unroll 4
  for (int chunk = strand + AHEAD * STRANDS; chunk < count; chunk += STRANDS) add(chunk, load(mine + chunk * step));
  strands[threadIdx.x] = sum;
  if (quad % 4 == 0 && quad < 4 * LINES) strand_weights[strand * LINES + line] = weight;
  __syncthreads();
  if (strand > 0) return;
  weight = strand_weights[line];
#pragma unroll
  for (int i = 1; i < STRANDS; ++i) {
    add_scaled(sum, 1.0f, strands[i * QUADS + quad]);
    weight = __fadd_rn(weight, strand_weights[i * LINES + line]);
  }
  __nv_bfloat16* const out = p.out + static_cast<long long>(row) * p.out_stride + head * D + sixteen * 16;
  out[column_of(t, 0)] = gated(sum.x, weight, gates[0]);
  out[column_of(t, 1)] = gated(sum.y, weight, gates[1]);
  out[column_of(t, 2)] = gated(sum.z, weight, gates[2]);
  out[column_of(t, 3)] = gated(sum.w, weight, gates[3]);
}
