// Take 1 to 3 rows from the fused product through convolution, gates, delta rule and norm, in one launch.
//
// A block has WARPS tiles of one head's state, a warp each, and needs that head's key, query and
// gates whole. So it convolves them itself, and heads that share a key do so again: 2 KB of a row
// from the cache, in the place of a kernel's end, its successor's start and a trip to memory. Its
// warps of tiles convolve, its GATE_WARPS have multiplied a | b, whose rows are older than the fused
// product; they meet where a row's change of the state is due. Where GATED, the blocks of a head are a
// cluster, which norms and gates what its rows put out.
//
// Every sum has the order, and every rounding the place, that conv_gates (kernels/conv) and
// delta_walk (kernels/delta) give it: the bits are theirs.
#include "../common/launch_order.cuh"
#include "mixer_vector.cuh"
#include "mixer_gates.cuh"
#include "../delta/walk_fold.cuh"
#include "../delta/walk_row.cuh"

// What a warp holds: pending rows on their way, and once they are folded, states behind branches.
union Own {
  PendingSlot pending[STAGES];
  Values kept[KEPT > 0 ? KEPT : 1][KEPT > 0 ? KEYS : 1][32];
};

// What a block holds.
struct Shared {
  Own own[WARPS];
  float q[ROWS][KEY_DIM], k[ROWS][KEY_DIM];
  __nv_bfloat16 v[ROWS][WARPS * TILE_COLUMNS];
  Gates gates;
  Part parts[GATED ? WARPS : 1];
  Head head;
};

enum Barrier { ROWS_CONVOLVED = 1, SUMS_ADDED, GATES_MADE };

// Convolve what tasks of this warp are left to do, into shared memory and the record.
__device__ __forceinline__ void convolve(Shared& shared, const Mixer& p, const Vector (&vectors)[TASKS], int half) {
#pragma unroll
  for (int i = 0; i < TASKS; ++i) {
    const Vector& one = vectors[i];
    if (one.row >= ROWS) continue;
    float y[CHANNELS];
    convolve_channels(y, one.window, one.taps);
    const int within = threadIdx.x % 32 * CHANNELS;
    if (one.part == VALUE) {
      if (one.is_mine) store_halves(&shared.v[one.row][within], y);
    } else {
      const float scale = inverse_length(y);
      float4 unit = {__fmul_rn(y[0], scale), __fmul_rn(y[1], scale), __fmul_rn(y[2], scale), __fmul_rn(y[3], scale)};
      if (one.part == KEY) {
        *reinterpret_cast<float4*>(&shared.k[one.row][within]) = unit;
        if (one.is_mine) *reinterpret_cast<float4*>(p.record.k + key_place(p, half, one)) = unit;
      } else {
        unit = {__fmul_rn(unit.x, QUERY_LENGTH), __fmul_rn(unit.y, QUERY_LENGTH), __fmul_rn(unit.z, QUERY_LENGTH),
                __fmul_rn(unit.w, QUERY_LENGTH)};
        *reinterpret_cast<float4*>(&shared.q[one.row][within]) = unit;
      }
    }
    if (one.is_mine) record_window(p, half, one);
  }
}

__device__ __forceinline__ void walk_rows(Shared& shared, const Mixer& p, Tile& s, const Place& at, int half, int save,
                                          int restore) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int value = at.head * VALUE_DIM + at.own, step = p.value_heads * VALUE_DIM;
  RowOutputs to = {p.record.u + static_cast<size_t>(half) * step + value, p.out + value, step, step};
  if constexpr (GATED) {
    to.out = shared.parts[warp].outputs + at.own - at.first_column;
    to.out_step = TILE_COLUMNS;
  }
