// Lay a chain's own rows at their places in a tile, which four warps then multiply by as by any other.
//
// Position start + d of a chain lies in slot start + d for every row: all rows have the same keys and values, and
// differ in where they end. There scores are hidden, so weights are zero, and a finite value times zero changes no sum.
#pragma once

#include "verify_tail.cuh"

// Whether all units of such a tile fit the ring at one time.
constexpr bool LAYS = WIDE && UNITS >= TAIL_UNITS;

// Lay own keys and values, zeros behind the last value, and say whether all values are finite; by all threads that
// compute. `unit` is the tile's first; all of its units are there then.
__device__ __forceinline__ bool lay_own(const Ring& ring, int unit, const Work& work, const Tail& tail, int base) {
  const int thread = apart(threadIdx.x), warp = thread >> 5, lane = thread & 31;  // a lane has a piece of a row
  const unsigned keys = ring.place(unit), own_keys = ring.place(unit + FILLS);
  const unsigned values = ring.place(unit + FILLS + 1), own_values = ring.place(unit + 2 * FILLS + 1);
  const int before = base - work.start, end = min(work.last - base + 1, TILE);
  ring.wait_for(unit + FILLS + 1, FILLS);
#pragma unroll 4
  for (int at = end + warp; at < TILE; at += WARPS) store_16(unit_row(values, at).piece(lane), {0, 0, 0, 0});
  ring.wait_for(unit, TAIL_UNITS);
  bool finite = true;
#pragma unroll 2
  for (int at = max(-before, 0) + warp; at < end; at += WARPS) {
    const uint4 key = load_16(tail.own_row(own_keys, before + at).piece(lane));
    const uint4 value = load_16(tail.own_row(own_values, before + at).piece(lane));
    store_16(unit_row(keys, at).piece(lane), key);
    store_16(unit_row(values, at).piece(lane), value);
    finite = finite & is_finite(value.x) & is_finite(value.y) & is_finite(value.z) & is_finite(value.w);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // for the products
  return meet_all(finite);
}
