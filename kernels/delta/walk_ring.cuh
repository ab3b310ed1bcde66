// Bring the rows of a walk and of a fold into shared memory ahead of their use.
//
// Pending rows wait in device memory since the last round; one at a time, each would cost a trip
// there. A warp fills and empties its rings alone: no block has anything to wait for.
#pragma once

#include "../common/barriers.cuh"
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

__device__ __forceinline__ void copy_16(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory");
}

// The same, or nothing; no branch, so that rows are asked for amid the arithmetic.
__device__ __forceinline__ void copy_16_if(bool wanted, unsigned to, const void* from) {
  asm volatile(
      "{\n .reg .pred wanted;\n setp.ne.b32 wanted, %2, 0;\n"
      " @wanted cp.async.cg.shared.global [%0], [%1], 16;\n}"
      ::"r"(to), "l"(from), "r"(static_cast<int>(wanted)) : "memory");
}

__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Wait for all groups but the newest LEFT, of all lanes.
template <int LEFT>
__device__ __forceinline__ void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory");
  __syncwarp();
}
