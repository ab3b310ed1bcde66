// Say what a launch computes and how its block is cut.
#pragma once

#include "../common/exact.cuh"
#include "../delta/walk_tile.cuh"

// Compile-time sizes beside those of walk_tile.cuh, by `macros` of tile.py: ROWS of the call, KEPT
// states of a tree of so many, INPUTS of the product of a | b. WARPS are the block's with tiles.

constexpr int GATE_WARPS = 4;            // that multiply a | b; tile.py knows it too
constexpr int BLOCKS = TILES / WARPS;    // of a head
constexpr int CHANNELS = 4;              // of a lane, so that a warp has a head's
constexpr int WINDOW = 4;                // rows and taps of the convolution
constexpr int TASKS = (3 * ROWS + WARPS - 1) / WARPS;  // vectors that a warp convolves: query, key, value of a row
constexpr float QUERY_LENGTH = 0.08838834764831845f;   // D^-0.5

static_assert(KEY_DIM == 32 * CHANNELS && VALUE_DIM == KEY_DIM, "a warp convolves a head of 128 channels");

// `MixerArguments` of launch.py has the same fields in the same order.
struct Mixer {
  const __nv_bfloat16* x;             // [T, C]
  const __nv_bfloat16* inputs;        // [T, INPUTS], of a | b
  const __nv_bfloat16* gates_weight;  // [2 H, INPUTS], a over b
  const __nv_bfloat16* taps;          // [C, 4]
  const float* decay_rate;            // [H]
  const float* dt_bias;               // [H]
  __nv_bfloat16* tails;               // [2, 3, C]
  __nv_bfloat16* raw;                 // [2, 32, C]
  const int* parents;                 // [32]
  const int* saves;                   // [32]
  const int* restores;                // [32]
  float* state;                       // [H, D, E]
  __nv_bfloat16* out;                 // [T, H, E]
  Record record;
  long long x_stride, inputs_stride, weight_stride;
  int key_heads, value_heads;
};

// Wait at a barrier of some warps of the block, or arrive there and go on.
template <int BARRIER, int THREADS>
__device__ __forceinline__ void meet() {
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"n"(BARRIER), "n"(THREADS) : "memory");
}

template <int BARRIER, int THREADS>
__device__ __forceinline__ void arrive() {
  __syncwarp();
  asm volatile("bar.arrive %0, %1;" ::"n"(BARRIER), "n"(THREADS) : "memory");
}

// Sum a value of each lane by a tree of neighbours.
__device__ __forceinline__ float over_warp(float sum) {
#pragma unroll
  for (int lanes = 1; lanes < 32; lanes *= 2) sum = __fadd_rn(sum, __shfl_xor_sync(ALL, sum, lanes));
  return sum;
}

// Four neighbours of a row in bf16, and widened.
__device__ __forceinline__ uint2 load_halves(const __nv_bfloat16* from) {
  return *reinterpret_cast<const uint2*>(from);
}

__device__ __forceinline__ void widen(float (&to)[CHANNELS], uint2 halves) {
  to[0] = __uint_as_float(halves.x << 16), to[1] = __uint_as_float(halves.x & 0xffff0000u);
  to[2] = __uint_as_float(halves.y << 16), to[3] = __uint_as_float(halves.y & 0xffff0000u);
}

__device__ __forceinline__ float rounded(float x) { return __bfloat162float(__float2bfloat16_rn(x)); }
