// Turn stored keys and values into operands of the matrix unit: BF16 as it is, e4m3 widened to BF16.
//
// A code is exact in BF16. Its scale, a power of two, meets fp32 numbers: that of the keys the factor
// of the scores, that of the values the finished sums of a chunk. Neither rounds, so a store of codes
// gives the bits of a BF16 store of the values that the codes stand for, with one reservation: of 16
// columns a lane is handed four neighbours, so within an instruction of the scores columns stand in
// another order (fetch_queries puts the queries' in the same).
#pragma once

#include "verify_matrix.cuh"

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

constexpr int KEY_STEPS = 4 * PIECE / 16;  // instructions over the columns of four pieces

// Four pieces of a key's row to the operand of one of their instructions.
__device__ __forceinline__ Operand key_operand(const Matrix4& pieces, int step) {
  if constexpr (KV_BYTES == 2)
    return {pieces.v[2 * step], pieces.v[2 * step + 1]};
  else
    return {widen(pieces.v[step]), widen(pieces.v[step] >> 16)};
}

constexpr int FEW = V_TILES < 8 ? V_TILES : 8;  // tiles of values taken at a time

// Load FEW tiles of columns of 16 positions, of which this lane addresses one. Of codes a transposed
// load brings columns in twos, so tile 2j takes the even ones of 16 and 2j + 1 the odd ones.
__device__ __forceinline__ void load_values(Operand (&b)[FEW], const UnitRow& value, int first_tile, int lane) {
  constexpr int TILES = 2 * PIECE / 8;  // of a load
#pragma unroll
  for (int i = 0; i < FEW / TILES; ++i) {
    const Matrix4 m = load_transposed(value.piece((first_tile / TILES + i) * 2 + (lane >> 4)));
#pragma unroll
    for (int n = 0; n < TILES; ++n) {
      if constexpr (KV_BYTES == 2) {
        b[i * TILES + n] = {m.v[2 * n], m.v[2 * n + 1]};
      } else {
        const unsigned columns = n % 2 == 0 ? 0x20 : 0x31;
        b[i * TILES + n] = {widen(__byte_perm(m.v[n / 2 * 2], 0, columns)),
                            widen(__byte_perm(m.v[n / 2 * 2 + 1], 0, columns))};
      }
    }
  }
}

// Write a lane's sums of one row: two neighbouring columns of each tile, or four of each two tiles.
__device__ __forceinline__ void store_sums(float* into, const float (&values)[V_TILES][4], int half, int t,
                                           float scale) {
  if constexpr (KV_BYTES == 2) {
#pragma unroll
    for (int n = 0; n < V_TILES; ++n)
      *reinterpret_cast<float2*>(into + n * 8 + 2 * t) = make_float2(values[n][2 * half], values[n][2 * half + 1]);
  } else {
#pragma unroll
    for (int n = 0; n < V_TILES; n += 2)
      *reinterpret_cast<float4*>(into + n * 8 + 4 * t) =
          make_float4(__fmul_rn(values[n][2 * half], scale), __fmul_rn(values[n + 1][2 * half], scale),
                      __fmul_rn(values[n][2 * half + 1], scale), __fmul_rn(values[n + 1][2 * half + 1], scale));
  }
}

// Whether all that a word of keys or values holds is finite.
__device__ __forceinline__ bool is_finite(unsigned word) {
  if constexpr (KV_BYTES == 2) return (word & 0x7F80) != 0x7F80 && (word & 0x7F800000) != 0x7F800000;
  return (((word & 0x7F7F7F7F) + 0x01010101) & 0x80808080) == 0;  // of codes only 0x7F is no number
}
