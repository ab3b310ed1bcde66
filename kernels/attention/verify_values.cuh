// Sums of values and of weights: chains over positions, 16 to an instruction.
#pragma once

#include "verify_tail.cuh"

constexpr unsigned ONES = 0x3F803F80;  // two of bf16: the weights' own sum is one more column
constexpr Operand ONE_COLUMN = {ONES, ONES};

// What a warp adds up: V_TILES columns of all rows, and the weights of the 16 rows of its number.
struct Sums {
  float values[M_TILES][V_TILES][4];
  float weights[4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int m = 0; m < M_TILES; ++m)
      for (int n = 0; n < V_TILES; ++n)
        for (int i = 0; i < 4; ++i) values[m][n][i] = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) weights[i] = 0.0f;
  }

  // Multiply by what the tops of the rows have moved by.
  __device__ __forceinline__ void scale(const float* scales, int warp, int lane) {
#pragma unroll
    for (int m = 0; m < M_TILES; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float by = scales[m * 16 + half * 8 + (lane >> 2)];
#pragma unroll
        for (int n = 0; n < V_TILES; ++n) {
          values[m][n][2 * half] = __fmul_rn(values[m][n][2 * half], by);
          values[m][n][2 * half + 1] = __fmul_rn(values[m][n][2 * half + 1], by);
        }
        if (m == warp) {
          weights[2 * half] = __fmul_rn(weights[2 * half], by);
          weights[2 * half + 1] = __fmul_rn(weights[2 * half + 1], by);
        }
      }
  }

  // Add a tile of committed positions.
  __device__ __forceinline__ void add(const Ring& ring, int unit, unsigned p, int warp, int lane) {
#pragma unroll
    for (int k = 0; k < TILE / 16; ++k) {
      const UnitRow value = unit_row(ring.place(unit + k / 2), (k & 1) * 16 + (lane & 15));
      Operand b[V_TILES];
      load_values(b, value, warp, lane);
#pragma unroll
      for (int m = 0; m < M_TILES; ++m) {
        const Matrix4 a = load_matrices(operand_address(p + m * 16 * P_BYTES, P_BYTES, lane) + k * 32);
#pragma unroll
        for (int n = 0; n < V_TILES; ++n) multiply_add(values[m][n], a, b[n]);
        if (m == warp) multiply_add(weights, a, ONE_COLUMN);
      }
    }
  }

  // Add a tile that own rows reach into; `alike`: all rows have the same finite values. A sum takes
  // a step only if its row reaches it, as if the row were alone.
  __device__ __forceinline__ void add_tail(const Ring& ring, int unit, unsigned p, int warp, int lane, const Work& work,
                                           const Rows& rows, const Tail& tail, int base, bool alike) {
#pragma unroll 1
    for (int k = 0; k < TILE / 16 && base + k * 16 <= work.last; ++k) {
      const int first = base + k * 16;
      const bool same = alike || first + 15 < work.start;
#pragma unroll 1
      for (int row = same ? Tail::ALL : 0; row < (same ? 0 : rows.count); ++row) {
        const UnitRow value = tail.find(ring, work, base, k * 16 + (lane & 15), unit, row);
        Operand b[V_TILES];
        load_values(b, value, warp, lane);
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
          if (!same && (row < row_of(m * 16) || row > row_of(m * 16 + 15))) continue;
          const Matrix4 a = load_matrices(operand_address(p + m * 16 * P_BYTES, P_BYTES, lane) + k * 32);
          const bool low = takes(work, tail, m * 16 + (lane >> 2), first, row);
          const bool high = takes(work, tail, m * 16 + (lane >> 2) + 8, first, row);
#pragma unroll
          for (int n = 0; n < V_TILES; ++n)
            add_where(values[m][n], a, b[n], low, high);
          if (m == warp) add_where(weights, a, ONE_COLUMN, low, high);
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ bool takes(const Work& work, const Tail& tail, int matrix_row, int first, int row) {
    return tail.attends(work, matrix_row, first) && (row == Tail::ALL || row == row_of(matrix_row));
  }

  static __device__ __forceinline__ void add_where(float (&sum)[4], const Matrix4& a, const Operand& b, bool low,
                                                   bool high) {
    float next[4] = {sum[0], sum[1], sum[2], sum[3]};
    multiply_add(next, a, b);
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] = (i < 2 ? low : high) ? next[i] : sum[i];
  }
};
