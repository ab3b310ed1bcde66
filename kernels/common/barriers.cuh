// Barriers in shared memory (mbarrier), which count copies and threads that arrive, and those of a cluster.
#pragma once

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void set_up_barrier(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(arrivals) : "memory");
}

// Barriers are set up for the copy engine and for the other blocks of a cluster too.
__device__ __forceinline__ void show_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrive, and let the barrier's phase end only when so many bytes have come as well.
__device__ __forceinline__ void expect_bytes(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}

__device__ __forceinline__ void wait(unsigned barrier, int parity) {
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again; }" :: "r"(barrier), "r"(parity) : "memory");
}

// Arrive at a barrier of a block of the cluster. What this thread has read of its own block's shared memory, or knows
// to be read, is so for those who wait there for other blocks: they may write to it.
__device__ __forceinline__ void arrive_at_other(unsigned barrier, int rank) {
  asm volatile(
      "{ .reg .u32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
      "fence.release.sync_restrict::shared::cta.cluster;\n"
      "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [there]; }"
      :: "r"(barrier), "r"(rank) : "memory");
}

// Wait for what other blocks of the cluster send to this one's shared memory, or have read of theirs. Of shared
// memory alone: an acquire of all would empty the first-level cache, a release wait for what is on its way to memory.
__device__ __forceinline__ void wait_for_others(unsigned barrier, int parity) {
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "fence.acquire.sync_restrict::shared::cluster.cluster; }" :: "r"(barrier), "r"(parity) : "memory");
}

__device__ __forceinline__ void arrive_at_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
