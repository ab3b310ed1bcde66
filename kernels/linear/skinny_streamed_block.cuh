// What a block of skinny_streamed.cu holds in shared memory, and the slots of its ring.
#pragma once

#include "skinny_barriers.cuh"
#include "skinny_wgmma.cuh"

constexpr int MULTIPLIERS = 4 * CREW;  // warps
constexpr int BRINGERS = 4;
constexpr int ALL_WARPS = MULTIPLIERS + BRINGERS;
static_assert(FORMAT == NVFP4, "a step of a row is one piece of 64 bytes");
constexpr int SLOT_BYTES = STAGE_BYTES + X_BYTES;
constexpr int LEVELS = WARPS >= 8 ? 2 : WARPS >= 4 ? 1 : 0;  // of the tree, beside one in registers
constexpr int KEPT_BYTES = 4 * ROW_BLOCKS * BLOCK_FLOATS;    // of a warp and level
constexpr int SENT_BYTES = SPLITS == 1 ? 0 : 4 * ((TILES * ROW_BLOCKS + SPLITS - 1) / SPLITS) * SPLITS * BLOCK_FLOATS;
constexpr int RING_BARRIERS = aligned(8 * (2 * STAGES + 7));
constexpr int LEFT = FINISHERS > 0 ? 1 : 0;  // slices of tiles that are left over, and by fours these
static_assert(LEFT == 0 || TILES >= 4, "a slot has room for four tiles that are left over");

// barriers, is_last | factors | row scales | sums kept | what ranks send | ring
struct Places {
  unsigned char* shared;

  __device__ __forceinline__ int* is_last() const {
    return reinterpret_cast<int*>(shared + 8 * (2 * STAGES + 6));
  }
  __device__ __forceinline__ float* unscale() const { return reinterpret_cast<float*>(shared + RING_BARRIERS); }
  __device__ __forceinline__ float* scales() const { return unscale() + (WARPS + LEFT) * 32; }
  __device__ __forceinline__ float4* kept(int warp, int level) const {
    unsigned char* const all = reinterpret_cast<unsigned char*>(scales() + aligned((TILES + 4 * LEFT) * 64) / 4);
    return reinterpret_cast<float4*>(all + (warp * LEVELS + level) * KEPT_BYTES);
  }
  __device__ __forceinline__ float* exchange() const { return reinterpret_cast<float*>(kept(MULTIPLIERS, 0)); }
  __device__ __forceinline__ unsigned char* ring() const {
    return reinterpret_cast<unsigned char*>(exchange()) + SENT_BYTES;
  }
};

struct Slots {
  unsigned ring, barriers;

  struct At {
    unsigned at, filled;
    int phase;
    bool again;  // the slot has been used
  };

  __device__ __forceinline__ At first() const { return {ring, barriers, 0, false}; }
  __device__ __forceinline__ void advance(At& one) const {
    one.at += SLOT_BYTES;
    one.filled += 8;
    if (one.filled != barriers + 8 * STAGES) return;
    one.at = ring;
    one.filled = barriers;
    one.phase ^= 1;
    one.again = true;
  }
  __device__ __forceinline__ void wait_filled(const At& one) const { wait(one.filled, one.phase); }
  __device__ __forceinline__ void wait_empty(const At& one) const {
    if (one.again) wait(one.filled + 8 * STAGES, one.phase ^ 1);
  }
};
