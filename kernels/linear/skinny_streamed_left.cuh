// Add up the slices of tiles that are left over (skinny_streamed_course.cuh), which different blocks have multiplied.
#pragma once

#include "skinny_ring.cuh"
#include "skinny_streamed_block.cuh"
#include "skinny_streamed_course.cuh"
#include "skinny_streamed_gated.cuh"

// Sums of [four tiles][slice][tile][block of rows][lane], each of a thread.
__device__ __forceinline__ float4* left_sums(const Problem& p, int four, int slice, int tile, int block, int lane) {
  return p.left_sums + ((((four * SLICES + slice) * 4 + tile) * ROW_BLOCKS + block) * 32 + lane);
}

// Leave a warp's sums to whoever adds them up, and tell this block's finishers.
__device__ __forceinline__ void leave(const Problem& p, const Left& left, const float (&sum)[SUMS], int tile,
                                      unsigned stored, int lane) {
#pragma unroll
  for (int r = 0; r < ROW_BLOCKS; ++r)
    *left_sums(p, blockIdx.x / SLICES, left.slice, tile, r, lane) =
        make_float4(sum[4 * r], sum[4 * r + 1], sum[4 * r + 2], sum[4 * r + 3]);
  __syncwarp();
  if (elected()) arrive(stored);
}

// Past the caches that no other block writes through.
template <int NUM>
__device__ __forceinline__ float4 tree_of_slices(const float4* first) {
  constexpr int STRIDE = 4 * ROW_BLOCKS * 32;
  if constexpr (NUM == 1) return __ldcg(first);
  else return plus(tree_of_slices<NUM / 2>(first), tree_of_slices<NUM / 2>(first + NUM / 2 * STRIDE));
}

__device__ __forceinline__ void meet_bringers() {
  asm volatile("bar.sync 2, %0;" :: "n"(BRINGERS * 32) : "memory");
}

// What the warps that bring do at last: see whether all other slices are there already, and finish a tile each if
// they are. The count of slices begins anew by itself.
__device__ __forceinline__ void finish_left(const Problem& p, const Places& places, const Left& left, unsigned stored,
                                            int tile, int lane) {
  const int four = blockIdx.x / SLICES;
  wait(stored, 0);
  if (tile == 0 && elected()) {
    __threadfence();
    *places.is_last() = atomicInc(p.left_slices + four, SLICES - 1) == SLICES - 1;
    __threadfence();
  }
  meet_bringers();
  if (!*places.is_last()) return;
  float sums[SUMS];
#pragma unroll
  for (int r = 0; r < ROW_BLOCKS; ++r) {
    const float4 whole = tree_of_slices<SLICES>(left_sums(p, four, 0, tile, r, lane));
    sums[4 * r] = whole.x;
    sums[4 * r + 1] = whole.y;
    sums[4 * r + 2] = whole.z;
    sums[4 * r + 3] = whole.w;
  }
  write_gated<ROW_BLOCKS>(p, places.scales() + (TILES + tile) * 16, left.first + tile, 0, lane, sums);
}
