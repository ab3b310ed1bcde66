// Let the copy engine fill a warp's ring, and say by a barrier in shared memory when it has.
#pragma once

#include "skinny_barriers.cuh"
#include "skinny_problem.cuh"

// One lane of the warp, by an instruction from which the compiler knows that it is one.
__device__ __forceinline__ bool elected() {
  unsigned is;
  asm volatile("{ .reg .pred one; elect.sync _|one, 0xFFFFFFFF; selp.u32 %0, 1, 0, one; }" : "=r"(is));
  return is;
}

struct Cursor {
  int tile, step;  // the group's first tile, or pair of them, and the step of K
};

// Copy a scale while the thread goes on: at the start of a launch memory is far away.
__device__ __forceinline__ void copy_float(float* to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(shared_address(to)), "l"(from) : "memory");
}

// Wait for this thread's own; others see them after they have met it.
__device__ __forceinline__ void wait_for_floats() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// All pieces of 64 bytes of some rows' step, of both halves of a pair.
__device__ __forceinline__ void copy_codes(unsigned to, const TensorMap& map, int piece, int row, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%4, %3, %2, %4}], [%5];"
      :: "r"(to), "l"(&map), "r"(piece), "r"(row), "r"(0), "r"(barrier) : "memory");
}

// The scales of some tiles' step, of both halves of a pair.
__device__ __forceinline__ void copy_runs(unsigned to, const TensorMap& map, int byte, int tile, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
      :: "r"(to), "l"(&map), "r"(byte), "r"(tile), "r"(0), "r"(barrier) : "memory");
}

// A stage of a warp's ring: where its bytes lie, and the barrier that says when they are there.
struct Slot {
  unsigned at, barrier;

  // Go on to the next stage; say whether that is the first again.
  __device__ __forceinline__ bool advance(unsigned first_at, unsigned first_barrier) {
    at += STAGE_BYTES;
    barrier += 8;
    if (barrier != first_barrier + 8 * STAGES) return false;
    at = first_at;
    barrier = first_barrier;
    return true;
  }
};

// One lane asks for a step of all tiles of a group; tiles beyond the team's are brought and not used.
__device__ __forceinline__ void fetch_stage(const TensorMap& codes, const TensorMap& runs, const Cursor& next,
                                            const Slot& into) {
  expect_bytes(into.barrier, STAGE_BYTES);
  copy_codes(into.at, codes, next.step * CHUNKS, next.tile * 16, into.barrier);
  if constexpr (RUN_BYTES > 0) copy_runs(into.at + CODES_BYTES, runs, next.step * RUN_BYTES, next.tile, into.barrier);
}
