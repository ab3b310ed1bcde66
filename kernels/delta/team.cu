// Walk 1 to 32 rows through the gated delta rule as walk.cu does, by two kinds of warps.
//
// WARPS of a block walk: as many tiles of one head, one on each scheduler, nothing of a row but the
// arithmetic of its state. FINISHERS bring the rows, which all share, and finish them behind: k.q and
// the output, the head's norm, the gate. They use what the walk leaves of the schedulers, so that little
// is left to do when it ends. The blocks of a head are a cluster. The sums have the order of walk.cu and
// walk_gate.cuh: the bits are theirs.
#include "../common/launch_order.cuh"
#include "team_finish.cuh"
#include "team_walk.cuh"
#include "walk_arguments.cuh"

// Dynamic shared memory of a block begins with this. Behind it stand the tiles that its warps keep,
// [WARPS, slots, KEYS, 32], and the rows of the call.
struct Shared {
  alignas(16) Barrier came[COPIES];
  Barrier walked[CHUNKS];
  Told told;
  Gates gates[MAX_ROWS];
  Walked found[MAX_ROWS];
  PendingRow pending[MAX_ROWS];
};

static_assert(sizeof(Shared) == HELD_BYTES && sizeof(WalkedRow) == ROW_BYTES, "team.py counts a block's memory otherwise");

// Ask for the rows of the call: a warp for every fourth.
__device__ __forceinline__ void fetch_rows(WalkedRow* to, Gates* gates, Barrier* came, const Walk& p, int half,
                                           const Share& at, int lane) {
  const float* const k = p.record.k + (static_cast<size_t>(half) * p.key_heads + at.key_head) * KEY_DIM + lane * 4;
  const float* const q = p.q + at.key_head * KEY_DIM + lane * 4;
  const __nv_bfloat16* const v = p.v + at.head * VALUE_DIM + at.first + lane * 8;
  const auto fetch = [&](int row) {
    copy_16_if(lane < KEY_DIM / 4, shared_address(to[row].k + lane * 4), k + row * (p.key_heads * KEY_DIM));
    copy_16_if(lane < KEY_DIM / 4, shared_address(to[row].q + lane * 4), q + row * (p.key_heads * KEY_DIM));
    copy_16_if(lane < BLOCK_COLUMNS / 8, shared_address(to[row].v + lane * 8), v + row * (p.value_heads * VALUE_DIM));
  };
  if (at.warp == 0 && lane < p.rows) copy_4(shared_address(&gates[lane].decay), p.record.decay + (half + lane) * p.value_heads + at.head);
  if (at.warp == 1 && lane < p.rows) copy_4(shared_address(&gates[lane].beta), p.beta + lane * p.value_heads + at.head);
  int row = at.warp;
#pragma unroll
  for (; row < FIRST_ROWS; row += FINISHERS)
    if (row < p.rows) fetch(row);
  arrive_with_copies(came[FIRST]);
#pragma unroll 1
  for (; row < p.rows; row += FINISHERS) fetch(row);
  arrive_with_copies(came[REST]);
}

__device__ __forceinline__ void finish(Shared& shared, WalkedRow* rows, const Walk& p, const Share& share, int lane) {
  const int half = *p.record.parity * MAX_ROWS, pending = *p.record.num_pending, pending_row = p.record.pending_rows[lane];
  fetch_pending(shared.pending, shared.came[PENDING], p.record, MAX_ROWS - half, pending, pending_row, p.key_heads,
                p.value_heads, share, lane);
  if (p.overlap) await_predecessor();
  fetch_rows(rows, shared.gates, shared.came, p, half, share, lane);
  const int step = p.value_heads * VALUE_DIM, first = share.head * VALUE_DIM + share.first;
  const Finish to = {p.gate, p.record.u + static_cast<size_t>(half) * step + first, p.out + first, p.rows, step};
  finish_rows(to, shared.found, shared.walked, shared.told, shared.came, rows, share, lane);
}

// Hand what a row changed to those who finish it, and say so behind the last of a chunk.
__device__ __forceinline__ void hand_over(Shared& shared, int row, const Changed& changed, bool ends_chunk,
                                          const Place& at, int first, int lane) {
  const bool tells_u = at.sharer < COLUMNS;
  (tells_u ? shared.found[row].u : shared.found[row].asked)[at.own - first] = tells_u ? changed.u : changed.asked;
  __syncwarp();
  arrive_if(ends_chunk && lane == 0, shared.walked[row / CHUNK]);
}

