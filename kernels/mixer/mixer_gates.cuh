// Multiply a | b of one head and make its decay and write share of every row: GATE_WARPS warps.
//
// 512 sums stand side by side over the inputs, four of a thread, products and sums rounded apart;
// a tree of neighbours adds them. The bits are those of kernels/conv/gates_kernel.py.
#pragma once

#include "mixer_problem.cuh"

constexpr int SUMS = 512;  // side by side
constexpr int STEPS = (INPUTS + SUMS - 1) / SUMS;
constexpr int SHARE = 4;   // sums of a thread

static_assert(SUMS == 32 * GATE_WARPS * SHARE && SHARE == CHANNELS && INPUTS % SHARE == 0,
              "threads share the sums and a row of inputs evenly");

struct Gates {
  float sums[GATE_WARPS][2][ROWS];  // of each warp: a and b
  float decay[ROWS], beta[ROWS];
};

// Load a thread's share of a row, past the first-level cache, where older rows of the same place may be.
__device__ __forceinline__ void load_share(uint2 (&to)[STEPS], const __nv_bfloat16* row, int thread) {
#pragma unroll
  for (int i = 0; i < STEPS; ++i) {
    const int at = i * SUMS + thread * SHARE;
    to[i] = at < INPUTS ? __ldcg(reinterpret_cast<const uint2*>(row + at)) : uint2{0, 0};
  }
}

__device__ __forceinline__ float sum_of_product(const uint2 (&x)[STEPS], const uint2 (&weight)[STEPS]) {
  float total[SHARE] = {};
#pragma unroll
  for (int i = 0; i < STEPS; ++i) {
    float one[SHARE], other[SHARE];
    widen(one, x[i]), widen(other, weight[i]);
#pragma unroll
    for (int j = 0; j < SHARE; ++j) total[j] = __fadd_rn(total[j], __fmul_rn(one[j], other[j]));
  }
  return over_warp(__fadd_rn(__fadd_rn(total[0], total[1]), __fadd_rn(total[2], total[3])));
}

// Leave each warp's sums of all rows.
__device__ __forceinline__ void sum_gates(Gates& gates, const Mixer& p, const uint2 (&a)[STEPS],
                                          const uint2 (&b)[STEPS], int thread) {
  uint2 x[ROWS][STEPS];
#pragma unroll
  for (int row = 0; row < ROWS; ++row) load_share(x[row], p.inputs + row * p.inputs_stride, thread);
#pragma unroll
  for (int row = 0; row < ROWS; ++row) {
    const float of_a = sum_of_product(x[row], a), of_b = sum_of_product(x[row], b);
    if (thread % 32 == 0) gates.sums[thread / 32][0][row] = of_a, gates.sums[thread / 32][1][row] = of_b;
  }
}

// Add the warps' sums and make of them what the walk wants; a warp makes decays, the next shares.
__device__ __forceinline__ void make_gates(Gates& gates, const Mixer& p, int head, int half, bool records,
                                           float rate, float bias, int thread) {
  const int row = thread % 32, of = thread / 32;
  if (row >= ROWS || of > 1) return;
  const float sum = rounded(__fadd_rn(__fadd_rn(gates.sums[0][of][row], gates.sums[1][of][row]),
                                      __fadd_rn(gates.sums[2][of][row], gates.sums[3][of][row])));
  if (of == 1) {
    gates.beta[row] = share_of(sum);
    return;
  }
  const float decay = decay_of(sum, rate, bias);
  gates.decay[row] = decay;
  if (records) p.record.decay[(half + row) * p.value_heads + head] = decay;
}
