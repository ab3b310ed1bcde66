// Bring activations that the kernel before has written as operands: nothing is left to be done to them.
#pragma once

#include "skinny_activations.cuh"
#include "skinny_barriers.cuh"
#include "skinny_ring.cuh"

__device__ __forceinline__ void copy_bytes(unsigned to, const void* from, int bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

// Ask the copy engine for the operands of a slice: those of 8 rows lie side by side.
__device__ __forceinline__ void fetch_operands(const Problem& p, const uint4* shared_x, int begin, int end,
                                               unsigned barrier) {
  const int bytes = (end - begin) * STEP_VECTORS * 16;
  expect_bytes(barrier, ROW_BLOCKS * bytes);
#pragma unroll
  for (int r = 0; r < ROW_BLOCKS; ++r) {
    const uint4* const from = p.operands + static_cast<size_t>(r * p.steps + begin) * STEP_VECTORS;
    if (bytes > 0) copy_bytes(shared_address(shared_x + r * LONGEST * STEP_VECTORS), from, bytes, barrier);
  }
}

// Say whether a row of a slice needs another factor than 1, with which operands are written.
__device__ __forceinline__ bool any_factor(const Problem& p, int begin, int end, int lane) {
  bool any = false;
#pragma unroll
  for (int r = 0; r < ROW_BLOCKS; ++r) {
    const int row = r * 8 + (lane >> 2);
    unsigned most = 0;
#pragma unroll
    for (int i = 0; i < LONGEST; i += 4) {
      const int step = begin + i + (lane & 3);
      const int even = 2 * row * p.steps + step, odd = (2 * row + 1) * p.steps + step;
      if (row < p.rows && step < end) most = largest(largest(most, p.largest[even]), p.largest[odd]);
    }
    any |= range_factor(largest_of_row(most)) != 1.0f;
  }
  return any;
}

// Bring the operands of the block's slices to shared memory, where x has any, and say whether they
// serve: the factors of all rows are 1. `barrier` is the slice's own.
__device__ __forceinline__ bool bring_operands(const Problem& p, const uint4* shared_x, int begin, int end, int member,
                                               int lane, unsigned barrier, float (&factor)[ROW_BLOCKS]) {
  if constexpr (!PREPARED || SOURCE == GLOBAL) return false;
  bool any = false;
  if (member == 0) {
    if (elected()) fetch_operands(p, shared_x, begin, end, barrier);
    any = any_factor(p, begin, end, lane);
  }
#pragma unroll
  for (int r = 0; r < ROW_BLOCKS; ++r) factor[r] = 1.0f;
  any = any_worker(any);
  wait(barrier, 0);
  return !any;
}
