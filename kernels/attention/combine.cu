// Merge the partial results of a verify where its own blocks do not (verify_merge.cuh): a block for each
// row and head, a group of threads for each strand.

#include "merge.cuh"

constexpr int D = 256;
constexpr int QUADS = D / 4, THREADS = STRANDS * QUADS;
// By `combine_macros` of verify_launch.py: AHEAD, partial results of a strand that are asked for before
// their scales are known, and SHARE, which change no bit; and KV_BYTES.

struct Problem {
  Partials partials;
  Gated gated;
  const int* start;
  const int* depths;  // [T]
  int heads, group_rows, chunks;
};

extern "C" __global__ void __launch_bounds__(THREADS, AHEAD > 4 ? 1 : 3) combine(const __grid_constant__ Problem p) {
  extern __shared__ __align__(16) float shared[];
  float* const scales = shared;                                             // [chunks]
  float* const weights = shared + p.chunks;                                 // [chunks]
  float4* const strands = reinterpret_cast<float4*>(shared + (2 * p.chunks + 3) / 4 * 4);  // [STRANDS, QUADS]
  float* const strand_weights = reinterpret_cast<float*>(strands + THREADS);
  float* const warp_tops = strand_weights + STRANDS;
  const int quad = threadIdx.x % QUADS, strand = threadIdx.x / QUADS, sixteen = quad / 4, t = quad % 4;
  const int row = blockIdx.x / p.heads, head = blockIdx.x % p.heads;
  const int own = p.partials.first_line(head / SHARE, row / p.group_rows) + row % p.group_rows * SHARE + head % SHARE;

  if constexpr (OVERLAP) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
  }
  // All loads that need no other's result go out together; what lies beyond the row is not used.
  const float* const mine = p.partials.quad(own, sixteen, t);
  const long long step = static_cast<long long>(p.partials.lines) * D;
  float4 ahead[AHEAD];
#pragma unroll
  for (int i = 0; i < AHEAD; ++i) ahead[i] = load_quad(mine + min(strand + i * STRANDS, p.chunks - 1) * step);
  Gates gates;
  if (strand == 0) gates.load(p.gated, row, head, sixteen, t);
  float most = -CUDART_INF_F;
  const int position = *p.start + p.depths[row];
  const int reached = chunk_of(position) + 1, count = min(reached, p.chunks);
  for (int i = threadIdx.x; i < p.chunks; i += THREADS) {
    const float top = p.partials.tops[p.partials.line(i, own)];
    scales[i] = top;
    weights[i] = p.partials.weights[p.partials.line(i, own)];
    if (i < count) most = fmaxf(most, top);
  }
#pragma unroll
  for (int i = 16; i > 0; i /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, i));
  if (threadIdx.x % 32 == 0) warp_tops[threadIdx.x / 32] = most;
  __syncthreads();
  most = warp_tops[0];
#pragma unroll
  for (int i = 1; i < THREADS / 32; ++i) most = fmaxf(most, warp_tops[i]);

  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  float weight = 0.0f;
#pragma unroll
  for (int i = 0; i < AHEAD; ++i) {
    const int chunk = strand + i * STRANDS;
    if (chunk < count) {
      const float scale = exp2_of(scales[chunk] - most);
      add_scaled(sum, scale, ahead[i]);
      weight = __fmaf_rn(scale, weights[chunk], weight);
    }
  }
#pragma unroll 4
  for (int chunk = strand + AHEAD * STRANDS; chunk < count; chunk += STRANDS) {
    const float scale = exp2_of(scales[chunk] - most);
    add_scaled(sum, scale, load_quad(mine + chunk * step));
    weight = __fmaf_rn(scale, weights[chunk], weight);
  }
  strands[threadIdx.x] = sum;
  if (quad == 0) strand_weights[strand] = weight;
  __syncthreads();
  if (strand > 0) return;
  weight = strand_weights[0];
#pragma unroll
  for (int i = 1; i < STRANDS; ++i) {
    add_scaled(sum, 1.0f, strands[i * QUADS + quad]);
    weight = __fadd_rn(weight, strand_weights[i]);
  }
  if (reached > p.chunks) weight = CUDART_NAN_F;  // the context outgrew the launch: never a quiet answer
  gates.write(p.gated, row, head, sixteen, t, sum, weight);
}
