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

#include "skinny_barriers.cuh"
#include "skinny_ring.cuh"
#include "skinny_streamed_x.cuh"
#include "skinny_sums.cuh"
#include "skinny_wgmma.cuh"

constexpr int MULTIPLIERS = 4 * CREW;  // warps
constexpr int ALL_WARPS = MULTIPLIERS + 4;
static_assert(FORMAT == NVFP4 && PAIR == 1, "a step of a row is one piece of 64 bytes, and no sums are paired");
constexpr int SLOT_BYTES = STAGE_BYTES + X_BYTES;
constexpr int LEVELS = WARPS >= 8 ? 2 : WARPS >= 4 ? 1 : 0;  // of the tree, beside one in registers
constexpr int KEPT_BYTES = 4 * ROW_BLOCKS * BLOCK_FLOATS;    // of a warp and level
constexpr int SENT_BYTES = SPLITS == 1 ? 0 : 4 * ((TILES * ROW_BLOCKS + SPLITS - 1) / SPLITS) * SPLITS * BLOCK_FLOATS;
constexpr int RING_BARRIERS = aligned(8 * (2 * STAGES + 5));

// barriers | factors | row scales | sums kept | what ranks send | ring
struct Places {
  unsigned char* shared;

  __device__ __forceinline__ float* unscale() const { return reinterpret_cast<float*>(shared + RING_BARRIERS); }
  __device__ __forceinline__ float* scales() const { return unscale() + WARPS * 32; }
  __device__ __forceinline__ float4* kept(int warp, int level) const {
    unsigned char* const all = reinterpret_cast<unsigned char*>(scales() + aligned(TILES * 64) / 4);
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

// Say that a barrier's phase does not end before so many bytes have come; who arrives is another matter.
__device__ __forceinline__ void expect_more(unsigned barrier, int bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}

// Ask for one warp's share of a step of `count` tiles: boxes of four, and the rest one by one, are dealt out
// to the four warps that bring.
__device__ __forceinline__ void fetch_step(const TensorMap& codes, const TensorMap& runs, const TensorMap& tile_codes,
                                           const TensorMap& tile_runs, int first, int count, int step, int share,
                                           const Slots::At& slot) {
  const int fours = count / 4, boxes = fours + count % 4;
#pragma unroll 1
  for (int box = share; box < boxes; box += 4) {
    const bool four = box < fours;
    const int tile = four ? box * 4 : fours * 4 + box - fours;
    expect_more(slot.filled, (four ? 4 : 1) * (TILE_BYTES + RUN_BYTES));
    copy_codes(slot.at + tile * 1024, four ? codes : tile_codes, step, (first + tile) * 16, slot.filled);
    copy_runs(slot.at + CODES_BYTES + tile * RUN_BYTES, four ? runs : tile_runs, step * RUN_BYTES, first + tile,
              slot.filled);
  }
}

__device__ __forceinline__ void send_pair(unsigned to, unsigned barrier, int rank, float2 v) {
  asm volatile(
      "{ .reg .u32 there, counter; mapa.shared::cluster.u32 there, %0, %2; mapa.shared::cluster.u32 counter, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [there], {%3, %4}, [counter]; }"
      :: "r"(to), "r"(barrier), "r"(rank), "r"(__float_as_uint(v.x)), "r"(__float_as_uint(v.y)) : "memory");
}

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
  for (int i = 0; i < ROW_BLOCKS; ++i) to[i * 32 + lane] = make_float4(v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]);
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

// The sum of a block of 16 outputs x 8 rows over ranks, as write_block takes it.
__device__ __forceinline__ float4 sum_of_ranks(const float* parts, int lane) {
  const int output = lane >> 1, half = (lane & 1) ^ (output >> 3);
  const float4 sum = tree_sum<SPLITS>(parts + output * 8 + half * 4, BLOCK_FLOATS);
  return output >> 2 & 1 ? make_float4(sum.z, sum.w, sum.x, sum.y) : sum;
}

// What a warp does that has no rows to bring.
template <class Fetch>
__device__ __forceinline__ void bring_weights(const Slots& slots, Fetch fetch, int from, int to) {
  auto at = slots.first();
#pragma unroll 1
  for (int step = from; step < to; ++step) {
    slots.wait_empty(at);
    if (at.again) fetch(at, step);
    if (elected()) arrive(at.filled);
    slots.advance(at);
  }
}

// Multiply a tile by all of the block's slices; what is left in `sum` is that of their tree. A warp that has
// none goes along with another's.
__device__ __forceinline__ void walk(const Problem& p, const Places& places, const Slots& slots, float (&sum)[SUMS],
                                     int rank, int index, int tile, int lane) {
  const LaneBytes lane_bytes(lane);
  auto at = slots.first();
  float before[SUMS];
  BatchWeights weights[2] = {};
#pragma unroll 1
  for (int slice = 0; slice < WARPS; ++slice) {
    const int begin = (rank * WARPS + slice) * p.steps / SLICES, end = (rank * WARPS + slice + 1) * p.steps / SLICES;
    unsigned used = 0;  // the slot that is being multiplied
    pin(sum);
#pragma unroll 1
    for (int step = begin; step < end; ++step) {
      slots.wait_filled(at);
      Codes c;
      load_codes(c, at.at, tile, lane_bytes);
      multiply_step(sum, weights, c, describe_x(at.at + STAGE_BYTES), step == begin, [&]() {
        arrive_by_one(used, step > begin);
      });
      used = at.filled + 8 * STAGES;
      slots.advance(at);
    }
    wait_for_batches<0>();
    pin(weights[1]);
    pin(sum);
    if (elected()) arrive(used);
    unscale(sum, places.unscale() + slice * ROW_BLOCKS * 8, lane);
    if (WARPS > 1 && slice % 2 == 0) {
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

// Add up over ranks, and write.
__device__ __forceinline__ void finish(const Problem& p, const Places& places, const float (&sum)[SUMS], int first,
                                       int count, int rank, unsigned exchanged, int index, int lane) {
  const int g = lane >> 2, t = lane & 3, tile = index;  // of the block
  const bool mine = tile < count;
  __syncwarp();
#pragma unroll
  for (int r = 0; r < ROW_BLOCKS; ++r)
    for (int half = 0; half < 2; ++half) {
      const float2 pair = make_float2(sum[4 * r + 2 * half], sum[4 * r + 2 * half + 1]);
      const int within = place_of_pair(0, 2 * t, g + half * 8);
      if constexpr (SPLITS > 1) {
        const int block = tile * ROW_BLOCKS + r;
        float* const place = places.exchange() + (block / SPLITS * SPLITS + rank) * BLOCK_FLOATS + within;
        if (mine) send_pair(shared_address(place), exchanged, block % SPLITS, pair);
      } else {
        float* const place = reinterpret_cast<float*>(places.kept(index, 0)) + r * BLOCK_FLOATS + within;
        *reinterpret_cast<float2*>(place) = pair;
      }
    }
  __syncwarp();
  if constexpr (SPLITS > 1) {
    wait(exchanged, 0);
#pragma unroll 1
    for (int block = rank + index * SPLITS; block < count * ROW_BLOCKS; block += MULTIPLIERS * SPLITS) {
      const float4 whole[1] = {sum_of_ranks(places.exchange() + block / SPLITS * SPLITS * BLOCK_FLOATS, lane)};
      const int of = block / ROW_BLOCKS;
      write_block(p, places.scales() + of * 16, first + of, block % ROW_BLOCKS, lane, whole);
    }
  } else if (mine) {
#pragma unroll
    for (int r = 0; r < ROW_BLOCKS; ++r) {
      const float* const of_block = reinterpret_cast<float*>(places.kept(index, 0)) + r * BLOCK_FLOATS;
      const float4 whole[1] = {sum_of_ranks(of_block, lane)};
      write_block(p, places.scales() + tile * 16, first + tile, r, lane, whole);
    }
  }
}

// Launch: clusters of SPLITS blocks, p.teams of them, of 32 ALL_WARPS threads. A box of `codes` and
// `runs` is four tiles, of `tile_codes` and `tile_runs` one.
extern "C" __global__ void __launch_bounds__(ALL_WARPS * 32, 1)
    skinny(const __grid_constant__ Problem p, const __grid_constant__ TensorMap codes,
           const __grid_constant__ TensorMap runs, const __grid_constant__ TensorMap tile_codes,
           const __grid_constant__ TensorMap tile_runs) {
  extern __shared__ __align__(128) unsigned char shared[];
  const int lane = threadIdx.x & 31, index = __shfl_sync(~0u, threadIdx.x >> 5, 0);
  const Places places = {shared};
  const int rank = blockIdx.x % SPLITS;
  const unsigned cluster = blockIdx.x / SPLITS, tiles = p.tiles;
  const int first = static_cast<int>(cluster * tiles / p.teams);
  const int count = static_cast<int>((cluster + 1) * tiles / p.teams) - first;
  const int from = rank * WARPS * p.steps / SLICES, to = (rank + 1) * WARPS * p.steps / SLICES;
  const Slots slots = {shared_address(places.ring()), shared_address(shared)};
  const unsigned exchanged = slots.barriers + 16 * STAGES;

  if (index == MULTIPLIERS) {
    if (elected()) {
      for (int i = 0; i < STAGES; ++i) {
        set_up_barrier(slots.barriers + 8 * i, 4);
        set_up_barrier(slots.barriers + 8 * (STAGES + i), MULTIPLIERS);
      }
      for (int i = 0; i < 5; ++i) set_up_barrier(exchanged + 8 * i, 1);
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
    auto fetch = [&](const Slots::At& at, int step) {
      if (step < to && elected()) fetch_step(codes, runs, tile_codes, tile_runs, first, count, step, share, at);
    };
    auto at = slots.first();
#pragma unroll 1
    for (int i = 0; i < STAGES; ++i) {
      fetch(at, from + i);
      slots.advance(at);
    }
    if constexpr (OVERLAP) wait_for_predecessor();
    if (share < ROW_BLOCKS) {
      bring_x(p, slots, fetch, places.unscale(), exchanged + 8 + 8 * share, rank, share, lane);
    } else {
      bring_weights(slots, fetch, from, to);
    }
    if constexpr (SPLITS > 1) wait_for_cluster();
    return;
  }

  if constexpr (ROW_SCALED) {
    for (int i = threadIdx.x; i < count * 16; i += MULTIPLIERS * 32)
      places.scales()[i] = first * 16 + i < p.n ? p.row_scales[first * 16 + i] : 0.0f;
    asm volatile("bar.sync 1, %0;" :: "n"(MULTIPLIERS * 32) : "memory");
  }
  if constexpr (OVERLAP) wait_for_predecessor();
  if constexpr (SPLITS > 1) wait_for_cluster();  // all have started, so all can be sent to

  float sum[SUMS] = {};
  walk(p, places, slots, sum, rank, index, min(index, count - 1), lane);
  finish(p, places, sum, first, count, rank, exchanged, index, lane);
}
