// Sums of values and of weights: chains over positions, 16 to an instruction.
#pragma once

#include "verify_tail.cuh"

constexpr int STEPS = TILE / 16;       // instructions over the positions of a tile
constexpr int V_TILES = D / 8 / TEAM;  // 8-column tiles of a warp's sums
constexpr int FEW = 4;                 // of them loaded at a time
constexpr int SIDE_TILES = SIDE / 8;
constexpr int V_SIDES = V_TILES / SIDE_TILES;
static_assert(V_SIDES * TEAM == SIDES, "a warp has all columns that share a power");

// Load FEW tiles of columns of 16 positions, of which this lane addresses one.
__device__ __forceinline__ void load_values(Operand (&b)[FEW], const UnitRow& value, int first_tile, int lane) {
#pragma unroll
  for (int n = 0; n < FEW; n += 2) {
    const Matrix4 m = load_transposed(value.piece(first_tile + n + (lane >> 4)));
    b[n] = {m.v[0], m.v[1]};
    b[n + 1] = {m.v[2], m.v[3]};
  }
}

// What a warp adds up of 16 rows: V_TILES columns, from that of its part on, and the weights.
struct Sums {
  float values[V_TILES][4];
  float weights[4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int n = 0; n < V_TILES; ++n)
      for (int i = 0; i < 4; ++i) values[n][i] = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) weights[i] = 0.0f;
  }

  // Multiply by what the tops of rows g and g + 8 have moved by; by one changes nothing.
  __device__ __forceinline__ void scale(const float (&by)[2]) {
    if (__all_sync(~0u, by[0] == 1.0f && by[1] == 1.0f)) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int n = 0; n < V_TILES; ++n) values[n][i] = __fmul_rn(values[n][i], by[i / 2]);
      weights[i] = __fmul_rn(weights[i], by[i / 2]);
    }
  }

  // Add 16 positions, of whose values this lane addresses one row.
  __device__ __forceinline__ void add_step(const UnitRow& value, const Matrix4& p, int part, int lane) {
#pragma unroll
    for (int some = 0; some < V_TILES; some += FEW) {
      Operand b[FEW];
      load_values(b, value, part * V_TILES + some, lane);
#pragma unroll
      for (int n = 0; n < FEW; ++n) multiply_add(values[some + n], p, b[n]);
    }
    multiply_add(weights, p, ONE_COLUMN);
  }

  // Add a tile of committed positions.
  __device__ __forceinline__ void add(const Ring& ring, int unit, const Matrix4 (&p)[STEPS], int part, int lane) {
#pragma unroll
    for (int k = 0; k < STEPS; ++k)
      add_step(unit_row(ring.place(unit + k * 16 / UNIT), k * 16 % UNIT + (lane & 15)), p[k], part, lane);
  }

  // The largest magnitude of what this lane has of a side's columns of row g, or of g + 8 in the second half, of all
  // or of those that are finite. Four chains, for each is as long as its instructions take.
  template <bool FINITE>
  __device__ __forceinline__ float largest(int side, int half) const {
    float most[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int n = 0; n < SIDE_TILES; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float x = fabsf(values[side * SIDE_TILES + n][2 * half + i]);
        float& chain = most[n % 2 * 2 + i];
        if (!FINITE || x < CUDART_INF_F) chain = fmaxf(chain, x);  // which passes over NaN
      }
    return fmaxf(fmaxf(most[0], most[1]), fmaxf(most[2], most[3]));
  }

  // Find the largest finite magnitudes of rows g and g + 8 in the sides of the warp's columns; `both`: there are
  // rows from g + 8 on. All of them together, for lanes wait for each other.
  __device__ __forceinline__ void find_largest(float (&most)[2][V_SIDES], bool both) const {
    bool infinite = false;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int side = 0; side < V_SIDES; ++side) {
        most[half][side] = half == 0 || both ? largest<false>(side, half) : 0.0f;
        infinite |= most[half][side] == CUDART_INF_F;
      }
    if (__builtin_expect(__any_sync(~0u, infinite), false)) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int side = 0; side < V_SIDES; ++side) most[half][side] = largest<true>(side, half);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int side = 0; side < V_SIDES; ++side) most[half][side] = largest_of_quad(most[half][side]);
  }

  // Store this lane's part of a partial result: of row g, or of g + 8 in the second half.
  __device__ __forceinline__ void store(__half* into, const Power (&powers)[V_SIDES], int part, int half,
                                        int t) const {
#pragma unroll
    for (int n = 0; n < V_TILES; n += 4) {
      unsigned two[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        two[i] = kept(values[n + i][2 * half], values[n + i][2 * half + 1], powers[n / SIDE_TILES].down);
      *reinterpret_cast<uint4*>(into + (part * V_TILES + n) * 8 + 8 * t) = {two[0], two[1], two[2], two[3]};
    }
  }

  // Add a tile that own rows reach into, of rows `first` on of the matrix unit; `alike`: all rows have
  // the same finite values. A sum takes a step only if its row reaches it, as if the row were alone.
  __device__ __forceinline__ void add_tail(const Ring& ring, int unit, const Matrix4 (&p)[STEPS], int part, int first,
                                           int lane, const Work& work, const Rows& rows, const Tail& tail, int base,
                                           bool alike) {
    const int steps = (min(work.last - base, TILE - 1) >> 4) + 1;
    // straight on: what a row does not reach weighs nothing
    if (__builtin_expect(!WIDE && alike, true)) {
#pragma unroll
      for (int k = 0; k < STEPS; ++k)
        if (k < steps) add_step(tail.find_alike<false>(ring, work, base, k * 16 + (lane & 15), unit), p[k], part, lane);
      return;
    }
#pragma unroll
    for (int k = 0; k < STEPS; ++k) {
      const int position = base + k * 16;
      if (k >= steps) break;
      const bool same = position + 15 < work.start;
      const int end = same ? Tail::ALL : min(row_of(first + 15), rows.count - 1);
#pragma unroll 1
      for (int row = same ? Tail::ALL : row_of(first); row <= end; ++row) {
        const UnitRow value = tail.find<false>(ring, work, base, k * 16 + (lane & 15), unit, row);
        const bool low = tail.takes(work, first + (lane >> 2), position, row);
        const bool high = tail.takes(work, first + (lane >> 2) + 8, position, row);
#pragma unroll
        for (int some = 0; some < V_TILES; some += FEW) {
          Operand b[FEW];
          load_values(b, value, part * V_TILES + some, lane);
#pragma unroll
          for (int n = 0; n < FEW; ++n) multiply_add_where(values[some + n], p[k], b[n], low, high);
        }
        multiply_add_where(weights, p[k], ONE_COLUMN, low, high);
      }
    }
  }
};
