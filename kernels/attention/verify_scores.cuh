// Scores of a tile of 64 positions: chains of 16 instructions over D, one for (16 rows, 8 positions).
#pragma once

#include "verify_tail.cuh"

// This warp's scores, where all rows have the same keys.
__device__ __forceinline__ void score(float (&scores)[MT][NT][4], const UnitRow (&key)[NT], unsigned q, int lane) {
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
        const Matrix4 a = load_matrices(operand_address(q + m * 16 * Q_BYTES, Q_BYTES, lane) +
                                        (k * KEY_STEPS + step) * 32);
#pragma unroll
        for (int n = 0; n < NT; ++n) multiply_add(scores[m][n], a, b[n]);
      }
    }
  }
}

// Scores of one row's own keys against 16 rows and 8 positions, of which the row's are taken.
__device__ __forceinline__ void score_row(float (&scores)[4], const UnitRow& key, unsigned q, int matrix_row, int row,
                                          int lane) {
  float own[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 2
  for (int k = 0; k < D / (4 * PIECE); ++k) {
    const Matrix4 pieces = load_matrices(key.piece(k * 4 + (lane >> 3)));
#pragma unroll
    for (int step = 0; step < KEY_STEPS; ++step) {
      const Matrix4 a = load_matrices(operand_address(q, Q_BYTES, lane) + (k * KEY_STEPS + step) * 32);
      multiply_add(own, a, key_operand(pieces, step));
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (row_of(matrix_row + (lane >> 2) + i / 2 * 8) == row) scores[i] = own[i];
}

// Scores of a tile that own rows reach into. `q` is that of row m0 * 16 of the matrix unit.
__device__ __forceinline__ void score_tail(float (&scores)[MT][NT][4], const Ring& ring, int unit, unsigned q, int m0,
                                           int n0, int lane, const Work& work, const Rows& rows, const Tail& tail,
                                           int base, bool chain) {
  UnitRow key[NT];
#pragma unroll
  for (int n = 0; n < NT; ++n) key[n] = tail.find(ring, work, base, (n0 + n) * 8 + (lane & 7), unit, Tail::ALL);
  score(scores, key, q, lane);
#pragma unroll
  for (int n = 0; n < NT; ++n) {
    const int first = (n0 + n) * 8;
    if (!chain && base + first + 7 >= work.start && base + first <= work.last) {
#pragma unroll 1
      for (int row = 0; row < rows.count; ++row) {
        const UnitRow own = tail.find(ring, work, base, first + (lane & 7), unit, row);
#pragma unroll
        for (int m = 0; m < MT; ++m) {
          const int matrix_row = (m0 + m) * 16;
          if (row_of(matrix_row) <= row && row <= row_of(matrix_row + 15))
            score_row(scores[m][n], own, q + m * 16 * Q_BYTES, matrix_row, row, lane);
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