__device__ __forceinline__ void walk(Shared& shared, Values* kept, const WalkedRow* rows, const Walk& p, const Place& at,
                                     int first, int lane) {
  const int parity = *p.record.parity, pending = *p.record.num_pending;
  const int pending_row = p.record.pending_rows[lane], save = p.saves[lane], restore = p.restores[lane];
  Tile s;
  load_tile(s, p.state, at);
  meet_block();
  if (pending > 0) {
    const int other = MAX_ROWS - parity * MAX_ROWS;
    const float decays = lane < pending ? p.record.decay[(other + pending_row) * p.value_heads + at.head] : 0.0f;
    wait_at(shared.came[PENDING]);
    fold(s, shared.pending, pending, decays, at, first);
    store_tile(s, p.state, at);
  }

  // restored: behind a row, for the next one; tables say nothing of rows that there are not
  const unsigned saved = __ballot_sync(ALL, lane < p.rows && save >= 0);
  const unsigned restored = __ballot_sync(ALL, lane < p.rows && restore >= 0) >> 1;
  const unsigned stops = saved | restored | 1u << (FIRST_ROWS - 1);  // rows behind which there is more to do
  const int last = p.rows - 1;
  Asked row;
  wait_at(shared.came[FIRST]);
  int i = 0;
  while (true) {
    begin(row, s, rows[i], shared.gates[i], at, first);
    const int end = min(last, i - 1 + __ffs(stops >> i | 1u << 31));
#pragma unroll 1
    for (; i < end; ++i) {
      const Changed changed = ask(row, s, at);
      hand_over(shared, i, changed, i % CHUNK == CHUNK - 1, at, first, lane);
      write(s, row.k, changed, lane);
      begin(row, s, rows[i + 1], shared.gates[i + 1], at, first);
    }
    const Changed changed = ask(row, s, at);
    hand_over(shared, i, changed, i == last || i % CHUNK == CHUNK - 1, at, first, lane);
    if (i == last) break;
    write(s, row.k, changed, lane);
    if (saved >> i & 1) keep(kept_part(kept, __shfl_sync(ALL, save, i), lane), s);
    if (restored >> i & 1) recall(s, kept_part(kept, __shfl_sync(ALL, restore, i + 1), lane));
    if (++i == FIRST_ROWS) wait_at(shared.came[REST]);
  }
  if constexpr (CLUSTERED) meet_cluster();
}

extern "C" __global__ void __launch_bounds__(32 * (WARPS + FINISHERS), 1) delta_walk_team(const __grid_constant__ Walk p) {
  extern __shared__ Shared shared_of_block[];
  Shared& shared = *shared_of_block;
  // a warp's number comes from one lane: so the compiler sees that its lanes never part
  const int lane = threadIdx.x % 32, warp = __shfl_sync(ALL, threadIdx.x / 32, 0);
  const int head = blockIdx.x / BLOCKS, first = blockIdx.x % BLOCKS * BLOCK_COLUMNS;
  Values* const tiles = reinterpret_cast<Values*>(shared_of_block + 1);
  WalkedRow* const rows = reinterpret_cast<WalkedRow*>(tiles + WARPS * p.slots * KEYS * 32);
  let_successor_start();
  if (warp == WARPS) {
    set_up_told(shared.told, p.rows, lane);
    if (lane < COPIES) set_up_barrier(shared.came[lane], 32 * FINISHERS);
    if (lane < CHUNKS) set_up_barrier(shared.walked[lane], WARPS);
    __syncwarp();
  }
  if constexpr (CLUSTERED) arrive_at_cluster();
  if (warp >= WARPS) {
    meet_block();
    finish(shared, rows, p, {head, head / (p.value_heads / p.key_heads), first, warp - WARPS}, lane);
  } else {
    const Place at = place_of(blockIdx.x * WARPS + warp, lane, p.value_heads / p.key_heads);
    walk(shared, tiles + warp * p.slots * KEYS * 32, rows, p, at, first, lane);
  }
}
