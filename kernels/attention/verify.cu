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
#if WIDE
#include "verify_wide.cuh"
#endif
#include "verify_work.cuh"

// Copy 16 bytes to shared memory, or zeros, without a register.
__device__ __forceinline__ void copy_16(unsigned to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}

__device__ __forceinline__ void store_16(unsigned to, const uint4& four) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(four.x), "r"(four.y), "r"(four.z), "r"(four.w)
               : "memory");
}

__device__ __forceinline__ unsigned two_of(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const unsigned&>(both);
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
    const UnitRow to_row = {q + row * BOX_ROW, Q_BOX_BYTES, row & 7};
    if constexpr (KV_BYTES == 2) {
      copy_16(to_row.piece(column / 8), from, there);
    } else {
      const uint4 none = {0, 0, 0, 0}, *const both = reinterpret_cast<const uint4*>(from);
      const uint4 a = there ? both[0] : none, b = there ? both[1] : none;
      store_16(to_row.piece(column / 8), {a.x, a.z, b.x, b.z});
      store_16(to_row.piece(column / 8 + 1), {a.y, a.w, b.y, b.w});
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

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    verify(const __grid_constant__ Problem p, const __grid_constant__ TensorMap keys,
           const __grid_constant__ TensorMap values) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const unsigned at = shared_address(shared);
  int* const depths = reinterpret_cast<int*>(shared + DEPTHS_AT);

  const Rows rows = rows_of(p);
  if constexpr (OVERLAP) let_successor_start();
  if (threadIdx.x < STREAMS) ring_of(at, threadIdx.x).set_up();
  if (threadIdx.x < 32) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  if (warp >= WARPS) {
    if constexpr (UNEVEN) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp < WARPS + STREAMS) feed(ring_of(at, warp - WARPS), p, keys, values, rows, warp - WARPS, lane);
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
  if constexpr (WIDE) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  const bool chain = meet_all(in_order);
  const Tail tail = {shared + PATHS_AT, depths, at + ZERO_AT};
  const float factor = KV_BYTES == 2 ? p.factor : __fmul_rn(p.factor, p.key_scales[rows.group]);

  // This warp: 16 rows of the matrix unit, and of their sums one part of the columns.
  const int stream = warp / CREW, first = warp % M_TILES * 16, part = warp / M_TILES % TEAM;
  const Ring ring = ring_of(at, stream);
  const UnitRow q = query_row(at + Q_AT, first, lane);
  int unit = 0;
#pragma unroll 1
  for (int pass = 0;; ++pass) {
    const Chunk chunk = work.chunk(stream, pass);
    if (chunk.number < 0) break;
    if (chunk.units() == 0) continue;
    Sums sums;
    sums.clear();
    float top[2] = {-CUDART_INF_F, -CUDART_INF_F};  // of rows g and g + 8

#pragma unroll 1
    for (int tile = 0; tile < chunk.full + chunk.tail; ++tile) {
      const bool full = tile < chunk.full;
      const int base = chunk.low + tile * TILE, half_units = full ? 2 : 3;
      ring.wait_for(unit, half_units);
      Scores scores;
      if (full) {
        const unsigned low = ring.place(unit), high = ring.place(unit + 1);
#if WIDE
        score_wide(scores, at + Q_AT + first / 64 * 64 * BOX_ROW, low, high);
#else
        score<N_TILES>(scores, [&](int n) { return unit_row(n < 4 ? low : high, n % 4 * 8 + (lane & 7)); }, q, lane);
#endif
      } else {
        score_tail(scores, ring, unit, q, first, lane, work, rows, tail, base, chain);
      }
      ring.let_go(unit, half_units, lane);
      unit += half_units;

      float by[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float most = -CUDART_INF_F;
#pragma unroll
        for (int n = 0; n < N_TILES; ++n) most = fmaxf(most, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        const float before = top[half], now = fmaxf(before, __fmul_rn(most, factor));
        const float offset = now == -CUDART_INF_F ? 0.0f : now;
        top[half] = now;
        by[half] = exp2_of(before - offset);
#pragma unroll
        for (int n = 0; n < N_TILES; ++n)
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i)  // rounded apart, as the top was: of huge scores a fused
            scores[n][i] = exp2_of(__fsub_rn(__fmul_rn(scores[n][i], factor), offset));  // product leaves a huge rest
      }
      // Two tiles of a lane's scores are its operand of 16 positions.
      Matrix4 weights[STEPS];
#pragma unroll
      for (int n = 0; n < N_TILES; ++n) {
        weights[n / 2].v[n % 2 * 2] = two_of(scores[n][0], scores[n][1]);
        weights[n / 2].v[n % 2 * 2 + 1] = two_of(scores[n][2], scores[n][3]);
      }
      sums.scale(by);
      ring.wait_for(unit, half_units);
      if (full) {
#if WIDE
        add_wide(sums, ring, unit, weights, lane);
#else
        sums.add(ring, unit, weights, part, lane);
#endif
      } else {
        const bool alike = chain && all_finite(ring.place(unit + 2), work.last - work.start + 1, lane);
        sums.add_tail(ring, unit, weights, part, first, lane, work, rows, tail, base, alike);
        ring.let_go(unit, half_units, lane);
      }
      unit += half_units;
    }

    // Where results go is worked out here and not kept in registers all along.
    int row_of_lane = first + g;
    asm volatile("" : "+r"(row_of_lane));
    const long long partial = static_cast<long long>(chunk.number) * p.rows * p.heads;
    const float value_scale = KV_BYTES == 2 ? 1.0f : p.value_scales[rows.group];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row_of_lane + half * 8;
      if (row_of(row) >= rows.count) continue;
      const long long place = partial + (rows.row0 + row_of(row)) * p.heads + rows.group * SHARE + row % SHARE;
      store_sums(p.sums + place * D + part * V_TILES * 8, sums.values, half, t, value_scale);
      if (part == 0 && t == 0) {
        p.tops[place] = top[half];
        p.weights[place] = sums.weights[2 * half];
      }
    }
  }
}
