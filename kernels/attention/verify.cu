// Attend from the rows of a verify to the chunks of the context: one partial result for each row,
// head and chunk.
//
// A block streams the keys and values of chunks of one KV head past all its rows: the SHARE query
// heads of each row are rows of the same products, so memory is read once. Tiles of 64 positions:
//
//   scores   q k, a chain of 16 instructions over D; one for each (16 rows, 8 positions)
//   top      largest score of a row so far, times D^-0.5 log2 e: exact, in any order; of codes the
//            scale of the keys is in that factor
//   weights  2^(score - top), rounded to bf16
//   sums     of values, and of the weights themselves (a column of ones): chains over positions,
//            16 to an instruction, scaled when the top moves; at the end of a chunk those of codes
//            take the scale of the values
//
// Which warp computes what, and how many rows there are, changes no order, so a row has the bits
// that it has alone. A position stands at the same place of the same instruction whether its key is
// committed or lies on the row's own path (verify_tail.cuh).

#include "verify_problem.cuh"
#include "verify_ring.cuh"
#include "verify_scores.cuh"
#include "verify_values.cuh"
#include "verify_work.cuh"

// Copy 16 bytes to shared memory, or zeros, without a register.
__device__ __forceinline__ void copy_16(unsigned to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}

__device__ __forceinline__ void store_16(unsigned to, const uint4& four) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(four.x), "r"(four.y), "r"(four.z), "r"(four.w)
               : "memory");
}

// Bring the queries of the block's rows: row r * SHARE + h of the matrix unit is head h of row r. Their
// columns lie as those of the keys come (verify_stored.cuh): of 16 of codes, the first two of each
// four, then the others.
__device__ __forceinline__ void fetch_queries(const Problem& p, const Rows& rows, unsigned q) {
  constexpr int COLUMNS = 16 / KV_BYTES;  // taken at a time
#pragma unroll
  for (int i = threadIdx.x; i < BLOCK_ROWS * (D / COLUMNS); i += WORKERS) {
    const int row = i / (D / COLUMNS), column = i % (D / COLUMNS) * COLUMNS;
    const bool there = row_of(row) < rows.count;
    const __nv_bfloat16* const from = p.q + static_cast<long long>(rows.row0 + (there ? row_of(row) : 0)) * p.q_stride +
                                      (rows.group * SHARE + row % SHARE) * D + column;
    const unsigned to = q + row * Q_BYTES + column * 2;
    if constexpr (KV_BYTES == 2) {
      copy_16(to, from, there);
    } else {
      const uint4 none = {0, 0, 0, 0}, *const both = reinterpret_cast<const uint4*>(from);
      const uint4 a = there ? both[0] : none, b = there ? both[1] : none;
      store_16(to, {a.x, a.z, b.x, b.z});
      store_16(to + 16, {a.y, a.w, b.y, b.w});
    }
  }
}

