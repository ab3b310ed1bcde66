// Bring the rows of a walk and of a fold into shared memory ahead of their use.
//
// Pending rows wait in device memory since the last round; one at a time, each would cost a trip
// there. A warp fills and empties its rings alone: no block has anything to wait for.
#pragma once

#include "../common/async_copies.cuh"
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
