// Merge partial results without another launch: where the blocks of some rows and a KV head are a
// cluster, they meet once all have stored theirs, and share the merging out among their warps.
//
// A warp takes two rows of the matrix unit and a quarter of their columns: half a warp has the quads of
// a row, and each of its lanes the scales of one or two chunks.
#pragma once

#include "merge.cuh"
#include "verify_work.cuh"

constexpr int MERGED_CHUNKS = 32;  // of the context at most
constexpr int HALF = 16;           // lanes of a row

// Wait until all blocks of the cluster have stored; by all threads that compute, those that fed are gone.
__device__ __forceinline__ void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ void merge_rows(const Problem& p, const Rows& rows, const Work& work, const int* depths,
                                           int item, int lane) {
  const int matrix_row = item / 4 * 2 + lane / HALF, sixteen = item % 4 * 4 + lane % HALF / 4, t = lane % 4;
  const bool there = row_of(matrix_row) < rows.count;
  const int row = there ? row_of(matrix_row) : 0, number = lane % HALF;
  const int own = work.first_line + matrix_row;
  const int reached = chunk_of(work.start + depths[row]) + 1, count = there ? min(reached, p.chunks) : 0;
  const int head = rows.group * SHARE + matrix_row % SHARE;
  Gates gates;
  gates.load(p.gated, rows.row0 + row, head, sixteen, t);

  float4 ahead[HALF];
  auto ask = [&](int first) {
#pragma unroll
    for (int i = 0; i < HALF; ++i)
      if (first + i < count) ahead[i] = load_quad(p.partials.quad(p.partials.line(first + i, own), sixteen, t));
  };
  ask(0);
  float scales[2], weights[2];  // of chunks `number` and 16 on
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int chunk = number + i * HALF;
    const long long line = p.partials.line(chunk, own);
    scales[i] = chunk < count ? __ldcg(p.partials.tops + line) : -CUDART_INF_F;
    weights[i] = chunk < count ? __ldcg(p.partials.weights + line) : 0.0f;
  }
  float most = fmaxf(scales[0], scales[1]);
#pragma unroll
  for (int i = HALF / 2; i > 0; i /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, i));
#pragma unroll
  for (int i = 0; i < 2; ++i) scales[i] = exp2_of(scales[i] - most);

  float4 sums[STRANDS];
  float sums_of_weights[STRANDS];
#pragma unroll
  for (int i = 0; i < STRANDS; ++i) {
    sums[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    sums_of_weights[i] = 0.0f;
  }
#pragma unroll
  for (int part = 0; part < MERGED_CHUNKS / HALF; ++part) {
    if (part > 0) {
      if (!__any_sync(~0u, part * HALF < count)) break;
      ask(part * HALF);
    }
#pragma unroll
    for (int i = 0; i < HALF; ++i) {
      const float scale = __shfl_sync(~0u, scales[part], i, HALF), weight = __shfl_sync(~0u, weights[part], i, HALF);
      if (part * HALF + i < count) {
        add_scaled(sums[i % STRANDS], scale, ahead[i]);
        sums_of_weights[i % STRANDS] = __fmaf_rn(scale, weight, sums_of_weights[i % STRANDS]);
      }
    }
  }
#pragma unroll
  for (int i = 1; i < STRANDS; ++i) {
    add_scaled(sums[0], 1.0f, sums[i]);
    sums_of_weights[0] = __fadd_rn(sums_of_weights[0], sums_of_weights[i]);
  }
  const float weight = reached > p.chunks ? CUDART_NAN_F : sums_of_weights[0];  // outgrown: never a quiet answer
  if (there) gates.write(p.gated, rows.row0 + row, head, sixteen, t, sums[0], weight);
}

// Merge what the blocks of the cluster have stored; by all warps that compute.
__device__ __forceinline__ void merge(const Problem& p, const Work& work, const int* depths) {
  meet_cluster();
  const int thread = apart(threadIdx.x);
  const int warp = thread >> 5, lane = thread & 31;
  const Rows rows = rows_of(p);
  const int items = (rows.count * SHARE + 1) / 2 * 4;
#pragma unroll 1
  for (int item = work.bin + warp * CLUSTER; item < items; item += WARPS * CLUSTER)
    merge_rows(p, rows, work, depths, item, lane);
}