// Bring paths, and say whether the rows are a chain as far as this thread looks.
__device__ __forceinline__ bool fetch_paths(const Problem& p, const Rows& rows, unsigned char* paths) {
  bool chain = true;
  for (int i = threadIdx.x; i < rows.count * MAX_ROWS; i += WORKERS) {
    const int row = rows.row0 + i / MAX_ROWS, at = i % MAX_ROWS;
    const int depth = p.depths[row], node = p.paths[row * MAX_ROWS + at];
    paths[i] = node;
    chain = chain && depth == row && (at > depth || node == at);
  }
  return chain;
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    verify(const __grid_constant__ Problem p, const __grid_constant__ TensorMap keys,
           const __grid_constant__ TensorMap values) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const unsigned at = shared_address(shared);
  int* const depths = reinterpret_cast<int*>(shared + DEPTHS_AT);
  float* const scales = reinterpret_cast<float*>(shared + SCALES_AT);
  float* const maxima = reinterpret_cast<float*>(shared + MAXIMA_AT);

  const Ring ring = {at + BARRIERS_AT, at};
  const Rows rows = rows_of(p);
  if constexpr (OVERLAP) let_successor_start();
  if (threadIdx.x == 0) ring.set_up();
  __syncthreads();
  if (warp >= WARPS) {
    if constexpr (UNEVEN) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == WARPS) feed(ring, p, keys, values, rows, lane);
    return;
  }
  if constexpr (UNEVEN) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");

  Work& work = *reinterpret_cast<Work*>(shared + WORK_AT);  // seldom needed, so kept out of registers
  static_assert(sizeof(Work) <= 32);
  if (threadIdx.x == 0) work = work_of(p);
  if constexpr (OVERLAP) wait_for_predecessor();
  fetch_queries(p, rows, at + Q_AT);
  const int depth = depth_of(p, rows, lane), deepest = __reduce_max_sync(~0u, depth);
  const bool in_order = fetch_paths(p, rows, shared + PATHS_AT);
  if (threadIdx.x == 0) work.last = work.start + deepest;
  if (threadIdx.x < MAX_ROWS) {
    depths[threadIdx.x] = depth;
    reinterpret_cast<int*>(shared + ZERO_AT)[threadIdx.x] = 0;
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  const bool chain = meet_all(in_order);
  const Tail tail = {shared + PATHS_AT, depths, at + ZERO_AT};
  const float factor = KV_BYTES == 2 ? p.factor : __fmul_rn(p.factor, p.key_scales[rows.group]);

  // Where this warp's scores are: rows m0 * 16 on, positions n0 * 8 on.
  const int m0 = warp / SCORE_N * MT, column = warp % SCORE_N, n0 = column * NT;
  const unsigned q = at + Q_AT + m0 * 16 * Q_BYTES;
  int unit = 0;
#pragma unroll 1
  for (int round = 0;; ++round) {
    const Chunk chunk = work.chunk(round);
    if (chunk.number < 0) break;
    if (chunk.units() == 0) continue;
    Sums sums;
    sums.clear();
    float top[MT][2];
#pragma unroll
    for (int m = 0; m < MT; ++m) top[m][0] = top[m][1] = -CUDART_INF_F;

#pragma unroll 1
    for (int tile = 0; tile < chunk.full + chunk.tail; ++tile) {
      const bool full = tile < chunk.full;
      const int base = chunk.low + tile * TILE, half_units = full ? 2 : 3;
      ring.wait_for(unit, half_units);
      float scores[MT][NT][4];
      if (full) {
        UnitRow key[NT];
#pragma unroll
        for (int n = 0; n < NT; ++n) {
          const int row = (n0 + n) * 8 + (lane & 7);
          key[n] = unit_row(ring.place(unit + row / UNIT), row % UNIT);
        }
        score(scores, key, q, lane);
      } else {
        score_tail(scores, ring, unit, q, m0, n0, lane, work, rows, tail, base, chain);
      }

#pragma unroll
      for (int m = 0; m < MT; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float most = -CUDART_INF_F;
#pragma unroll
          for (int n = 0; n < NT; ++n) most = fmaxf(most, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
          most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
          most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
          if (t == 0) maxima[column * BLOCK_ROWS + (m0 + m) * 16 + half * 8 + g] = most;
        }
      ring.let_go(unit, half_units, lane);
      unit += half_units;
      meet();  // maxima are there, and all have used the weights before

#pragma unroll
      for (int m = 0; m < MT; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = (m0 + m) * 16 + half * 8 + g;
          float most = maxima[row];
#pragma unroll
          for (int i = 1; i < SCORE_N; ++i) most = fmaxf(most, maxima[i * BLOCK_ROWS + row]);
          const float before = top[m][half], now = fmaxf(before, __fmul_rn(most, factor));
          const float offset = now == -CUDART_INF_F ? 0.0f : now;
          top[m][half] = now;
          if (column == 0 && t == 0) scales[row] = exp2_of(before - offset);
#pragma unroll
          for (int n = 0; n < NT; ++n) {
            // rounded apart, as the top was: of huge scores a fused product leaves a huge rest
            const float x = exp2_of(__fsub_rn(__fmul_rn(scores[m][n][2 * half], factor), offset));
            const float y = exp2_of(__fsub_rn(__fmul_rn(scores[m][n][2 * half + 1], factor), offset));
            *reinterpret_cast<__nv_bfloat162*>(shared + P_AT + row * P_BYTES + (n0 + n) * 16 + t * 4) =
                __floats2bfloat162_rn(x, y);
          }
        }
      ring.wait_for(unit, half_units);
      if (full) {
        meet();
        sums.scale(scales, warp, lane);
        sums.add(ring, unit, at + P_AT, warp, lane);
      } else {
        const bool alike = meet_all(chain && all_finite(ring.place(unit + 2), work.last - work.start + 1));
        sums.scale(scales, warp, lane);
        sums.add_tail(ring, unit, at + P_AT, warp, lane, work, rows, tail, base, alike);
      }
      ring.let_go(unit, half_units, lane);
      unit += half_units;
    }

    // Where results go is worked out here and not kept in registers all along.
    int first = g;
    asm volatile("" : "+r"(first));
    const long long partial = static_cast<long long>(chunk.number) * p.rows * p.heads;
    const float value_scale = KV_BYTES == 2 ? 1.0f : p.value_scales[rows.group];
    auto place_of = [&](int matrix_row) {
      return partial + (rows.row0 + row_of(matrix_row)) * p.heads + rows.group * SHARE + matrix_row % SHARE;
    };
#pragma unroll
    for (int m = 0; m < M_TILES; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = m * 16 + half * 8 + first;
        if (row_of(row) >= rows.count) continue;
        store_sums(p.sums + place_of(row) * D + warp * V_TILES * 8, sums.values[m], half, t, value_scale);
        if (m == warp && t == 0) p.weights[place_of(row)] = sums.weights[2 * half];
      }
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = (m0 + m) * 16 + half * 8 + first;
        if (column == 0 && t == 0 && row_of(row) < rows.count) p.tops[place_of(row)] = top[m][half];
      }
  }
}
