// Walk 1 to 32 rows through the gated delta rule, the accepted rows of the last round folded in first.
//
// A warp keeps some columns of one head's state in registers, and every row passes through them in
// order: u = beta (v - decay S'k), o = decay S'q + (k.q) u, S <- decay S + k u'. So S is read and
// written once in memory however many rows there are. A tree's rows stand depth-first; the state
// behind a branch is kept in shared memory until its last child begins.
//
// The order of every sum is fixed by the layout: a lane adds its keys in two chains (even and odd
// keys), then the chains, then the eight lanes of a column by exchanges over 1, 2 and 4 lanes.
//
// With a gate the blocks of a head, of WARPS warps, are a cluster: outputs wait in shared memory
// until the head's mean square is known (walk_gate.cuh).
#include "../common/launch_order.cuh"
#include "walk_arguments.cuh"
#include "walk_fold.cuh"
#include "walk_gate.cuh"
#include "walk_row.cuh"

// Where a lane finds its 16 bytes of the row to be asked for next, and where it leaves them.
struct RowCopies {
  const float *k, *q;
  const __nv_bfloat16* v;
  unsigned ring;
};

__device__ __forceinline__ RowCopies copies_of(RowSlot* ring, const Walk& p, int half, const Place& at, int lane) {
  const int key = at.key_head * KEY_DIM + lane % (KEY_DIM / 4) * 4;
  return {p.record.k + static_cast<size_t>(half) * p.key_heads * KEY_DIM + key, p.q + key,
          p.v + at.head * VALUE_DIM + at.first_column + lane % (TILE_COLUMNS / 8) * 8,
          shared_address(ring) + lane * 16};
}

__device__ __forceinline__ void fetch_row(RowCopies& from, const Walk& p, int index, int lane) {
  const unsigned slot = from.ring + index % STAGES * sizeof(RowSlot);
  const bool exists = index < p.rows;
  copy_16_if(exists && lane < KEY_DIM / 4, slot, from.k);
  copy_16_if(exists && lane < KEY_DIM / 4, slot + sizeof(float) * KEY_DIM, from.q);
  copy_16_if(exists && lane < TILE_COLUMNS / 8, slot + 2 * sizeof(float) * KEY_DIM, from.v);
  end_group();
  from.k += p.key_heads * KEY_DIM;
  from.q += p.key_heads * KEY_DIM;
  from.v += p.value_heads * VALUE_DIM;
}

__device__ __forceinline__ void take_row(Row& row, const RowSlot* ring, int index, const Place& at) {
  const RowSlot& slot = ring[index % STAGES];
  load_keys(row.k, slot.k, at);
  load_keys(row.q, slot.q, at);
  row.v = slot.v[at.own - at.first_column];
}

// Dynamic shared memory of a block: rings [WARPS], for a gate parts [WARPS] and the head, and the
// tiles that its warps keep, [WARPS, slots, KEYS, 32].
static_assert(WARPS * sizeof(Rings) + (GATED ? WARPS * sizeof(Part) + sizeof(Head) : 0) == HELD_BYTES,
              "tile.py counts a block's memory otherwise");

