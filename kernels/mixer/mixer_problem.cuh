// Say what a launch computes and how its block is cut.
#pragma once

#include "../conv/channels.cuh"
#include "../delta/walk_gate.cuh"

// Compile-time sizes beside those of walk_tile.cuh, by `macros` of tile.py: ROWS of the call, KEPT
// states of a tree of so many, INPUTS of the product of a | b. WARPS are the block's with tiles.

constexpr int GATE_WARPS = 4;            // that multiply a | b; tile.py knows it too
constexpr int BLOCKS = TILES / WARPS;    // of a head
constexpr int TASKS = (3 * ROWS + WARPS - 1) / WARPS;  // vectors that a warp convolves: query, key, value of a row

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
  Gate gate;                          // what follows the walk, where GATED
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
