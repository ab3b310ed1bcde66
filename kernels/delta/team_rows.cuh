// Bring the rows of a walk into shared memory, all of a call's, for the warps of a block.
//
// The warps that finish rows ask for them, a row a warp at a time; those that walk have nothing to do
// with it. So no row is waited for that was not asked for long before.
#pragma once

#include "walk_ring.cuh"

constexpr int BLOCK_COLUMNS = WARPS * TILE_COLUMNS;
constexpr int FINISHERS = 4;              // warps
constexpr int CHUNK = FINISHERS;          // rows that are handed on at a time
constexpr int CHUNKS = MAX_ROWS / CHUNK;
constexpr int FIRST_ROWS = 2 * CHUNK;     // that a walk can begin with: a row is taken one ahead of its turn

struct alignas(16) PendingRow {
  float k[KEY_DIM];
  float u[BLOCK_COLUMNS];
};

struct alignas(16) WalkedRow {
  float k[KEY_DIM];
  float q[KEY_DIM];
  __nv_bfloat16 v[BLOCK_COLUMNS];
};

// By how much a row forgets and writes.
struct alignas(8) Gates {
  float decay, beta;
};

// What the finishers' copies are waited for at, once each.
enum Came { PENDING, FIRST, REST, COPIES };

using Barrier = unsigned long long;

// All warps of a block, each kind at a place of its own in the code, where __syncthreads may not stand.
__device__ __forceinline__ void meet_block() {
  asm volatile("barrier.sync 0, %0;" :: "n"(32 * (WARPS + FINISHERS)) : "memory");
}

__device__ __forceinline__ void set_up_barrier(Barrier& barrier, int arrivals) {
  set_up_barrier(shared_address(&barrier), arrivals);
}

// Arrive when all copies that the thread has asked for are there.
__device__ __forceinline__ void arrive_with_copies(Barrier& barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(&barrier)) : "memory");
}

// Arrive, or not; no branch, so that it may stand amid the arithmetic.
__device__ __forceinline__ void arrive_if(bool does, Barrier& barrier) {
  asm volatile(
      "{\n .reg .pred does;\n setp.ne.b32 does, %1, 0;\n @does mbarrier.arrive.shared::cta.b64 _, [%0];\n}"
      ::"r"(shared_address(&barrier)), "r"(static_cast<int>(does)) : "memory");
}

__device__ __forceinline__ void wait_at(Barrier& barrier) {
  asm volatile(
      "{\n .reg .pred done;\n"
      "again:\n mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n @!done bra again;\n}"
      ::"r"(shared_address(&barrier)) : "memory");
  __syncwarp();
}

// Where a block stands: its values of the head from `first` on; and a warp among its like.
struct Share {
  int head, key_head, first, warp;
};

__device__ __forceinline__ void copy_4(unsigned to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

// Ask for the pending rows; a lane knows where one of them is.
__device__ __forceinline__ void fetch_pending(PendingRow* to, Barrier& came, const Record& record, int half, int count,
                                              int pending_row, int key_heads, int value_heads, const Share& at, int lane) {
  const float* const k = record.k + (static_cast<size_t>(half) * key_heads + at.key_head) * KEY_DIM + lane * 4;
  const float* const u = record.u + (static_cast<size_t>(half) * value_heads + at.head) * VALUE_DIM + at.first + lane * 4;
#pragma unroll 1
  for (int i = at.warp; i < count; i += FINISHERS) {
    const unsigned row = __shfl_sync(ALL, pending_row, i);
    copy_16_if(lane < KEY_DIM / 4, shared_address(to[i].k + lane * 4), k + row * (key_heads * KEY_DIM));
    copy_16_if(lane < BLOCK_COLUMNS / 4, shared_address(to[i].u + lane * 4), u + row * (value_heads * VALUE_DIM));
  }
  arrive_with_copies(came);
}

__device__ __forceinline__ void take_pending(Factors& f, const PendingRow& row, const Place& at, int first) {
  load_keys(f.k, row.k, at);
  load_values(f.u, row.u + at.column - first);
}

__device__ __forceinline__ void fold(Tile& s, const PendingRow* rows, int count, float decays, const Place& at, int first) {
  Factors now, next;
  take_pending(next, rows[0], at, first);
#pragma unroll 2
  for (int i = 0; i < count; ++i) {
    now = next;
    take_pending(next, rows[(i + 1) % MAX_ROWS], at, first);
    advance(s, __shfl_sync(ALL, decays, i), now.k, now.u);
  }
}
