// Sums of values of codes and of weights: chains over positions, 16 to an instruction.
#pragma once

#include "codes_scores.cuh"

constexpr int P_BYTES = 2 * TILE + 16;  // of a row of weights, padded: eight rows lie in different banks
constexpr int V_TILES = D / 8 / WARPS;  // 8-column tiles of a warp's sums
constexpr int SIDE_WARPS = WARPS / SIDES;
static_assert(V_TILES == 4 && SIDE_WARPS == 4, "an octet of a lane, four numbers of a side's warps");

// Address of a lane's row of a 16 x 16 operand a of the weights: rows by lane % 16, columns 8 on in the
// upper half.
__device__ __forceinline__ unsigned operand_address(unsigned first, int lane) {
  return first + (lane & 15) * P_BYTES + (lane >> 4) * 16;
}

// Load a warp's columns of 16 positions, of which this lane addresses one: V_TILES operands. A
// transposed load brings columns in twos, so tile 2j takes the even ones of 16 and 2j + 1 the odd ones.
__device__ __forceinline__ void load_values(Operand (&b)[V_TILES], const UnitRow& value, int warp, int lane) {
  constexpr int TILES = 4;  // of a load
#pragma unroll
  for (int i = 0; i < V_TILES / TILES; ++i) {
    const Matrix4 m = load_transposed(value.piece((warp * V_TILES / TILES + i) * 2 + (lane >> 4)));
#pragma unroll
    for (int n = 0; n < TILES; ++n) {
      const unsigned columns = n % 2 == 0 ? 0x20 : 0x31;
      b[i * TILES + n] = {widen(__byte_perm(m.v[n / 2 * 2], 0, columns)),
                          widen(__byte_perm(m.v[n / 2 * 2 + 1], 0, columns))};
    }
  }
}

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
      const UnitRow value = unit_row(ring.place(unit + k * 16 / UNIT), k * 16 % UNIT + (lane & 15));
      Operand b[V_TILES];
      load_values(b, value, warp, lane);
#pragma unroll
      for (int m = 0; m < M_TILES; ++m) {
        const Matrix4 a = load_matrices(operand_address(p + m * 16 * P_BYTES, lane) + k * 32);
#pragma unroll
        for (int n = 0; n < V_TILES; ++n) multiply_add(values[m][n], a, b[n]);
        if (m == warp) multiply_add(weights, a, ONE_COLUMN);
      }
    }
  }

  // Multiply sums of row g, or of g + 8 in the second half, by the scale of the values, and return the largest
  // finite magnitude among the warp's columns.
  __device__ __forceinline__ float finish(int m, int half, float scale) {
    float most = 0.0f;
#pragma unroll
    for (int n = 0; n < V_TILES; ++n)
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        values[m][n][i] = __fmul_rn(values[m][n][i], scale);
        const float x = fabsf(values[m][n][i]);
        if (x < CUDART_INF_F) most = fmaxf(most, x);
      }
    return largest_of_quad(most);
  }

  // Store this lane's part of a partial result: four neighbouring columns of each two tiles.
  __device__ __forceinline__ void store(__half* into, const Power& power, int m, int half, int warp, int t) const {
    unsigned two[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int n = i / 2 * 2, column = 2 * half + i % 2;
      two[i] = kept(values[m][n][column], values[m][n + 1][column], power.down);
    }
    *reinterpret_cast<uint4*>(into + warp * V_TILES * 8 + 8 * t) = {two[0], two[1], two[2], two[3]};
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
        const UnitRow value = tail.find<false>(ring, work, base, k * 16 + (lane & 15), unit, row);
        Operand b[V_TILES];
        load_values(b, value, warp, lane);
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
          if (!same && (row < row_of(m * 16) || row > row_of(m * 16 + 15))) continue;
          const Matrix4 a = load_matrices(operand_address(p + m * 16 * P_BYTES, lane) + k * 32);
          const bool low = tail.takes(work, m * 16 + (lane >> 2), first, row);
          const bool high = tail.takes(work, m * 16 + (lane >> 2) + 8, first, row);
#pragma unroll
          for (int n = 0; n < V_TILES; ++n)
            multiply_add_where(values[m][n], a, b[n], low, high);
          if (m == warp) multiply_add_where(weights, a, ONE_COLUMN, low, high);
        }
      }
    }
  }
};
