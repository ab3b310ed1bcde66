// Add the pending rows to a tile.
#pragma once

#include "walk_ring.cuh"

// The pending rows of one layer; a lane knows one of them, the rows of their half begin at `half`.
struct Pending {
  Record record;
  int half, count, row, key_heads, value_heads;
};

struct Factors {
  float k[KEYS], u[COLUMNS];
};

__device__ __forceinline__ void fetch_pending(PendingSlot* ring, const Pending& p, int index, const Place& at, int lane) {
  if (index < p.count) {
    PendingSlot& slot = ring[index % STAGES];
    const size_t row = p.half + __shfl_sync(ALL, p.row, index);
    copy_vector<KEY_DIM>(slot.k, p.record.k + (row * p.key_heads + at.key_head) * KEY_DIM, lane);
    copy_vector<TILE_COLUMNS>(slot.u, p.record.u + (row * p.value_heads + at.head) * VALUE_DIM + at.first_column, lane);
  }
  end_group();
}

__device__ __forceinline__ void fetch_first_pending(PendingSlot* ring, const Pending& p, const Place& at, int lane) {
  for (int i = 0; i < AHEAD; ++i) fetch_pending(ring, p, i, at, lane);
}

__device__ __forceinline__ void take_pending(Factors& f, const PendingSlot* ring, int index, const Place& at) {
  const PendingSlot& slot = ring[index % STAGES];
  load_keys(f.k, slot.k, at);
  load_values(f.u, slot.u + at.column - at.first_column);
}

__device__ __forceinline__ void fold(Tile& s, PendingSlot* ring, const Pending& p, const Place& at, int lane) {
  const float decays = lane < p.count ? p.record.decay[(p.half + p.row) * p.value_heads + at.head] : 0.0f;
  Factors now, next;
  wait_for_groups<AHEAD - 1>();
  take_pending(next, ring, 0, at);
#pragma unroll 2
  for (int i = 0; i < p.count; ++i) {
    now = next;
    fetch_pending(ring, p, i + AHEAD, at, lane);
    wait_for_groups<AHEAD - 1>();
    take_pending(next, ring, i + 1, at);
    advance(s, __shfl_sync(ALL, decays, i), now.k, now.u);
  }
}
