// Multiply up to 32 rows of activations by a weight that is read from memory once, on sm_90.
//
// The product, the formats, the lanes' inputs and the order of a sum are those of skinny.cu, and so are the
// bits. What differs: a block has all its outputs in registers from the first step to the last, 64 of them a
// warpgroup, and activations stream past beside the weights. So a block holds no more of them than of the
// weights, and everything of it that waits for memory is in one ring.
//
// A block's warps: CREW warpgroups that multiply, a tile of 16 outputs a warp; four that bring
// activations, 8 rows a warp, and ask the copy engine for weights in turn. They meet at the slots of the ring
// alone. The SPLITS blocks of a cluster share the slices of K. A warpgroup walks its block's slices one after the
// other and keeps the sums of a binary tree as it goes.

#include "skinny_streamed_finish.cuh"
#include "skinny_streamed_left.cuh"
#include "skinny_streamed_weights.cuh"
#include "skinny_streamed_x.cuh"

// One lane arrives, without a branch: the compiler lets no wgmma be under way across one.
__device__ __forceinline__ void arrive_by_one(unsigned barrier, bool does) {
  asm volatile(
      "{ .reg .pred one, does; elect.sync _|one, 0xFFFFFFFF; setp.ne.and.u32 does, %1, 0, one;\n"
      "@does mbarrier.arrive.shared::cta.b64 _, [%0]; }" :: "r"(barrier), "r"(static_cast<unsigned>(does)) : "memory");
}

// Undo what a slice's rows were multiplied by.
__device__ __forceinline__ void unscale(float (&v)[SUMS], const float* factors, int lane) {
#pragma unroll
  for (int r = 0; r < ROW_BLOCKS; ++r) {
    const float2 two = *reinterpret_cast<const float2*>(factors + r * 8 + 2 * (lane & 3));
#pragma unroll
    for (int i = 0; i < 4; ++i) v[4 * r + i] = __fmul_rn(v[4 * r + i], i % 2 == 0 ? two.x : two.y);
  }
}

__device__ __forceinline__ void keep(float4* to, const float (&v)[SUMS], int lane) {
#pragma unroll
  for (int i = 0; i < ROW_BLOCKS; ++i)
    to[i * 32 + lane] = make_float4(v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]);
}

__device__ __forceinline__ void add_kept(float (&v)[SUMS], const float4* from, int lane) {
#pragma unroll
  for (int i = 0; i < ROW_BLOCKS; ++i) {
    const float4 one = from[i * 32 + lane];
    v[4 * i] = __fadd_rn(one.x, v[4 * i]);
    v[4 * i + 1] = __fadd_rn(one.y, v[4 * i + 1]);
    v[4 * i + 2] = __fadd_rn(one.z, v[4 * i + 2]);
    v[4 * i + 3] = __fadd_rn(one.w, v[4 * i + 3]);
  }
}

// What a warp does that has no rows to bring.
template <class Fetch>
__device__ __forceinline__ void bring_weights(const Slots& slots, Fetch fetch, int num_steps) {
  auto at = slots.first();
#pragma unroll 1
  for (int step = 0; step < num_steps; ++step) {
    slots.wait_empty(at);
    if (at.again) fetch(at, step);
    if (elected()) arrive(at.filled);
    slots.advance(at);
  }
}

// Let slots go by that others multiply.
__device__ __forceinline__ void pass(const Slots& slots, Slots::At& at, int num_steps) {
#pragma unroll 1
  for (int step = 0; step < num_steps; ++step) {
    slots.wait_filled(at);
    if (elected()) arrive(at.filled + 8 * STAGES);
    slots.advance(at);
  }
}

// Multiply a tile by all of the block's slices; what is left in `sum` is that of their tree. Before it, the warps of
// the first four multiply a slice of tiles that are left over.
__device__ __forceinline__ void walk(const Problem& p, const Places& places, const Slots& slots, const Course& course,
                                     const Left& left, float (&sum)[SUMS], unsigned stored, int index, int first,
                                     int count, int lane) {
  auto at = slots.first();
  float before[SUMS];
  BatchWeights weights[2] = {};
  const TileBytes own(first, count, min(index, count - 1), lane);  // a warp that has none goes along
  TileBytes tile = LEFT && left.is ? TileBytes(left.first, 4, index % 4, lane) : own;
#pragma unroll 1
  for (int i = 0; i < course.num_slices(); ++i) {
    const int num_steps = course.end(i) - course.begin(i), slice = i - course.before;  // of its own
    if (LEFT && slice < 0 && index >= 4) {
      pass(slots, at, num_steps);
      tile = own;
      continue;
    }
    unsigned used = 0;  // the slot that is being multiplied
    pin(sum);
#pragma unroll 1
    for (int step = 0; step < num_steps; ++step) {
      slots.wait_filled(at);
      Codes c;
      load_tile(c, at.at, tile);
      multiply_step(sum, weights, c, describe_x(at.at + STAGE_BYTES), step == 0, [&]() {
        arrive_by_one(used, step > 0);
      });
      used = at.filled + 8 * STAGES;
      slots.advance(at);
    }
    wait_for_batches<0>();
    pin(weights[1]);
    pin(sum);
    if (elected()) arrive(used);
    unscale(sum, places.unscale() + i * ROW_BLOCKS * 8, lane);
    if (LEFT && slice < 0) {
      leave(p, left, sum, index, stored, lane);
      tile = own;
    } else if (WARPS > 1 && slice % 2 == 0) {
#pragma unroll
      for (int i = 0; i < SUMS; ++i) before[i] = sum[i];
    } else if constexpr (WARPS > 1) {
#pragma unroll
      for (int i = 0; i < SUMS; ++i) sum[i] = __fadd_rn(before[i], sum[i]);
      if (WARPS > 2 && slice % 4 == 1) keep(places.kept(index, 0), sum, lane);
      if (WARPS > 2 && slice % 4 == 3) add_kept(sum, places.kept(index, 0), lane);
      if (WARPS > 4 && slice == 3) keep(places.kept(index, LEVELS - 1), sum, lane);
      if (WARPS > 4 && slice == 7) add_kept(sum, places.kept(index, LEVELS - 1), lane);
    }
  }
}