// Warps share nothing before the gate.
extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT / WARPS) delta_walk(const __grid_constant__ Walk p) {
  extern __shared__ Rings rings_of_all[];
  Part* const parts = reinterpret_cast<Part*>(rings_of_all + WARPS);
  Head& head = *reinterpret_cast<Head*>(parts + WARPS);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Values* const kept = reinterpret_cast<Values*>(reinterpret_cast<char*>(rings_of_all) + HELD_BYTES) +
                       warp * p.slots * KEYS * 32;
  Rings& rings = rings_of_all[warp];
  Part& own = parts[warp];
  const Place at = place_of(blockIdx.x * WARPS + warp, lane, p.value_heads / p.key_heads);
  let_successor_start();
  if constexpr (GATED) set_up_gate(head, p.rows);

  // all of this is older than the predecessor
  const int parity = *p.record.parity, pending = *p.record.num_pending;
  const int pending_row = p.record.pending_rows[lane], save = p.saves[lane], restore = p.restores[lane];
  float weight[COLUMNS];
  load_weight(weight, p.gate, at);
  Tile s;
  load_tile(s, p.state, at);
  const int half = parity * MAX_ROWS;
  const Pending rest{p.record, MAX_ROWS - half, pending, pending_row, p.key_heads, p.value_heads};
  const PendingCopies pending_from = copies_of(rings.pending, rest, at, lane);
  fetch_first_pending(pending_from, rest, lane);
  RowCopies rows_from = copies_of(rings.rows, p, half, at, lane);
  float betas = 0.0f, decays = 0.0f;
  const auto ask_for_rows = [&] {
    fetch_gate(own, p.gate, p.rows, at, lane);
    for (int i = 0; i < AHEAD; ++i) fetch_row(rows_from, p, i, lane);
    if (lane < p.rows) {
      betas = p.beta[lane * p.value_heads + at.head];
      decays = p.record.decay[(half + lane) * p.value_heads + at.head];
    }
  };
  if (!p.overlap) ask_for_rows();
  if (pending > 0) {
    fold(s, rings.pending, pending_from, rest, at, lane);
    store_tile(s, p.state, at);
  }
  if (p.overlap) {
    await_predecessor();
    ask_for_rows();
  }

  const unsigned saved = __ballot_sync(ALL, save >= 0), restored = __ballot_sync(ALL, restore >= 0);
  const int value = at.head * VALUE_DIM + at.own, step = p.value_heads * VALUE_DIM;
  RowOutputs to = {p.record.u + static_cast<size_t>(half) * step + value, p.out + value, step, step};
  if constexpr (GATED) to.out = own.outputs + at.own - at.first_column, to.out_step = TILE_COLUMNS;
  Row row;
  wait_for_groups<AHEAD - 1>();
  take_row(row, rings.rows, 0, at);
  const int last = p.rows - 1;
#pragma unroll 1
  for (int i = 0; i < last; ++i) {
    const float decay = __shfl_sync(ALL, decays, i), beta = __shfl_sync(ALL, betas, i);
    if (restored >> i & 1) recall(s, kept_part(kept, __shfl_sync(ALL, restore, i), lane));
    fetch_row(rows_from, p, i + AHEAD, lane);
    Found found;
    find(found, s, row, at.sharer);
    const float own = change(found, row, decay, beta);
    float u[COLUMNS];
    spread(u, own, lane);
    wait_for_groups<AHEAD - 1>();
    advance(s, decay, row.k, u);
    take_row(row, rings.rows, i + 1, at);
    write_row(to, at.sharer < COLUMNS, own, answer(found, own, decay));
    if (saved >> i & 1) keep(kept_part(kept, __shfl_sync(ALL, save, i), lane), s);
  }
  // behind the last row nothing asks for the state
  if (restored >> last & 1) recall(s, kept_part(kept, __shfl_sync(ALL, restore, last), lane));
  Found found;
  find(found, s, row, at.sharer);
  const float decay = __shfl_sync(ALL, decays, last), u = change(found, row, decay, __shfl_sync(ALL, betas, last));
  write_row(to, at.sharer < COLUMNS, u, answer(found, u, decay));
  if constexpr (GATED) write_gated(p.out, head, own, p.gate, weight, p.rows, p.value_heads, at, lane);
}

// `FoldArguments` of walk_launch.py. Pointers are those of layer 0; layers follow one another.
struct Fold {
  float* state;
  Record record;
  int key_heads, value_heads;
};

extern "C" __global__ void __launch_bounds__(32) delta_fold(const __grid_constant__ Fold p) {
  __shared__ PendingSlot ring[STAGES];
  const int tiles = p.value_heads * TILES, layer = blockIdx.x / tiles, lane = threadIdx.x;
  const Place at = place_of(blockIdx.x % tiles, lane, p.value_heads / p.key_heads);
  const int pending = *p.record.num_pending, half = (1 - *p.record.parity) * MAX_ROWS;
  if (pending == 0) return;
  const size_t rows = static_cast<size_t>(layer) * 2 * MAX_ROWS;
  Pending rest{p.record, half, pending, p.record.pending_rows[lane], p.key_heads, p.value_heads};
  rest.record.k += rows * p.key_heads * KEY_DIM;
  rest.record.u += rows * p.value_heads * VALUE_DIM;
  rest.record.decay += rows * p.value_heads;
  float* const state = p.state + static_cast<size_t>(layer) * p.value_heads * KEY_DIM * VALUE_DIM;
  Tile s;
  load_tile(s, state, at);
  const PendingCopies from = copies_of(ring, rest, at, lane);
  fetch_first_pending(from, rest, lane);
  fold(s, ring, from, rest, at, lane);
  store_tile(s, state, at);
}
