// What a row does in a walk whose outputs others finish: each lane goes on with a column of its own.
//
// One row's end and the next one's begin are one piece of code: the next row's keys and queries come while this
// one changes the state, and its sums begin where no lane waits for another.
#pragma once

#include "team_rows.cuh"
#include "walk_row.cuh"

// A row between its begin and what it changes.
struct Asked {
  float k[KEYS], q[KEYS];
  __nv_bfloat16 v;                       // of the lane's own column
  Gates gates;
  float seen[COLUMNS];                   // S'k, a lane's part
  float even[COLUMNS], odd[COLUMNS];     // S'q, its sums over even and odd keys, begun
};

// What it finds and changes, of a lane's own column: decay S'q, and u.
struct Changed {
  float asked, u;
};

// A lane's keys of a row, four at a time from the first or from the last on, in this order: what came last came
// behind all others.
template <bool BACKWARDS>
__device__ __forceinline__ void load_keys_in_turn(float (&k)[KEYS], const float* row, const Place& at) {
#pragma unroll
  for (int turn = 0; turn < KEYS; turn += 4) {
    const int i = BACKWARDS ? KEYS - 4 - turn : turn;
    asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(k[i]), "=f"(k[i + 1]), "=f"(k[i + 2]), "=f"(k[i + 3])
                 : "r"(shared_address(row + i / 4 * STRIDE + at.key)));
  }
}

// Take a row, and ask the state for its keys, and for its queries as far as that their last load is waited for.
__device__ __forceinline__ void begin(Asked& to, const Tile& s, const WalkedRow& row, const Gates& gates,
                                      const Place& at, int first) {
  to.v = row.v[at.own - first];
  to.gates = gates;
  load_keys_in_turn<true>(to.q, row.q, at);
  load_keys_in_turn<false>(to.k, row.k, at);
  products(to.seen, s, to.k);
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) to.even[c] = __fmul_rn(s[0][c], to.q[0]), to.odd[c] = __fmul_rn(s[1][c], to.q[1]);
}

// u = beta (v - decay S'k); decay S'q; and behind that S <- decay S.
__device__ __forceinline__ Changed ask(Asked& from, Tile& s, const Place& at) {
  const float decay = from.gates.decay, seen = own_over_lanes(from.seen, at.sharer);
#pragma unroll
  for (int i = 0; i < KEYS; i += 2)
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
      if (i > 0) {
        from.even[c] = __fmaf_rn(s[i][c], from.q[i], from.even[c]);
        from.odd[c] = __fmaf_rn(s[i + 1][c], from.q[i + 1], from.odd[c]);
      }
      s[i][c] = __fmul_rn(decay, s[i][c]);
      s[i + 1][c] = __fmul_rn(decay, s[i + 1][c]);
    }
  float sum[COLUMNS];
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) sum[c] = __fadd_rn(from.even[c], from.odd[c]);
  const float u = __fmul_rn(__fmaf_rn(-decay, seen, __bfloat162float(from.v)), from.gates.beta);
  return {__fmul_rn(decay, own_over_lanes(sum, at.sharer)), u};
}

// S <- S + k u': with the fade before, the update of `advance`.
__device__ __forceinline__ void write(Tile& s, const float (&k)[KEYS], const Changed& changed, int lane) {
  float u[COLUMNS];
  spread(u, changed.u, lane);
#pragma unroll
  for (int i = 0; i < KEYS; ++i)
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) s[i][c] = __fmaf_rn(k[i], u[c], s[i][c]);
}
