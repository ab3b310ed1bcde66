// Multiply a | b of two heads for four rows and make their decays and write shares: a block.
//
// 512 sums stand side by side over the inputs, two of a thread, products and sums rounded apart; a tree
// of neighbours adds them. So the bits are those of a row alone, and of gates_kernel.py.
#pragma once

#include "channels.cuh"

// Compile-time sizes, by `macros` of rows_launch.py: INPUTS of the product of a | b.

constexpr int HEAD_DIM = 32 * CHANNELS;
constexpr int WARPS = 8;
constexpr int TILE_ROWS = 4, TILE_HEADS = 2;  // that a block multiplies; rows_launch.py knows them too
constexpr int WEIGHTS = 2 * TILE_HEADS;       // rows of a and of b
constexpr int SHARE = 2;                      // sums of a thread, and inputs in one load
constexpr int SUMS = 32 * WARPS * SHARE;
constexpr int STEPS = (INPUTS + SUMS - 1) / SUMS;
constexpr int RESULTS = TILE_ROWS * WEIGHTS;
constexpr int MAX_ROWS = 32;                  // of a half of the record
constexpr int LINE = 64;                      // values of a line of the cache
constexpr unsigned ALL = 0xffffffffu;

static_assert(SUMS == 512, "the order of a sum is that of 512 side by side");

// `ConvArguments` of rows_launch.py has the same fields in the same order.
struct Conv : Layer {
  float* k;                           // [2, 32, G, D]
  float* decay;                       // [2, 32, H]
  const int* parity;
  const int* num_pending;
  const int* pending_rows;            // [32]
  const int* parents;                 // [32]
  float* q;                           // [T, G, D]
  __nv_bfloat16* v;                   // [T, H, D]
  float* beta;                        // [T, H]
  long long x_stride, inputs_stride, weight_stride;
  int rows, key_heads, value_heads;
};

__device__ __forceinline__ size_t width_of(const Conv& p) { return (2 * p.key_heads + p.value_heads) * HEAD_DIM; }

__device__ __forceinline__ void widen(float (&to)[SHARE], unsigned halves) {
  to[0] = __uint_as_float(halves << 16), to[1] = __uint_as_float(halves & 0xffff0000u);
}

__device__ __forceinline__ void load_shares(unsigned (&to)[STEPS], const __nv_bfloat16* row, int thread) {
#pragma unroll
  for (int i = 0; i < STEPS; ++i) {
    const int at = i * SUMS + thread * SHARE;
    to[i] = at < INPUTS ? *reinterpret_cast<const unsigned*>(row + at) : 0;
  }
}

// Have weights brought to the second-level cache while the predecessor runs.
__device__ __forceinline__ void ask_for(const __nv_bfloat16* const (&weights)[WEIGHTS], int thread) {
#pragma unroll
  for (int w = 0; w < WEIGHTS; ++w)
    for (int at = thread * LINE; at < INPUTS; at += 32 * WARPS * LINE)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(weights[w] + at));
}

// Add each of 16 values over the lanes of a warp by a tree of neighbours. Lanes pass on what the other
// goes on with: value i is whole in the two lanes whose number begins, from its lowest bit, as i from
// its highest.
__device__ __forceinline__ float one_over_warp(float (&x)[RESULTS], int lane) {
#pragma unroll
  for (int lanes = 1, left = RESULTS / 2; left > 0; lanes *= 2, left /= 2)
#pragma unroll
    for (int i = 0; i < left; ++i) {
      const float kept = lane & lanes ? x[i + left] : x[i], given = lane & lanes ? x[i] : x[i + left];
      x[i] = __fadd_rn(kept, __shfl_xor_sync(ALL, given, lanes));
    }
  return __fadd_rn(x[0], __shfl_xor_sync(ALL, x[0], RESULTS));
}

// The value that a lane has of them.
__device__ __forceinline__ int result_of(int lane) {
  return (lane & 1) * 8 + (lane >> 1 & 1) * 4 + (lane >> 2 & 1) * 2 + (lane >> 3 & 1);
}

static_assert(RESULTS == 16, "result_of counts four exchanges");

__device__ __forceinline__ void multiply_gates(const Conv& p, int tile, int thread) {
  __shared__ float sums[WARPS][RESULTS];
  const int pairs = (p.value_heads + TILE_HEADS - 1) / TILE_HEADS;
  const int first_head = tile % pairs * TILE_HEADS, first_row = tile / pairs * TILE_ROWS;
  const int lane = thread % 32, half = *p.parity * MAX_ROWS;
  const __nv_bfloat16* weights[WEIGHTS];
#pragma unroll
  for (int w = 0; w < WEIGHTS; ++w) {
    const int head = min(first_head + w / 2, p.value_heads - 1);
    weights[w] = p.gates_weight + (w % 2 * p.value_heads + head) * p.weight_stride;
  }
  ask_for(weights, thread);
  asm volatile("griddepcontrol.wait;" ::: "memory");

  unsigned x[TILE_ROWS][STEPS], by[WEIGHTS][STEPS];
#pragma unroll
  for (int w = 0; w < WEIGHTS; ++w) load_shares(by[w], weights[w], thread);
#pragma unroll
  for (int r = 0; r < TILE_ROWS; ++r)
    load_shares(x[r], p.inputs + min(first_row + r, p.rows - 1) * p.inputs_stride, thread);
  float total[RESULTS][SHARE] = {};
#pragma unroll
  for (int i = 0; i < STEPS; ++i) {
    float weight[WEIGHTS][SHARE];
#pragma unroll
    for (int w = 0; w < WEIGHTS; ++w) widen(weight[w], by[w][i]);
#pragma unroll
    for (int r = 0; r < TILE_ROWS; ++r) {
      float one[SHARE];
      widen(one, x[r][i]);
#pragma unroll
      for (int w = 0; w < WEIGHTS; ++w)
#pragma unroll
        for (int j = 0; j < SHARE; ++j)
          total[r * WEIGHTS + w][j] = __fadd_rn(total[r * WEIGHTS + w][j], __fmul_rn(one[j], weight[w][j]));
    }
  }
  float results[RESULTS];
#pragma unroll
  for (int i = 0; i < RESULTS; ++i) results[i] = __fadd_rn(total[i][0], total[i][1]);
  const float sum = one_over_warp(results, lane);
  if (lane < RESULTS) sums[thread / 32][result_of(lane)] = sum;
  __syncthreads();

  const int row = first_row + thread / WEIGHTS, head = first_head + thread % WEIGHTS / 2;
  if (thread >= RESULTS || row >= p.rows || head >= p.value_heads) return;
  const auto pair = [&](int warp) { return __fadd_rn(sums[warp][thread], sums[warp + 1][thread]); };
  const float all = rounded(__fadd_rn(__fadd_rn(pair(0), pair(2)), __fadd_rn(pair(4), pair(6))));
  if (thread % 2)
    p.beta[row * p.value_heads + head] = share_of(all);
  else
    p.decay[(half + row) * p.value_heads + head] = decay_of(all, p.decay_rate[head], p.dt_bias[head]);
}