// Launch: clusters of SPLITS blocks, p.teams of them, of 32 ALL_WARPS threads. A box of `four_codes` is the codes of
// four tiles, of `codes` those of one, and of `runs` the scales of TILES. Of a pair all boxes lie over both halves.
extern "C" __global__ void __launch_bounds__(ALL_WARPS * 32, 1)
    skinny(const __grid_constant__ Problem p, const __grid_constant__ TensorMap four_codes,
           const __grid_constant__ TensorMap codes, const __grid_constant__ TensorMap runs) {
  extern __shared__ __align__(128) unsigned char shared[];
  const int lane = threadIdx.x & 31, index = __shfl_sync(~0u, threadIdx.x >> 5, 0);
  const Places places = {shared};
  const int rank = blockIdx.x % SPLITS;
  const unsigned cluster = blockIdx.x / SPLITS, tiles = LEFT ? p.teams * TILES : p.tiles;
  const int first = static_cast<int>(cluster * tiles / p.teams);
  const int count = static_cast<int>((cluster + 1) * tiles / p.teams) - first;
  const Left left(p);
  const Course course(p, left, rank);
  const Slots slots = {shared_address(places.ring()), shared_address(shared)};
  const unsigned exchanged = slots.barriers + 16 * STAGES, landed = exchanged + 8, stored = landed + 8 * BRINGERS;

  if (index == MULTIPLIERS) {
    if (elected()) {
      for (int i = 0; i < STAGES; ++i) {
        set_up_barrier(slots.barriers + 8 * i, BRINGERS);
        set_up_barrier(slots.barriers + 8 * (STAGES + i), MULTIPLIERS);
      }
      for (int i = 0; i < 1 + BRINGERS; ++i) set_up_barrier(exchanged + 8 * i, 1);
      set_up_barrier(stored, 4);
      show_barriers();
      if constexpr (SPLITS > 1) {
        const int homes = (count * ROW_BLOCKS - rank + SPLITS - 1) / SPLITS;
        expect_bytes(exchanged, homes * SPLITS * BLOCK_FLOATS * 4);
      }
    }
    __syncwarp();
  }
  __syncthreads();
  if constexpr (SPLITS > 1) arrive_at_cluster();

  if (index >= MULTIPLIERS) {
    const int share = index - MULTIPLIERS;
    const WeightMaps maps = {four_codes, codes, runs};
    auto fetch = [&](const Slots::At& at, int step) {
      if (step >= course.num_steps() || !elected()) return;
      const bool own = !LEFT || step >= course.ahead;
      fetch_step(maps, own ? first : left.first, own ? count : 4, course.step_of_k(step), share, at);
    };
    auto at = slots.first();
#pragma unroll 1
    for (int i = 0; i < STAGES; ++i) {
      fetch(at, i);
      slots.advance(at);
    }
    if constexpr (OVERLAP) wait_for_predecessor();
    if (share < ROW_BLOCKS) {
      bring_x(p, course, slots, fetch, places.unscale(), landed + 8 * share, share, lane);
    } else {
      bring_weights(slots, fetch, course.num_steps());
    }
    if (LEFT && left.is) finish_left(p, places, left, stored, share, lane);
    if constexpr (SPLITS > 1) wait_for_cluster();
    return;
  }

  if constexpr (ROW_SCALED) {
    for (int i = threadIdx.x; i < (count + 4 * left.is) * 16; i += MULTIPLIERS * 32) {
      const int tile = i / 16, n = weight_row(p, tile < count ? first + tile : left.first + tile - count, i % 16);
      places.scales()[i] = n < p.n ? p.row_scales[n] : 0.0f;
    }
    asm volatile("bar.sync 1, %0;" :: "n"(MULTIPLIERS * 32) : "memory");
  }
  if constexpr (OVERLAP) wait_for_predecessor();
  if constexpr (SPLITS > 1) wait_for_cluster();  // all have started, so all can be sent to

  float sum[SUMS] = {};
  walk(p, places, slots, course, left, sum, stored, index, first, count, lane);
  finish(p, places, sum, first, count, rank, exchanged, index, lane);
}
