// Attend as verify.cu does, in the same order, to a store of e4m3 codes.
//
// Widening codes costs more than their products, so the warps of a block share it: each widens some of a
// tile's positions for the scores of all rows, and some of its columns for their sums. They meet twice a
// tile, to find the tops and to hand each other the weights, and for the largest sums of a chunk. Of
// codes the scale of the keys is in the factor of the scores; at the end of a chunk the sums take that of the values.

#include "verify_problem.cuh"
#include "verify_ring.cuh"
#include "verify_begin.cuh"
#include "codes_scores.cuh"
#include "codes_values.cuh"
#include "verify_work.cuh"

// Many sums need more registers than nine warps can have alike: then the feeding warp is one of four
// that give theirs away (setmaxnreg moves registers between groups of four warps, on sm_90 and later).
constexpr bool UNEVEN = M_TILES >= 4;
constexpr int THREADS = WORKERS + (UNEVEN ? 128 : 32);

// More shared memory: scales | maxima | weights, and behind the last tile the largest sums [BLOCK_ROWS, WARPS].
constexpr int SCALES_AT = MORE_AT;
constexpr int MAXIMA_AT = SCALES_AT + BLOCK_ROWS * 4;
constexpr int P_AT = MAXIMA_AT + SCORE_N * BLOCK_ROWS * 4;
static_assert(STREAMS == 1 && WARPS == 8 && KV_BYTES == 1);

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    verify_codes(const __grid_constant__ Problem p, const __grid_constant__ TensorMap keys,
                 const __grid_constant__ TensorMap own_keys, const __grid_constant__ TensorMap values,
                 const __grid_constant__ TensorMap own_values) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const unsigned at = shared_address(shared);
  float* const scales = reinterpret_cast<float*>(shared + SCALES_AT);
  float* const maxima = reinterpret_cast<float*>(shared + MAXIMA_AT);
  float* const largest = reinterpret_cast<float*>(shared + P_AT);
  const Ring ring = ring_of(at, 0);
  const Rows rows = rows_of(p);
  if constexpr (OVERLAP) let_successor_start();
  set_up_rings(at);
  if (warp >= WARPS) {
    if constexpr (UNEVEN) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == WARPS) feed(ring, p, {keys, own_keys, values, own_values}, rows, 0, lane);
    return;
  }
  if constexpr (UNEVEN) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");

  const bool chain = begin(p, rows, shared);
  const Work& work = *reinterpret_cast<Work*>(shared + WORK_AT);  // seldom needed, so kept out of registers
  const Tail tail = {shared + PATHS_AT, reinterpret_cast<int*>(shared + DEPTHS_AT), at + ZERO_AT, p.own_slots};
  const float factor = __fmul_rn(p.factor, p.key_scales[rows.group]);

  // Where this warp's scores are: rows m0 * 16 on, positions n0 * 8 on.
  const int m0 = warp / SCORE_N * MT, column = warp % SCORE_N, n0 = column * NT;
  const UnitRow q = query_row(at + Q_AT, m0 * 16, lane);
  int unit = 0;
#pragma unroll 1
  for (Chunk chunk = work.chunk(work.first_of(p, 0)); chunk.number >= 0;
       chunk = work.chunk(work.after(p, chunk.number))) {
    if (chunk.units() == 0) continue;
    Sums sums;
    sums.clear();
    float top[MT][2];
#pragma unroll
    for (int m = 0; m < MT; ++m) top[m][0] = top[m][1] = -CUDART_INF_F;

#pragma unroll 1
    for (int tile = 0; tile < chunk.full + chunk.tail; ++tile) {
      const bool full = tile < chunk.full;
      const int base = chunk.low + tile * TILE, half_units = full ? FILLS : FILLS + 1;
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
        score_tail(scores, ring, unit, q, m0, n0, apart(lane), work, rows, tail, base, chain);
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
      meet();
      if (full) {
        sums.scale(scales, warp, lane);
        sums.add(ring, unit, at + P_AT, warp, lane);
      } else {
        const bool alike = chain && tail.all_finite(ring.place(unit + FILLS), work.last - work.start + 1, lane);
        sums.scale(scales, warp, lane);
        sums.add_tail(ring, unit, at + P_AT, warp, lane, work, rows, tail, base, alike);
      }
      ring.let_go(unit, half_units, lane);
      unit += half_units;
    }

    const int first = apart(g);
    const float value_scale = p.value_scales[rows.group];
    auto place_of = [&](int matrix_row) -> long long { return work.place(p, chunk.number, matrix_row); };
    meet();  // all have used the weights
#pragma unroll
    for (int m = 0; m < M_TILES; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float most = sums.finish(m, half, value_scale);
        if (t == 0) largest[(m * 16 + half * 8 + first) * WARPS + warp] = most;
      }
    meet();
#pragma unroll
    for (int m = 0; m < M_TILES; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = m * 16 + half * 8 + first, side = warp / SIDE_WARPS;
        if (row_of(row) >= rows.count) continue;
        const float4 most = *reinterpret_cast<const float4*>(largest + row * WARPS + side * SIDE_WARPS);
        const Power power = power_of(fmaxf(fmaxf(most.x, most.y), fmaxf(most.z, most.w)));
        sums.store(p.sums + place_of(row) * D, power, m, half, warp, t);
        if (warp % SIDE_WARPS == 0 && t == 0) p.powers[place_of(row) * SIDES + side] = power.up;
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
