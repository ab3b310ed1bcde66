// Decode eight codes of one row into four operands of two matrix instructions, exactly.
#pragma once

#include "skinny_problem.cuh"

__device__ __forceinline__ unsigned halves_of_e4m3(unsigned short pair) {
  unsigned v;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(v) : "h"(pair));
  return v;
}

__device__ __forceinline__ unsigned scaled(unsigned pair, __half2 scale) {
  __half2 v = __hmul2(*reinterpret_cast<__half2*>(&pair), scale);
  return *reinterpret_cast<unsigned*>(&v);
}

#if defined(E2M1_CONVERTER)
__device__ __forceinline__ void decode_e2m1(unsigned w, __half2 scale, unsigned (&v)[4]) {
  asm("{ .reg .b8 a, b, c, d; mov.b32 {a, b, c, d}, %4;\n"
      "cvt.rn.f16x2.e2m1x2 %0, a; cvt.rn.f16x2.e2m1x2 %1, b;\n"
      "cvt.rn.f16x2.e2m1x2 %2, c; cvt.rn.f16x2.e2m1x2 %3, d; }"
      : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(w));
  for (int i = 0; i < 4; ++i) v[i] = scaled(v[i], scale);
}
constexpr float SCALE_FACTOR = 1.0f;
constexpr float SUM_FACTOR = 1.0f;
#else
// A word's bits were set apart at load (spread.py) so that one mask, after one shift or multiplication,
// leaves a code's sign at bit 15 and its magnitude at bits 11..9 of each half: the value times 2^-14
// as fp16, subnormal included. With the scale times 2^7 that is the converter's product times 2^-7.
__device__ __forceinline__ void decode_e2m1(unsigned w, __half2 scale, unsigned (&v)[4]) {
  constexpr unsigned VALUE = 0x8E008E00u;
  v[0] = scaled(w & VALUE, scale);
  v[1] = scaled((w << 3) & VALUE, scale);
  v[2] = scaled((w & 0x40384038u) * 66u & VALUE, scale);
  v[3] = scaled((w & 0x20072007u) * 516u & VALUE, scale);
}
constexpr float SCALE_FACTOR = 128.0f;
constexpr float SUM_FACTOR = 128.0f;
#endif

__device__ __forceinline__ unsigned word(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

__device__ __forceinline__ void decode(const uint4 (&codes)[CHUNKS], int vector, __half2 scale, unsigned (&v)[4]) {
  if constexpr (FORMAT == NVFP4) {
    decode_e2m1(word(codes[0], vector), scale, v);
  } else if constexpr (FORMAT == BF16) {
    for (int i = 0; i < 4; ++i) v[i] = word(codes[vector], i);
  } else {
    for (int i = 0; i < 2; ++i) {
      const unsigned w = word(codes[vector / 2], 2 * (vector % 2) + i);
      v[2 * i] = halves_of_e4m3(static_cast<unsigned short>(w));
      v[2 * i + 1] = halves_of_e4m3(static_cast<unsigned short>(w >> 16));
    }
  }
}
