// Attend from the rows of a verify to the chunks of the context: one partial result for each row,
// head and chunk. Keys and values in BF16; verify_codes.cu does the same to codes.
//
// A block streams the keys and values of chunks of one KV head past all its rows: the SHARE query
// heads of each row are rows of the same products, so memory is read once. Tiles of 64 positions:
//
//   scores   q k, a chain of 16 instructions over D; one for each (16 rows, 8 positions)
//   top      largest score of a row so far, times D^-0.5 log2 e: exact, in any order
//   weights  2^(score - top), rounded to bf16
//   sums     of values, and of the weights themselves (a column of ones): chains over positions,
//            16 to an instruction, scaled when the top moves
//
// A warp computes all of that for 16 rows of the matrix unit and meets no other, but to lay a chain's own rows in
// place (verify_chain.cuh): scores become weights in its registers. On sm_90 four of them multiply together
// (verify_wide.cuh). The warps of a stream share its ring, a block may have several streams, each with chunks of
// its own, and where warps are to spare each of a team computes the scores and adds a part of the values' columns.
// Which warp computes what, and how many rows there are, changes no order, so a row has the bits that it has alone.
// A position stands at the same place of the same instruction whether its key is committed or lies on the row's own
// path (verify_tail.cuh).

#include "verify_problem.cuh"
#include "verify_ring.cuh"
#include "verify_begin.cuh"
#include "verify_chain.cuh"
#include "verify_scores.cuh"
#include "verify_values.cuh"
#include "verify_wide.cuh"
#include "verify_work.cuh"

// One more warp of each stream feeds its ring. The sums of eight warps that multiply together need more
// registers than twelve have alike: then the feeding warp is one of four that give theirs away.
constexpr bool UNEVEN = WIDE && WARPS > 4;
constexpr int THREADS = WORKERS + (UNEVEN ? 128 : STREAMS * 32);

// Turn scores into weights: the tops of rows g and g + 8 move, `by` is what earlier sums are scaled by. Two
// tiles of a lane's scores are its operand of 16 positions.
__device__ __forceinline__ void weigh(Scores& scores, float (&top)[2], float factor, float (&by)[2],
                                      Matrix4 (&weights)[STEPS]) {
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
    // rounded apart, as the top was: of huge scores a fused product leaves a huge rest
    auto weight = [&](float score) { return exp2_of(__fsub_rn(__fmul_rn(score, factor), offset)); };
#pragma unroll
    for (int n = 0; n < N_TILES; ++n)
      weights[n / 2].v[n % 2 * 2 + half] = two_of(weight(scores[n][2 * half]), weight(scores[n][2 * half + 1]));
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    verify(const __grid_constant__ Problem p, const __grid_constant__ TensorMap keys,
           const __grid_constant__ TensorMap own_keys, const __grid_constant__ TensorMap values,
           const __grid_constant__ TensorMap own_values) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const unsigned at = shared_address(shared);
  const Rows rows = rows_of(p);
  if constexpr (OVERLAP && !IN_MEASURE) let_successor_start();
  set_up_rings(at);
  if (warp >= WARPS) {
    if constexpr (UNEVEN) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    const Maps maps = {keys, own_keys, values, own_values};
    if (warp < WARPS + STREAMS) feed(ring_of(at, warp - WARPS), p, maps, rows, warp - WARPS, lane);
    return;
  }
  if constexpr (UNEVEN) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  const bool chain = begin(p, rows, shared);
  const Work& work = *reinterpret_cast<Work*>(shared + WORK_AT);  // seldom needed, so kept out of registers
  const Tail tail = {shared + PATHS_AT, reinterpret_cast<int*>(shared + DEPTHS_AT), at + ZERO_AT, p.own_slots};

  // This warp: 16 rows of the matrix unit, and of their sums one part of the columns.
  const int stream = warp / CREW, first = warp % M_TILES * 16, part = warp / M_TILES % TEAM;
  const Ring ring = ring_of(at, stream);
  const UnitRow q = query_row(at + Q_AT, first, lane);
  int unit = 0;
#pragma unroll 1
  for (Chunk chunk = work.chunk(work.first_of(p, stream)); chunk.number >= 0;) {
    Sums sums;
    sums.clear();
    float top[2] = {-CUDART_INF_F, -CUDART_INF_F};  // of rows g and g + 8

#pragma unroll 1
    for (int tile = 0; tile < chunk.full + chunk.tail; ++tile) {
      const bool full = tile < chunk.full;
      const int base = chunk.low + tile * TILE, half_units = full ? FILLS : FILLS + 1;
      Scores scores;
      Matrix4 weights[STEPS];
      float by[2];
      bool alike = false;  // all rows have the same own values, which are finite
      if (LAYS && !full && chain) {
        if constexpr (LAYS) alike = lay_own(ring, unit, work, tail, base);
      } else {
        ring.wait_for(unit, half_units);
      }
      if (WIDE && (full || LAYS && chain)) {
        if constexpr (WIDE) {
          score_wide(scores, at + Q_AT + first / 64 * 64 * BOX_ROW, ring.place(unit));
          if (!full) hide_later(scores, work, tail, base, first, lane);
        }
      } else if (full) {
        const unsigned low = ring.place(unit), high = ring.place(unit + 1);
        score<N_TILES>(scores, [&](int n) { return unit_row(n < 4 ? low : high, n % 4 * 8 + (lane & 7)); }, q, lane);
      } else {
        const UnitRow again = WIDE ? query_row(at + Q_AT, first, apart(lane)) : q;
        score_tail(scores, ring, unit, again, first, lane, work, rows, tail, base, chain);
      }
      weigh(scores, top, p.factor, by, weights);
      ring.let_go(unit, half_units, lane);
      unit += half_units;
      sums.scale(by);
      ring.wait_for(unit, half_units);
      if (!WIDE && !full && chain)
        alike = tail.all_finite(ring.place(unit + FILLS), work.last - work.start + 1, lane);
      if (WIDE && (full || alike)) {
        if constexpr (WIDE) add_wide(sums, weights, ring.place(unit));
      } else if (full) {
        sums.add(ring, unit, weights, part, lane);
      } else {
        sums.add_tail(ring, unit, weights, part, first, lane, work, rows, tail, base, alike);
      }
      ring.let_go(unit, half_units, lane);
      unit += half_units;
    }

    if constexpr (OVERLAP && IN_MEASURE) let_successor_start();  // until now it would only be in the way
    const int next = work.after(p, apart(chunk.number));  // asked for before the stores
    const int row_of_lane = apart(first + g);
    float most[2][V_SIDES];
    sums.find_largest(most, row_of(first + 8) < rows.count);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row_of_lane + half * 8;
      if (row_of(row) >= rows.count || chunk.units() == 0) continue;
      Power powers[V_SIDES];
#pragma unroll
      for (int side = 0; side < V_SIDES; ++side) powers[side] = power_of(most[half][side]);
      const int place = work.place(p, chunk.number, row);
      sums.store(p.sums + static_cast<long long>(place) * D, powers, part, half, t);
      if (t == 0) {
#pragma unroll
        for (int side = 0; side < V_SIDES; ++side) p.powers[place * SIDES + part + side] = powers[side].up;
      }
      if (part == 0 && t == 0) {
        p.tops[place] = top[half];
        p.weights[place] = sums.weights[2 * half];
      }
    }
    chunk = work.chunk(next);
  }
}
