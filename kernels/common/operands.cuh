// Write results as operands of the product behind (operands.py): in the place that its instructions take them
// from, as fp16, and of 8 inputs of a row the largest magnitude.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// `NextOperands` of operands_arguments.py has the same fields in the same order.
struct NextOperands {
  __half* image;            // [blocks, K/128, 4, 32, 8], or null where none are written
  unsigned short* largest;  // [T, 2, K/16]: of even and of odd eights
  int inputs;               // K
  int shift;                // of 2, the inputs of a lane that lie beside each other
  int lane, pair;           // halves from a lane, and from a pair of 8 inputs, to the next
};

// The place of an input of a row; the pairs of 8 inputs from a multiple of 8 on are to.pair halves apart.
__device__ __forceinline__ __half* operand_place(const NextOperands& to, int row, int input) {
  const int within = input % 128, order = 1 << to.shift;
  const int t = within >> to.shift & 3;
  const int vector = within >> (to.shift + 2) << (to.shift - 3) | (within & (order - 1)) >> 3;
  const int at = (row / 8 * (to.inputs / 128) + input / 128) * 4 + vector;
  return to.image + static_cast<size_t>(at) * 256 + (row % 8 * 4 + t) * to.lane + input % 8 / 2 * to.pair + input % 2;
}

__device__ __forceinline__ __half operand_of(__nv_bfloat16 v) { return __float2half_rn(__bfloat162float(v)); }

__device__ __forceinline__ unsigned magnitude(__nv_bfloat16 v) { return __bfloat16_as_ushort(v) & 0x7FFFu; }

__device__ __forceinline__ void tell_largest(const NextOperands& to, int row, int input, unsigned most) {
  const int half = row * 2 + (input / 8 & 1);
  to.largest[static_cast<size_t>(half) * (to.inputs / 16) + input / 16] = static_cast<unsigned short>(most);
}
