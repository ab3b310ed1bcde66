// What a verify is compiled for, what a launch of it is told, and what all its parts use.
#pragma once

#include <cuda_bf16.h>
#include <math_constants.h>

#include "../common/barriers.cuh"
#include "../common/launch_order.cuh"
#include "../common/tensor_map.cuh"
#include "partials.cuh"

// Compile-time choices, by `macros` of verify_tile.py: SHARE (query heads of a KV head), M_TILES (of
// 16 rows of the matrix unit in a block), STREAMS (of chunks at a time in a block), TEAM (warps that
// share the columns of a sum), UNITS (of a stream's ring), UNDER_WAY (of them at a time), BEHIND (them, that the
// L2 is asked for ahead), WIDE (four warps multiply together), MIN_BLOCKS, OVERLAP, none of which changes a bit; and KV_BYTES (of a stored number: 2 for BF16 in verify.cu, 1 for
// e4m3 in verify_codes.cu).

constexpr int D = 256;                // of a head
constexpr int UNIT = WIDE ? 64 : 32;  // slots of one fill of the ring
constexpr int FILLS = 64 / UNIT;      // units of a tile's keys, or of its values
constexpr int MAX_ROWS = 32;          // rows of a verify
constexpr int BOX_ROW = 128;          // bytes side by side in a fill, which the engine swizzles in pieces of 16
constexpr int BOX = BOX_ROW / KV_BYTES;  // columns of them
constexpr int PIECE = 16 / KV_BYTES;     // columns of a piece
constexpr int BOX_BYTES = UNIT * BOX_ROW;
constexpr int UNIT_BYTES = D / BOX * BOX_BYTES;
constexpr int RING_BYTES = UNITS * UNIT_BYTES;
constexpr int BLOCK_ROWS = 16 * M_TILES;
constexpr int Q_BOX_BYTES = BLOCK_ROWS * BOX_ROW;  // 64 columns of the queries, which lie as keys do
constexpr int CREW = KV_BYTES == 2 ? M_TILES * TEAM : TEAM;  // warps that compute a stream
constexpr int WARPS = STREAMS * CREW;                        // warps that compute; others feed the rings
constexpr int WORKERS = WARPS * 32;
constexpr bool IN_MEASURE = UNDER_WAY < UNITS;  // the context is long

// Dynamic shared memory: rings | queries | barriers | zeros | work | paths | depths | what is more.
// `shared_bytes` of verify_tile.py counts the same.
constexpr int Q_AT = STREAMS * RING_BYTES;
constexpr int BARRIERS_AT = Q_AT + D / 64 * Q_BOX_BYTES;
constexpr int ZERO_AT = BARRIERS_AT + 512;
constexpr int WORK_AT = ZERO_AT + 128;
constexpr int PATHS_AT = WORK_AT + 32;
constexpr int DEPTHS_AT = PATHS_AT + MAX_ROWS * MAX_ROWS;
constexpr int MORE_AT = DEPTHS_AT + MAX_ROWS * 4;

static_assert(KV_BYTES == 1 || KV_BYTES == 2);
static_assert(!WIDE || (KV_BYTES == 2 && M_TILES % 4 == 0 && TEAM == 1));
static_assert(UNITS >= FILLS + 1 && STREAMS * UNITS <= 32 && MORE_AT % 16 == 0);
static_assert(UNDER_WAY > 0 && BEHIND <= UNITS);

// The store's keys and values, in fills of UNIT slots, and in fills of as many as own rows may have.
struct Maps {
  const TensorMap &keys, &own_keys, &values, &own_values;
};

// `VerifyArguments` of verify_launch.py has the same fields in the same order. T = rows, H = heads.
struct Problem {
  const __nv_bfloat16* q;     // [T, H, D], row stride q_stride
  const int* start;           // committed positions
  const int* depths;          // [T]
  const int* paths;           // [T, 32]
  const float* key_scales;    // [G]: what codes stand for, by KV head; null for BF16
  const float* value_scales;  // [G]
  __half* sums;               // [chunks, T * H, D]: of values, weighted, as partials.cuh says
  float* powers;              // [chunks, T * H, SIDES]: what they are multiplied by
  float* tops;                // [chunks, T * H]: largest score, times `factor`
  float* weights;             // [chunks, T * H]: sum of weights
  const short* shares;        // what a block takes after each chunk, by shares.py
  int q_stride, rows, heads, groups, group_rows, row_groups, bins, chunks;
  int own_slots;  // of a fill of own rows: eights of them
  float factor;  // D^-0.5 log2 e
};

// The same number, of which the compiler does not know it: what follows from it is worked out where it is
// used, and not kept in registers all along.
__device__ __forceinline__ int apart(int number) {
  asm volatile("" : "+r"(number));
  return number;
}

// Meet the other threads that compute.
__device__ __forceinline__ void meet() { asm volatile("bar.sync 1, %0;" ::"n"(WORKERS) : "memory"); }

// Meet, and say whether something holds for all.
__device__ __forceinline__ bool meet_all(bool mine) {
  int all;
  asm volatile(
      "{\n .reg .pred mine, all;\n setp.ne.s32 mine, %1, 0;\n bar.red.and.pred all, 1, %2, mine;\n"
      " selp.s32 %0, 1, 0, all;\n}"
      : "=r"(all)
      : "r"(static_cast<int>(mine)), "n"(WORKERS)
      : "memory");
  return all;
}

__device__ __forceinline__ unsigned two_of(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const unsigned&>(both);
}
