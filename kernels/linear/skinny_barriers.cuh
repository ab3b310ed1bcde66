// Wait: for copies, for other warps, for the other blocks of a cluster, for the kernel before.
#pragma once

#include "../common/barriers.cuh"
#include "../common/launch_order.cuh"
#include "skinny_problem.cuh"

// All warps of a block, each kind at a place of its own in the code, where __syncthreads may not stand.
__device__ __forceinline__ void meet_block() {
  asm volatile("barrier.sync 0, %0;" :: "n"(THREADS) : "memory");
}

// The warps of a block that multiply.
__device__ __forceinline__ void meet_workers() {
  asm volatile("bar.sync 1, %0;" :: "n"(WORKERS * 32) : "memory");
}

__device__ __forceinline__ bool any_worker(bool is) {
  unsigned any;
  asm volatile(
      "{ .reg .pred is, any; setp.ne.u32 is, %1, 0;\n"
      "bar.red.or.pred any, 1, %2, is; selp.u32 %0, 1, 0, any; }"
      : "=r"(any) : "r"(static_cast<unsigned>(is)), "n"(WORKERS * 32) : "memory");
  return any;
}

// Store a lane's part of a block with the rank that finishes it, and count it there when it arrives.
__device__ __forceinline__ void send(unsigned to, unsigned barrier, int rank, float4 v) {
  asm volatile(
      "{ .reg .u32 there, counter; mapa.shared::cluster.u32 there, %0, %2; mapa.shared::cluster.u32 counter, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [there], {%3, %4, %5, %6}, [counter]; }"
      :: "r"(to), "r"(barrier), "r"(rank), "r"(__float_as_uint(v.x)), "r"(__float_as_uint(v.y)),
         "r"(__float_as_uint(v.z)), "r"(__float_as_uint(v.w)) : "memory");
}

// Tell a rank that this one has come to a group; to itself, how many bytes of sums it will be sent.
__device__ __forceinline__ void tell(unsigned barrier, int rank, int own_rank, int bytes) {
  if (rank == own_rank) {
    expect_bytes(barrier, bytes);
  } else {
    arrive_at_other(barrier, rank);
  }
}

// What this block has read is read before what others do behind this.
__device__ __forceinline__ void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  wait_for_cluster();
}

// Read nothing of the kernel before until it has ended, then let the next one start: so that one may read at
// once what is older than this one.
__device__ __forceinline__ void wait_for_predecessor() {
  await_predecessor();
  let_successor_start();
}