#pragma unroll 1
  for (int i = 0; i < ROWS; ++i) {
    Row row;
    load_keys(row.k, shared.k[i], at);
    load_keys(row.q, shared.q[i], at);
    row.v = shared.v[i][at.own % (WARPS * TILE_COLUMNS)];
    if constexpr (KEPT > 0) {
      const int from = __shfl_sync(ALL, restore, i);
      if (from >= 0) recall(s, &shared.own[warp].kept[from][0][lane]);
    }
    Found found;
    find(found, s, row, at.sharer);
    if (i == 0) meet<GATES_MADE, 32 * (WARPS + GATE_WARPS)>();
    const float decay = shared.gates.decay[i], u = change(found, row, decay, shared.gates.beta[i]);
    if (i + 1 < ROWS) {  // behind the last row nothing asks for the state
      float all[COLUMNS];
      spread(all, u, lane);
      advance(s, decay, row.k, all);
    }
    write_row(to, at.sharer < COLUMNS, u, answer(found, u, decay));
    if constexpr (KEPT > 0) {
      const int into = __shfl_sync(ALL, save, i);
      if (into >= 0) keep(&shared.own[warp].kept[into][0][lane], s);
    }
  }
}

extern "C" __global__ void __launch_bounds__(32 * (WARPS + GATE_WARPS), 1) mixer_rows(const __grid_constant__ Mixer p) {
  __shared__ Shared shared;
  // a warp's number comes from one lane: so the compiler sees that its lanes never part
  const int lane = threadIdx.x % 32, warp = __shfl_sync(ALL, threadIdx.x / 32, 0);
  const int head = blockIdx.x / BLOCKS, first_tile = blockIdx.x % BLOCKS * WARPS;
  let_successor_start();
  if constexpr (GATED) set_up_gate(shared.head, ROWS);
  const int half = *p.record.parity * MAX_ROWS;
  if (warp >= WARPS) {
    const int thread = threadIdx.x - 32 * WARPS;
    const float rate = p.decay_rate[head], bias = p.dt_bias[head];
    uint2 a[STEPS], b[STEPS];
    load_share(a, p.gates_weight + head * p.weight_stride, thread);
    load_share(b, p.gates_weight + (p.value_heads + head) * p.weight_stride, thread);
    sum_gates(shared.gates, p, a, b, thread);
    meet<SUMS_ADDED, 32 * GATE_WARPS>();
    make_gates(shared.gates, p, head, half, first_tile == 0, rate, bias, thread);
    arrive<GATES_MADE, 32 * (WARPS + GATE_WARPS)>();
    if constexpr (GATED) meet_cluster();  // who arrives at a cluster's barrier waits there before it ends
    return;
  }

  // all of this is older than the predecessor
  const Place at = place_of(head * TILES + first_tile + warp, lane, p.value_heads / p.key_heads);
  const int pending = *p.record.num_pending, pending_row = p.record.pending_rows[lane], parent = p.parents[lane];
  const int save = p.saves[lane], restore = p.restores[lane];
  float weight[COLUMNS];
  load_weight(weight, p.gate, at);
  Vector vectors[TASKS];
#pragma unroll
  for (int i = 0; i < TASKS; ++i) load_taps(vectors[i], p, warp + i * WARPS, head, first_tile * TILE_COLUMNS, lane);
  Tile s;
  load_tile(s, p.state, at);
  const Pending rest{p.record, MAX_ROWS - half, pending, pending_row, p.key_heads, p.value_heads};
  const PendingCopies pending_from = copies_of(shared.own[warp].pending, rest, at, lane);
  fetch_first_pending(pending_from, rest, lane);
#pragma unroll
  for (int i = 0; i < TASKS; ++i) load_rows_before(vectors[i], p, MAX_ROWS - half, pending, pending_row, parent);

  await_predecessor();
#pragma unroll
  for (int i = 0; i < TASKS; ++i) load_rows(vectors[i], p);
  fetch_gate(shared.parts[GATED ? warp : 0], p.gate, ROWS, at, lane);
  if (pending > 0) {
    fold(s, shared.own[warp].pending, pending_from, rest, at, lane);
    store_tile(s, p.state, at);
  }
  convolve(shared, p, vectors, half);
  meet<ROWS_CONVOLVED, 32 * WARPS>();
  walk_rows(shared, p, s, at, half, save, restore);
  if constexpr (GATED) {
    end_group();
    wait_for_groups<0>();
    write_gated(p.out, shared.head, shared.parts[warp], p.gate, weight, ROWS, p.value_heads, at, lane);
  }
}
