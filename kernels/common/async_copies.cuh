// Copies from global to shared memory that a thread asks for and goes on (cp.async), 16 bytes each, past the
// first-level cache.
#pragma once

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

// The same, or zeros.
__device__ __forceinline__ void copy_16_or_zeros(bool wanted, unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(wanted ? 16 : 0) : "memory");
}

__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Wait for this thread's groups but the newest LEFT.
template <int LEFT>
__device__ __forceinline__ void await_groups() {
  asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory");
}

// The same, of all lanes.
template <int LEFT>
__device__ __forceinline__ void wait_for_groups() {
  await_groups<LEFT>();
  __syncwarp();
}
