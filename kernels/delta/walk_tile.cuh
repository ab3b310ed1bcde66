// Hold a tile of one head's state in a warp's registers, and change it by one token.
#pragma once

#include <cuda_bf16.h>

// Compile-time sizes, by `macros` of tile.py: KEY_DIM and VALUE_DIM, a head's D and E; TILE_COLUMNS
// columns that a warp holds; WARPS of a block of the walk, which divide the tiles of a head; GATED,
// whether it ends in a gate; HELD_BYTES that such a block holds beside kept tiles.

constexpr int COLUMN_LANES = 4;                 // lanes side by side along a row of the state
constexpr int COLUMNS = TILE_COLUMNS / COLUMN_LANES;  // values of a lane
constexpr int KEY_LANES = 32 / COLUMN_LANES;    // lanes that share the keys of a column
constexpr int TILES = VALUE_DIM / TILE_COLUMNS;  // of a head
constexpr int STRIDE = 4 * KEY_LANES;           // keys from a lane's four to its next four
constexpr int GROUPS = KEY_DIM / STRIDE;        // fours of keys of a lane
constexpr int KEYS = 4 * GROUPS;                // of a lane
constexpr int MAX_ROWS = 32;                    // of a half of the record
constexpr int RESIDENT = COLUMNS > 2 ? 12 : 16;  // warps of a walk that a multiprocessor holds: 168 or 128 registers
constexpr unsigned ALL = 0xffffffffu;

static_assert(KEY_DIM % STRIDE == 0 && VALUE_DIM % TILE_COLUMNS == 0, "a head fills no whole tiles");
static_assert(TILES % WARPS == 0, "a head fills no whole blocks");

using Tile = float[KEYS][COLUMNS];

// A lane's columns of one row, in one load.
struct alignas(4 * COLUMNS) Values {
  float at[COLUMNS];
};

// The same in bf16.
struct alignas(2 * COLUMNS) Halves {
  __nv_bfloat16 at[COLUMNS];
};

// Rows of the last round wait in half 1 - parity: k [2, 32, G, D], u [2, 32, H, E], decay [2, 32, H].
struct Record {
  float* k;
  float* u;
  float* decay;
  const int* parity;
  const int* num_pending;
  const int* pending_rows;  // [32]
};

// Where a lane stands: its head, the first value of the tile and of its columns, the one of them that is its
// own, its first key. Eight lanes share columns; a column is the own one of several.
struct Place {
  int head, key_head, first_column, column, own, sharer, key;
};

__device__ __forceinline__ Place place_of(int tile, int lane, int heads_per_key) {
  const int head = tile / TILES, first = tile % TILES * TILE_COLUMNS;
  const int column = first + lane % COLUMN_LANES * COLUMNS, sharer = lane / COLUMN_LANES;
  return {head, head / heads_per_key, first, column, column + sharer % COLUMNS, sharer, sharer * 4};
}

__device__ __forceinline__ void load_values(float (&to)[COLUMNS], const void* from) {
  const Values v = *static_cast<const Values*>(from);
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) to[c] = v.at[c];
}

__device__ __forceinline__ void store_values(void* to, const float (&from)[COLUMNS]) {
  Values v;
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) v.at[c] = from[c];
  *static_cast<Values*>(to) = v;
}

__device__ __forceinline__ float* tile_address(float* state, const Place& at) {
  return state + (static_cast<size_t>(at.head) * KEY_DIM + at.key) * VALUE_DIM + at.column;
}

__device__ __forceinline__ void load_tile(Tile& s, float* state, const Place& at) {
  const float* const from = tile_address(state, at);
#pragma unroll
  for (int i = 0; i < KEYS; ++i) load_values(s[i], from + (i / 4 * STRIDE + i % 4) * VALUE_DIM);
}

__device__ __forceinline__ void store_tile(const Tile& s, float* state, const Place& at) {
  float* const to = tile_address(state, at);
#pragma unroll
  for (int i = 0; i < KEYS; ++i) store_values(to + (i / 4 * STRIDE + i % 4) * VALUE_DIM, s[i]);
}

// A lane's keys of a row.
__device__ __forceinline__ void load_keys(float (&k)[KEYS], const float* row, const Place& at) {
#pragma unroll
  for (int i = 0; i < GROUPS; ++i) {
    const float4 v = *reinterpret_cast<const float4*>(row + i * STRIDE + at.key);
    k[4 * i] = v.x, k[4 * i + 1] = v.y, k[4 * i + 2] = v.z, k[4 * i + 3] = v.w;
  }
}

// What a pending row adds: a lane's keys, and u of its columns.
struct Factors {
  float k[KEYS], u[COLUMNS];
};

// S <- decay S + k u': the one form of the update, in a walk and in a fold.
__device__ __forceinline__ void advance(Tile& s, float decay, const float (&k)[KEYS], const float (&u)[COLUMNS]) {
#pragma unroll
  for (int i = 0; i < KEYS; ++i)
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) s[i][c] = __fmaf_rn(k[i], u[c], __fmul_rn(decay, s[i][c]));
}
