// Scores of a tile of 64 positions: chains of 16 instructions over D, one for (16 rows, 8 positions).
#pragma once

#include "verify_tail.cuh"

constexpr int N_TILES = TILE / 8;  // 8-position tiles

using Scores = float[N_TILES][4];  // of 16 rows; lane (g, t): rows g, g + 8, positions 2t, 2t + 1 of each tile

// A warp's scores of COUNT tiles of positions, where all its rows have the same keys: key(n) is this
// lane's row of the tiles' eight.
template <int COUNT, typename Key>
__device__ __forceinline__ void score(float (*scores)[4], const Key& key, const UnitRow& q, int lane) {
#pragma unroll
  for (int n = 0; n < COUNT; ++n)
    for (int i = 0; i < 4; ++i) scores[n][i] = 0.0f;
#pragma unroll
  for (int k = 0; k < D / 32; ++k) {
    Matrix4 a[2];
#pragma unroll
    for (int step = 0; step < 2; ++step) a[step] = load_matrices(q.piece(k * 4 + step * 2 + (lane >> 4)));
#pragma unroll
    for (int n = 0; n < COUNT; ++n) {
      const Matrix4 b = load_matrices(key(n).piece(k * 4 + (lane >> 3)));
      multiply_add(scores[n], a[0], {b.v[0], b.v[1]});
      multiply_add(scores[n], a[1], {b.v[2], b.v[3]});
    }
  }
}

// Scores of one row's own keys against 16 rows and 8 positions, of which the row's are taken.
__device__ __forceinline__ void score_row(float (&scores)[4], const UnitRow& key, const UnitRow& q, int first, int row,
                                          int lane) {
  float own[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 2
  for (int k = 0; k < D / 32; ++k) {
    const Matrix4 pieces = load_matrices(key.piece(k * 4 + (lane >> 3)));
#pragma unroll
    for (int step = 0; step < 2; ++step)
      multiply_add(own, load_matrices(q.piece(k * 4 + step * 2 + (lane >> 4))),
                   {pieces.v[2 * step], pieces.v[2 * step + 1]});
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (row_of(first + (lane >> 2) + i / 2 * 8) == row) scores[i] = own[i];
}

// Hide the scores of what comes after a row's own position.
__device__ __forceinline__ void hide_later(Scores& scores, const Work& work, const Tail& tail, int base, int first,
                                           int lane) {
  const int reach[2] = {tail.reach(work, first + (lane >> 2)), tail.reach(work, first + (lane >> 2) + 8)};
#pragma unroll
  for (int n = 0; n < N_TILES; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (base + n * 8 + 2 * (lane & 3) + (i & 1) > reach[i / 2]) scores[n][i] = -CUDART_INF_F;
}

// Scores of a tile that own rows reach into, of rows `first` on of the matrix unit.
__device__ __forceinline__ void score_tail(Scores& scores, const Ring& ring, int unit, const UnitRow& q, int first,
                                           int lane, const Work& work, const Rows& rows, const Tail& tail, int base,
                                           bool chain) {
  constexpr int SOME = TEAM == 1 ? N_TILES / 4 : N_TILES;  // where sums take many registers, few at a time
#pragma unroll
  for (int first_tile = 0; first_tile < N_TILES; first_tile += SOME) {
    UnitRow key[SOME];
#pragma unroll
    for (int n = 0; n < SOME; ++n) {
      const int at = (first_tile + n) * 8 + (lane & 7);  // found without a branch where registers are there for it
      key[n] = WIDE ? tail.find<true>(ring, work, base, at, unit, Tail::ALL)
                    : tail.find_alike<true>(ring, work, base, at, unit);
    }
    score<SOME>(scores + first_tile, [&](int n) { return key[n]; }, q, lane);
  }
  if (__builtin_expect(!chain, false)) {
#pragma unroll
    for (int n = 0; n < N_TILES; ++n) {
      const int position = base + n * 8;
      if (position + 7 < work.start || position > work.last) continue;
#pragma unroll 1
      for (int row = row_of(first); row <= row_of(first + 15) && row < rows.count; ++row)
        score_row(scores[n], tail.find<true>(ring, work, base, n * 8 + (lane & 7), unit, row), q, first, row, lane);
    }
  }
  hide_later(scores, work, tail, base, first, lane);
}
