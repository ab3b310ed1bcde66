// Kernels of a stream that overlap (programmatic dependent launch).
#pragma once

// Let the next kernel of the stream start.
__device__ __forceinline__ void let_successor_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Read nothing of the kernel before until it has ended.
__device__ __forceinline__ void await_predecessor() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
