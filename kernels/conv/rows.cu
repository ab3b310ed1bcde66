// Convolve the rows of a verify and multiply their a | b, in one launch of two kinds of blocks.
//
// Blocks of the first kind multiply (rows_gates.cuh), beside the product before. A warp of the others, which
// follow them, convolves a query, a key or a head's values of some rows. They are as small as what a product of
// many rows leaves of a multiprocessor, and few enough to be there, with all that is older, when it ends.
#include "../common/launch_order.cuh"
#include "rows_gates.cuh"

__device__ __forceinline__ size_t width_of(const Conv& p) { return (2 * p.key_heads + p.value_heads) * HEAD_DIM; }

// Where a lane's piece of all windows lies: lane 4 r + i has that of row r and of tap i, oldest first.
struct Source {
  const __nv_bfloat16* from;
  bool is_old;  // it is older than this call: a pending row, or one of the tail
};

__device__ __forceinline__ Source source_of(const Conv& p, int half_read, int vector, int first, int lane) {
  const int pending = *p.num_pending, pending_row = p.pending_rows[lane], parent = p.parents[lane];
  const int age = WINDOW - 1 - lane % WINDOW;
  int place = min(first + lane / WINDOW, p.rows - 1);  // from 0 on of this call, -1 the newest before
#pragma unroll
  for (int steps = 0; steps < WINDOW - 1; ++steps) {
    const int follows = __shfl_sync(ALL, parent, place & 31);
    if (steps < age) place = place >= 0 ? follows : place - 1;
  }
  const int at = pending + place, last_row = __shfl_sync(ALL, pending_row, at & 31);
  const __nv_bfloat16* const row = place >= 0 ? p.x + place * p.x_stride
                                   : at >= 0  ? p.raw + (half_read + last_row) * width_of(p)
                                              : p.tails + (half_read / MAX_ROWS * 3 + 3 + at) * width_of(p);
  return {row + vector * HEAD_DIM, place < 0};
}

// Ask for the pieces that are old, or for the others: half a warp for each.
__device__ __forceinline__ void fetch(Piece* pieces, const Source& source, bool old, int count, int lane) {
  const unsigned wanted = __ballot_sync(ALL, source.is_old == old);
#pragma unroll 1
  for (int i = lane / 16; i < count; i += 2) {
    const auto* const from = reinterpret_cast<const __nv_bfloat16*>(
        __shfl_sync(ALL, reinterpret_cast<unsigned long long>(source.from), i));
    copy_16_if(wanted >> i & 1, shared_address(&pieces[i].at[lane % 16 * 2]), from + lane % 16 * 8);
  }
}

// Write what a row's channels became: values as they are, keys of length one, queries of theirs.
__device__ __forceinline__ void store_vector(const Conv& p, const float (&y)[CHANNELS], int vector, int half, int row,
                                             int lane) {
  const int head = vector < p.key_heads ? vector : vector - p.key_heads, within = lane * CHANNELS;
  if (head >= p.key_heads) {
    store_halves(p.v + (row * p.value_heads + head - p.key_heads) * HEAD_DIM + within, y);
    return;
  }
  const float scale = inverse_length(y);
  float4 unit = {__fmul_rn(y[0], scale), __fmul_rn(y[1], scale), __fmul_rn(y[2], scale), __fmul_rn(y[3], scale)};
  float* to = p.k + ((half + row) * p.key_heads + head) * HEAD_DIM + within;
  if (vector < p.key_heads) {
    unit = {__fmul_rn(unit.x, QUERY_LENGTH), __fmul_rn(unit.y, QUERY_LENGTH), __fmul_rn(unit.z, QUERY_LENGTH),
            __fmul_rn(unit.w, QUERY_LENGTH)};
    to = p.q + (row * p.key_heads + head) * HEAD_DIM + within;
  }
  *reinterpret_cast<float4*>(to) = unit;
}

// Convolve one vector of p.each rows from `first` on: a warp.
__device__ __forceinline__ void convolve(const Conv& p, Piece* pieces, int vector, int first, int lane) {
  const int half = *p.parity * MAX_ROWS, channel = vector * HEAD_DIM + lane * CHANNELS;
  const uint4* const taps_from = reinterpret_cast<const uint4*>(p.taps + channel * WINDOW);
  const uint4 taps[2] = {taps_from[0], taps_from[1]};
  const Source source = source_of(p, MAX_ROWS - half, vector, first, lane);
  fetch(pieces, source, true, p.each * WINDOW, lane);
  await_predecessor();
  fetch(pieces, source, false, p.each * WINDOW, lane);
  end_group();
  wait_for_groups<0>();
  const int behind = min(first + p.each, p.rows);
#pragma unroll 1
  for (int row = first; row < behind; ++row, pieces += WINDOW) {
    uint2 window[WINDOW];
#pragma unroll
    for (int i = 0; i < WINDOW; ++i) window[i] = pieces[i].at[lane];
    float y[CHANNELS];
    convolve_channels(y, window, taps);
    store_vector(p, y, vector, half, row, lane);
    // keep the row as it came; with row 0 the tail before it
    *reinterpret_cast<uint2*>(p.raw + (half + row) * width_of(p) + channel) = window[WINDOW - 1];
    if (row > 0) continue;
#pragma unroll
    for (int i = 0; i < WINDOW - 1; ++i)
      *reinterpret_cast<uint2*>(p.tails + (half / MAX_ROWS * 3 + i) * width_of(p) + channel) = window[i];
  }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 8) conv_rows(const __grid_constant__ Conv p) {
  extern __shared__ __align__(16) unsigned char shared[];  // steps under way of each warp, or its windows
  let_successor_start();
  const int gate_blocks = (p.rows + TILE_ROWS - 1) / TILE_ROWS * p.value_heads, block = blockIdx.x;
  const int lane = threadIdx.x % 32, warp = __shfl_sync(ALL, threadIdx.x / 32, 0);
  if (block < gate_blocks) return make_gates(p, reinterpret_cast<Step*>(shared), block, threadIdx.x, warp);
  const int vectors = 2 * p.key_heads + p.value_heads, index = (block - gate_blocks) * WARPS + warp;
  const int vector = index % vectors, first = index / vectors * p.each;
  if (first < p.rows) convolve(p, reinterpret_cast<Piece*>(shared) + warp * p.each * WINDOW, vector, first, lane);
}
