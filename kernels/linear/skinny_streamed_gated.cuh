// Make silu(gate) * up of what a warp has summed, in the registers where it lies.
#pragma once

#include "skinny_activations.cuh"
#include "skinny_sums.cuh"

// Exchange rows and columns of a matrix of 8 x 8 halves: lane 4 i + j holds row i at columns 2 j and 2 j + 1.
__device__ __forceinline__ unsigned transposed(unsigned two) {
  unsigned v;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(v) : "r"(two));
  return v;
}

__device__ __forceinline__ void write_rows(const Problem& p, int row, int output, unsigned two) {
  __nv_bfloat16* const to = static_cast<__nv_bfloat16*>(p.out) + static_cast<size_t>(row) * p.out_stride + output;
  if ((reinterpret_cast<size_t>(p.out) & 2) == 0 && p.out_stride % 2 == 0) {
    *reinterpret_cast<unsigned*>(to) = two;
  } else {
    to[0] = __ushort_as_bfloat16(static_cast<unsigned short>(two));
    to[1] = __ushort_as_bfloat16(static_cast<unsigned short>(two >> 16));
  }
}

// The same as operands of the product behind; two inputs of a row lie side by side in every order.
__device__ __forceinline__ void write_next(const Problem& p, int row, int output, unsigned two) {
  const __half2 halves = __floats2half2_rn(__uint_as_float(two << 16), __uint_as_float(two & 0xFFFF0000u));
  *reinterpret_cast<__half2*>(operand_place(p.next, row, output)) = halves;
}

// Finish 8 outputs of BLOCKS times 8 rows. A thread's sums are, of each 8 rows, output g of gate at the rows 2 t and
// 2 t + 1, and that of up at the same.
template <int BLOCKS>
__device__ __forceinline__ void write_gated(const Problem& p, const float* scales, int tile, int first_block, int lane,
                                            const float (&sums)[4 * BLOCKS]) {
  const int g = lane >> 2, t = lane & 3;
  const float of_gate = scales[g], of_up = scales[8 + g];
  float gate[2 * BLOCKS], silu[2 * BLOCKS];
#pragma unroll
  for (int i = 0; i < 2 * BLOCKS; ++i) {
    const int row = (first_block + i / 2) * 8 + 2 * t + i % 2;  // nobody's rows are of no weight for what is slow
    gate[i] = row < p.rows ? rounded(__fmul_rn(sums[i / 2 * 4 + i % 2], of_gate)) : 1.0f;
  }
  exact_silus(silu, gate);
#pragma unroll
  for (int r = 0; r < BLOCKS; ++r) {
    unsigned two = 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float up = rounded(__fmul_rn(sums[4 * r + 2 + i], of_up));
      const __nv_bfloat16 result = __float2bfloat16_rn(__fmul_rn(rounded(silu[2 * r + i]), up));
      two |= static_cast<unsigned>(__bfloat16_as_ushort(result)) << 16 * i;
    }
    two = transposed(two);  // from here on row g, outputs 2 t and 2 t + 1
    const int row = (first_block + r) * 8 + g, output = tile * 8 + 2 * t;
    if (row < p.rows) write_rows(p, row, output, two);
    if (p.next.image == nullptr) continue;
    const unsigned most = largest_of_row(two & 0x7FFF7FFFu);
    if (row >= p.rows) continue;
    write_next(p, row, output, two);
    if (t == 0) tell_largest(p.next, row, output, most);
  }
}
