// Bring keys and values to shared memory: a ring of units of UNIT slots, filled by the copy engine at
// the word of a warp that does nothing else.
//
// Units of a tile of committed positions: K, K, V, V, or K, V where they are larger. Of a tile that own
// rows reach into: the same with the rows' own keys behind K, and their own values behind V. A unit is
// filled into the next place of the ring, chunk after chunk, once every other warp has let go of what it
// held before.
#pragma once

#include "verify_problem.cuh"
#include "verify_work.cuh"

// What is read once leaves the cache before partial results do, which are read again: the policy that
// createpolicy.fractional.L2::evict_first makes.
constexpr unsigned long long LEAVE_FIRST = 0x12F0000000000000ull;

// The first slot of a unit of committed positions.
__device__ __forceinline__ int committed_slot(const Chunk& chunk, int within) {
  return chunk.low + within / (2 * FILLS) * TILE + within % FILLS * UNIT;
}

struct Ring {
  unsigned barriers, base;

  __device__ __forceinline__ unsigned place(int unit) const { return base + unit % UNITS * UNIT_BYTES; }
  __device__ __forceinline__ unsigned filled(int unit) const { return barriers + 16 * (unit % UNITS); }
  __device__ __forceinline__ unsigned emptied(int unit) const { return filled(unit) + 8; }

  __device__ __forceinline__ void set_up() const {
    for (int i = 0; i < UNITS; ++i) {
      set_up_barrier(filled(i), 1);
      set_up_barrier(emptied(i), CREW);
    }
  }

  __device__ __forceinline__ void wait_for(int unit, int count) const {
#pragma unroll 1
    for (int i = unit; i < unit + count; ++i) wait(filled(i), i / UNITS & 1);
  }

  // Called by a whole warp, behind the products that use the units: right behind the loads, between the
  // steps of a product, it was once followed by wrong sums of one warp.
  __device__ __forceinline__ void let_go(int unit, int count, int lane) const {
    __syncwarp();
    if (lane < count) arrive(emptied(unit + lane));
  }

  // Called by one thread: unit `within` of a chunk. What it holds beyond the rows that are used is
  // never looked at.
  __device__ __forceinline__ void fill(int unit, const Chunk& chunk, int within, const Maps& maps, int start,
                                       int group, int own_slots) const {
    const bool own = chunk.is_own(within);
    bool value = within / FILLS % 2;
    int slot = committed_slot(chunk, within);
    if (within >= chunk.committed()) {
      const int after = within - chunk.committed(), tile = after / TAIL_UNITS, part = after % TAIL_UNITS;
      value = part > FILLS;
      slot = own ? start : chunk.low + (chunk.full + tile) * TILE + part % (FILLS + 1) * UNIT;
    }
    const TensorMap* const map = value ? own ? &maps.own_values : &maps.values : own ? &maps.own_keys : &maps.keys;
    // what else is asked for stands behind what is under way: the merging of the rows before
    if (IN_MEASURE && unit >= UNDER_WAY && within < chunk.committed())
      wait(filled(unit - UNDER_WAY), (unit - UNDER_WAY) / UNITS & 1);
    if (unit >= UNITS) wait(emptied(unit), (unit / UNITS & 1) ^ 1);
    expect_bytes(filled(unit), own ? own_slots * D * KV_BYTES : UNIT_BYTES);
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(place(unit)),
        "l"(map), "r"(0), "r"(slot), "r"(0), "r"(group), "r"(filled(unit)), "l"(LEAVE_FIRST)
        : "memory");
  }
};

__device__ __forceinline__ Ring ring_of(unsigned shared, int stream) {
  return {shared + BARRIERS_AT + stream * UNITS * 16, shared + stream * RING_BYTES};
}

// Ask the L2 for the units of a chunk behind those that fill the ring, one as each of those is there.
__device__ __forceinline__ void ask_behind(const Ring& ring, const Chunk& chunk, const Maps& maps, const Rows& rows) {
#pragma unroll 1
  for (int i = 0; i < BEHIND && UNITS + i < chunk.committed(); ++i) {
    wait(ring.filled(i), 0);
    const int within = UNITS + i;
    asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(
                     within / FILLS % 2 ? &maps.values : &maps.keys),
                 "r"(0), "r"(committed_slot(chunk, within)), "r"(0), "r"(rows.group)
                 : "memory");
  }
}

// Feed a stream's ring with all that its warps compute on; the work of one warp.
__device__ __forceinline__ void feed(const Ring& ring, const Problem& p, const Maps& maps, const Rows& rows, int stream,
                                     int lane) {
  Work work = work_of(p);
  Chunk chunk = work.chunk(work.first_of(p, stream));
  // What is committed was written long ago; what is asked for beside it in the tile where own rows begin,
  // nobody looks at.
  const bool begins = chunk.number >= 0 && chunk.low <= work.start && work.start < chunk_span(chunk.number).high;
  const int ahead = min(UNITS, chunk.committed() + (begins ? TAIL_UNITS : 0));
  auto fill = [&](int unit, int within) {
    if (lane == 0) ring.fill(unit, chunk, within, maps, work.start, rows.group, p.own_slots);
  };
  auto following = [&] { return chunk.number < 0 ? -1 : work.after(p, chunk.number); };
  int unit = ahead, within = ahead, next = following();  // next: asked for a chunk ahead
  auto go_on = [&](int end) {
#pragma unroll 1
    while (unit < end && chunk.number >= 0) {
      if (within == chunk.units()) {
        chunk = work.chunk(next);
        next = following();
        within = 0;
      } else {
        fill(unit++, within++);
      }
    }
  };
#pragma unroll 1
  for (int i = 0; i < ahead; ++i)
    if (!chunk.is_own(i)) fill(i, i);
  // behind a chunk that is committed come others, and a short context has the time to read them now
  if (!IN_MEASURE && chunk.full > 0 && !begins) go_on(UNITS);
  if constexpr (OVERLAP) {
    if (lane == 0) ask_behind(ring, chunk, maps, rows);
    await_predecessor();
  }
#pragma unroll 1
  for (int i = chunk.committed() + FILLS; begins && i < ahead; i += FILLS + 1) fill(i, i);  // the rows' own
  work.last = work.start + __reduce_max_sync(~0u, depth_of(p, rows, lane));
  chunk = work.chunk(chunk.number);
  go_on(0x7FFFFFFF);
}
