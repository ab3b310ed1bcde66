// Add the pending rows to a tile.
#pragma once

#include "walk_ring.cuh"

// The pending rows of one layer; a lane knows one of them, the rows of their half begin at `half`.
struct Pending {
  Record record;
  int half, count, row, key_heads, value_heads;
};

// Where a lane finds its 16 bytes of any row of their half, and where it leaves them.
struct PendingCopies {
  const float *k, *u;
  unsigned ring;
};

__device__ __forceinline__ PendingCopies copies_of(PendingSlot* ring, const Pending& p, const Place& at, int lane) {
  const int u_lane = lane % (TILE_COLUMNS / 4), k_lane = lane % (KEY_DIM / 4);
  const size_t key = static_cast<size_t>(p.half) * p.key_heads + at.key_head;
  const size_t head = static_cast<size_t>(p.half) * p.value_heads + at.head;
  return {p.record.k + key * KEY_DIM + k_lane * 4, p.record.u + head * VALUE_DIM + at.first_column + u_lane * 4,
          shared_address(ring) + lane * 16};
}

__device__ __forceinline__ void fetch_pending(const PendingCopies& from, const Pending& p, int index, int lane) {
  const unsigned row = __shfl_sync(ALL, p.row, index);
  const unsigned slot = from.ring + index % STAGES * sizeof(PendingSlot);
  const bool exists = index < p.count;
  copy_16_if(exists && lane < KEY_DIM / 4, slot, from.k + row * (p.key_heads * KEY_DIM));
  copy_16_if(exists && lane < TILE_COLUMNS / 4, slot + sizeof(float) * KEY_DIM,
             from.u + row * (p.value_heads * VALUE_DIM));
  end_group();
}

__device__ __forceinline__ void fetch_first_pending(const PendingCopies& from, const Pending& p, int lane) {
  for (int i = 0; i < AHEAD; ++i) fetch_pending(from, p, i, lane);
}

__device__ __forceinline__ void take_pending(Factors& f, const PendingSlot* ring, int index, const Place& at) {
  const PendingSlot& slot = ring[index % STAGES];
  load_keys(f.k, slot.k, at);
  load_values(f.u, slot.u + at.column - at.first_column);
}

__device__ __forceinline__ void fold(Tile& s, PendingSlot* ring, const PendingCopies& from, const Pending& p,
                                     const Place& at, int lane) {
  const float decays = lane < p.count ? p.record.decay[(p.half + p.row) * p.value_heads + at.head] : 0.0f;
  Factors now, next;
  wait_for_groups<AHEAD - 1>();
  take_pending(next, ring, 0, at);
#pragma unroll 2
  for (int i = 0; i < p.count; ++i) {
    now = next;
    fetch_pending(from, p, i + AHEAD, lane);
    wait_for_groups<AHEAD - 1>();
    take_pending(next, ring, i + 1, at);
    advance(s, __shfl_sync(ALL, decays, i), now.k, now.u);
  }
}
