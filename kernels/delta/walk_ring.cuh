// Bring the rows of a walk and of a fold into shared memory ahead of their use.
//
// Pending rows wait in device memory since the last round; one at a time, each would cost a trip
// there. A warp fills and empties its rings alone: no block has anything to wait for.
#pragma once

#include "walk_tile.cuh"

constexpr int STAGES = 4;          // rows of a ring; tile.py knows it too
constexpr int AHEAD = STAGES - 1;  // rows under way while one is used

struct alignas(16) PendingSlot {
  float k[KEY_DIM];
  float u[TILE_COLUMNS];
};

struct alignas(16) RowSlot {
  float k[KEY_DIM];
  float q[KEY_DIM];
  __nv_bfloat16 v[TILE_COLUMNS];
};

struct Rings {
  PendingSlot pending[STAGES];
  RowSlot rows[STAGES];
};

__device__ __forceinline__ void copy_16(void* to, const void* from) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(address), "l"(from) : "memory");
}

__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Wait for all groups but the newest LEFT, of all lanes.
template <int LEFT>
__device__ __forceinline__ void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory");
  __syncwarp();
}

// All lanes copy a vector of N floats, 16 bytes each.
template <int N>
__device__ __forceinline__ void copy_vector(float* to, const float* from, int lane) {
  if (lane < N / 4) copy_16(to + lane * 4, from + lane * 4);
}
