// Multiply a | b of one head for some rows and make their decays and write shares: a block.
//
// What it reads is older than the predecessor, and what it writes no predecessor touches: so it waits for
// nothing, and its block is gone before the convolution's blocks want its place.
//
// 512 sums stand side by side over the inputs, four of a thread; a tree of neighbours adds them. A product
// of bf16 numbers is exact in fp32, so a fused step has the bits of one whose product is rounded apart, and
// the bits are those of gates_kernel.py (README: of products next to the ends of fp32's range).
#pragma once

#include "../common/async_copies.cuh"
#include "../common/barriers.cuh"
#include "channels.cuh"

// INPUTS of the product of a | b are known at compile time.

constexpr int HEAD_DIM = 32 * CHANNELS;
constexpr int WARPS = 4;                      // of a block of either kind; rows_launch.py knows it too
constexpr int TILE_ROWS = 4;                  // that a block multiplies; rows_launch.py knows it too
constexpr int SHARE = 4;                      // sums of a thread
constexpr int SUMS = 32 * WARPS * SHARE;
constexpr int STEPS = (INPUTS + SUMS - 1) / SUMS;
constexpr int RESULTS = 2 * TILE_ROWS;        // a and b of each row
constexpr int SOURCES = 2 + TILE_ROWS;        // weights of a, of b, rows
constexpr int STAGES = 3;                     // steps under way; rows_launch.py knows it too
constexpr int MAX_ROWS = 32;                  // of a half of the record
constexpr unsigned ALL = 0xffffffffu;

static_assert(SUMS == 512 && SHARE == CHANNELS, "the order of a sum is that of 512 side by side");

// `ConvArguments` of rows_launch.py has the same fields in the same order.
struct Conv {
  const __nv_bfloat16* x;             // [T, C]
  const __nv_bfloat16* inputs;        // [T, INPUTS], of a | b
  const __nv_bfloat16* gates_weight;  // [2 H, INPUTS], a over b
  const __nv_bfloat16* taps;          // [C, 4]
  const float* decay_rate;            // [H]
  const float* dt_bias;               // [H]
  __nv_bfloat16* tails;               // [2, 3, C]
  __nv_bfloat16* raw;                 // [2, 32, C]
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
  int each;                           // rows that a warp convolves, 4 at most
};

// Four channels or inputs of each lane, side by side.
struct alignas(16) Piece {
  uint2 at[32];
};

// What a warp has under way of a step.
struct Step {
  Piece of[SOURCES];
};

// Add each of 8 values over the lanes of a warp by a tree of neighbours. Lanes pass on what the other goes on
// with: value i is whole in the lanes whose number begins, from its lowest bit, as i from its highest.
__device__ __forceinline__ float one_over_warp(float (&x)[RESULTS], int lane) {
#pragma unroll
  for (int lanes = 1, left = RESULTS / 2; left > 0; lanes *= 2, left /= 2)
#pragma unroll
    for (int i = 0; i < left; ++i) {
      const float kept = lane & lanes ? x[i + left] : x[i], given = lane & lanes ? x[i] : x[i + left];
      x[i] = __fadd_rn(kept, __shfl_xor_sync(ALL, given, lanes));
    }
#pragma unroll
  for (int lanes = RESULTS; lanes < 32; lanes *= 2) x[0] = __fadd_rn(x[0], __shfl_xor_sync(ALL, x[0], lanes));
  return x[0];
}

// The value that a lane has of them.
__device__ __forceinline__ int result_of(int lane) { return (lane & 1) * 4 + (lane & 2) + (lane >> 2 & 1); }

static_assert(RESULTS == 8, "result_of counts three exchanges");

// Leave each warp's sums of a and b of rows from `first` on. Half a warp asks for a piece.
__device__ __forceinline__ void sum_gates(float (&sums)[WARPS][RESULTS], Step* ring, const Conv& p, int head, int first,
                                          int warp, int lane) {
  const int half = lane / 16, eight = lane % 16, at = warp * 32 * SHARE + eight * 8;
  const __nv_bfloat16* from[SOURCES / 2];
  from[0] = p.gates_weight + (half * p.value_heads + head) * p.weight_stride + at;
#pragma unroll
  for (int i = 1; i < SOURCES / 2; ++i)
    from[i] = p.inputs + min(first + 2 * i - 2 + half, p.rows - 1) * p.inputs_stride + at;
  const auto fetch = [&](int step) {
#pragma unroll
    for (int i = 0; i < SOURCES / 2; ++i)
      copy_16_or_zeros(step * SUMS + at < INPUTS, shared_address(&ring[step % STAGES].of[2 * i + half].at[2 * eight]),
                       step * SUMS + at < INPUTS ? from[i] + step * SUMS : from[i]);
  };
#pragma unroll
  for (int step = 0; step < STAGES; ++step) {
    if (step < STEPS) fetch(step);
    end_group();
  }
  float total[RESULTS][SHARE] = {};
#pragma unroll 1
  for (int step = 0; step < STEPS; ++step) {
    wait_for_groups<STAGES - 1>();
    const Step& now = ring[step % STAGES];
    float of_a[SHARE], of_b[SHARE];
    widen(of_a, now.of[0].at[lane]), widen(of_b, now.of[1].at[lane]);
#pragma unroll
    for (int r = 0; r < TILE_ROWS; ++r) {
      float x[SHARE];
      widen(x, now.of[2 + r].at[lane]);
#pragma unroll
      for (int j = 0; j < SHARE; ++j) {
        total[2 * r][j] = __fmaf_rn(x[j], of_a[j], total[2 * r][j]);
        total[2 * r + 1][j] = __fmaf_rn(x[j], of_b[j], total[2 * r + 1][j]);
      }
    }
    __syncwarp();
    if (step + STAGES < STEPS) fetch(step + STAGES);
    end_group();
  }
  float results[RESULTS];
#pragma unroll
  for (int i = 0; i < RESULTS; ++i)
    results[i] = __fadd_rn(__fadd_rn(total[i][0], total[i][1]), __fadd_rn(total[i][2], total[i][3]));
  const float sum = one_over_warp(results, lane);
  if (lane < RESULTS) sums[warp][result_of(lane)] = sum;
}

__device__ __forceinline__ void make_gates(const Conv& p, Step* rings, int tile, int thread, int warp) {
  __shared__ float sums[WARPS][RESULTS];
  const int head = tile % p.value_heads, first = tile / p.value_heads * TILE_ROWS;
  sum_gates(sums, rings + warp * STAGES, p, head, first, warp, thread % 32);
  __syncthreads();
  const int row = first + thread / 2;
  if (thread >= RESULTS || row >= p.rows) return;
  const float all = rounded(__fadd_rn(__fadd_rn(sums[0][thread], sums[1][thread]),
                                      __fadd_rn(sums[2][thread], sums[3][thread])));
  if (thread % 2)
    p.beta[row * p.value_heads + head] = share_of(all);
  else
    p.decay[(*p.parity * MAX_ROWS + row) * p.value_heads + head] = decay_of(all, p.decay_rate[head], p.dt_bias[head]);
}
