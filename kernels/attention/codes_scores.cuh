// Scores of a tile of 64 positions of codes: chains of 16 instructions over D, one for (16 rows, 8 positions).
#pragma once

#include "verify_tail.cuh"

// A code is exact in BF16. Its scale, a power of two, meets fp32 numbers: that of the keys the factor
// of the scores, that of the values the finished sums of a chunk. Neither rounds, so a store of codes
// gives the bits of a BF16 store of the values that the codes stand for, with one reservation: of 16
// columns a lane is handed four neighbours, so within an instruction of the scores columns stand in
// another order (fetch_queries puts the queries' in the same).

constexpr int SCORE_M = M_TILES % 2 == 0 ? 2 : 1;     // warps along rows
constexpr int SCORE_N = WARPS / SCORE_M;              // and along positions
constexpr int MT = M_TILES / SCORE_M, NT = 8 / SCORE_N;  // tiles of a warp

// Two codes, the lower of them first, to two of bf16. NaN stays NaN.
__device__ __forceinline__ unsigned widen(unsigned codes) {
  unsigned two;
  asm("{\n .reg .b16 low, high;\n .reg .b32 both;\n .reg .f32 first, second;\n"
      " cvt.rn.f16x2.e4m3x2 both, %1;\n mov.b32 {low, high}, both;\n"
      " cvt.f32.f16 first, low;\n cvt.f32.f16 second, high;\n cvt.rn.bf16x2.f32 %0, second, first;\n}"
      : "=r"(two)
      : "h"(static_cast<unsigned short>(codes)));
  return two;
}

constexpr int KEY_STEPS = 4;  // instructions over the columns of four pieces

// Four pieces of a key's row to the operand of one of their instructions.
__device__ __forceinline__ Operand key_operand(const Matrix4& pieces, int step) {
  return {widen(pieces.v[step]), widen(pieces.v[step] >> 16)};
}

// This warp's scores, where all rows have the same keys.
__device__ __forceinline__ void score(float (&scores)[MT][NT][4], const UnitRow (&key)[NT], const UnitRow& q,
                                      int lane) {
#pragma unroll
  for (int m = 0; m < MT; ++m)
    for (int n = 0; n < NT; ++n)
      for (int i = 0; i < 4; ++i) scores[m][n][i] = 0.0f;
#pragma unroll
  for (int k = 0; k < D / (4 * PIECE); ++k) {
    Matrix4 pieces[NT];
#pragma unroll
    for (int n = 0; n < NT; ++n) pieces[n] = load_matrices(key[n].piece(k * 4 + (lane >> 3)));
#pragma unroll
    for (int step = 0; step < KEY_STEPS; ++step) {
      Operand b[NT];
#pragma unroll
      for (int n = 0; n < NT; ++n) b[n] = key_operand(pieces[n], step);
#pragma unroll
      for (int m = 0; m < MT; ++m) {
        const Matrix4 a = load_matrices(q.piece((k * KEY_STEPS + step) * 2 + (lane >> 4)) + m * 16 * BOX_ROW);
#pragma unroll
        for (int n = 0; n < NT; ++n) multiply_add(scores[m][n], a, b[n]);
      }
    }
  }
}

// Scores of one row's own keys against 16 rows and 8 positions, of which the row's are taken.
__device__ __forceinline__ void score_row(float (&scores)[4], const UnitRow& key, const UnitRow& q, int matrix_row, int row,
                                          int lane) {
  float own[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 1
  for (int k = 0; k < D / (4 * PIECE); ++k) {
    const Matrix4 pieces = load_matrices(key.piece(k * 4 + (lane >> 3)));
#pragma unroll
    for (int step = 0; step < KEY_STEPS; ++step) {
      const Matrix4 a = load_matrices(q.piece((k * KEY_STEPS + step) * 2 + (lane >> 4)));
      multiply_add(own, a, key_operand(pieces, step));
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (row_of(matrix_row + (lane >> 2) + i / 2 * 8) == row) scores[i] = own[i];
}

// Scores of a tile that own rows reach into. The warp's rows are m0 * 16 on of the matrix unit.
__device__ __forceinline__ void score_tail(float (&scores)[MT][NT][4], const Ring& ring, int unit, const UnitRow& q, int m0,
                                           int n0, int lane, const Work& work, const Rows& rows, const Tail& tail,
                                           int base, bool chain) {
  UnitRow key[NT];
#pragma unroll
  for (int n = 0; n < NT; ++n) key[n] = tail.find<true>(ring, work, base, (n0 + n) * 8 + (lane & 7), unit, Tail::ALL);
  score(scores, key, q, lane);
#pragma unroll
  for (int n = 0; n < NT; ++n) {
    const int first = (n0 + n) * 8;
    if (!chain && base + first + 7 >= work.start && base + first <= work.last) {
#pragma unroll 1
      for (int row = 0; row < rows.count; ++row) {
        const UnitRow own = tail.find<true>(ring, work, base, first + (lane & 7), unit, row);
#pragma unroll
        for (int m = 0; m < MT; ++m) {
          const int matrix_row = (m0 + m) * 16;
          if (row_of(matrix_row) <= row && row <= row_of(matrix_row + 15))
            score_row(scores[m][n], own, {q.at + m * 16 * BOX_ROW, q.box, q.turn}, matrix_row, row, lane);
        }
      }
    }
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int matrix_row = (m0 + m) * 16 + (lane >> 2) + i / 2 * 8;
        if (!tail.attends(work, matrix_row, base + first + 2 * (lane & 3) + (i & 1))) scores[m][n][i] = -CUDART_INF_F;
      }
  }
}
