// Convolve the rows of a verify and multiply their a | b, in one launch of two kinds of blocks.
//
// A warp convolves a query, a key or a head's values of one row. A block of the other kind, which come
// first, multiplies the a and b of two heads for four rows: so a weight is read once for four rows.
#include "rows_gates.cuh"

struct Window {
  uint2 at[WINDOW];  // oldest first
};

// Load what of the window is older than this call: pending rows, or those of the tail.
__device__ __forceinline__ void load_before(Window& window, int (&places)[WINDOW - 1], const Conv& p, int half_read,
                                            int row, int channel, int lane) {
  const int pending = *p.num_pending, pending_row = p.pending_rows[lane], parent = p.parents[lane];
  const size_t width = width_of(p);
  int place = row;  // from 0 on of this call, -1 the newest before
#pragma unroll
  for (int age = 0; age < WINDOW - 1; ++age) {
    const int follows = __shfl_sync(ALL, parent, place & 31);
    place = place >= 0 ? follows : place - 1;
    places[age] = place;
    const int at = pending + place, last_row = __shfl_sync(ALL, pending_row, at & 31);
    const __nv_bfloat16* const from = at >= 0 ? p.raw + (half_read + last_row) * width
                                              : p.tails + (half_read / MAX_ROWS * 3 + 3 + at) * width;
    if (place < 0) window.at[WINDOW - 2 - age] = load_halves(from + channel);
  }
}

// Keep the row as it came; with row 0 the tail before it.
__device__ __forceinline__ void record(const Window& window, const Conv& p, int half, int row, int channel) {
  const size_t width = width_of(p);
  *reinterpret_cast<uint2*>(p.raw + (half + row) * width + channel) = window.at[WINDOW - 1];
  if (row > 0) return;
#pragma unroll
  for (int i = 0; i < WINDOW - 1; ++i)
    *reinterpret_cast<uint2*>(p.tails + (half / MAX_ROWS * 3 + i) * width + channel) = window.at[i];
}

// Convolve vector `index` of all rows: a warp.
__device__ __forceinline__ void convolve(const Conv& p, int index, int lane) {
  const int vectors = 2 * p.key_heads + p.value_heads, row = index / vectors, vector = index % vectors;
  if (row >= p.rows) return;
  const int half = *p.parity * MAX_ROWS, channel = vector * HEAD_DIM + lane * CHANNELS;
  const uint4* const taps_from = reinterpret_cast<const uint4*>(p.taps + channel * WINDOW);
  const uint4 taps[2] = {taps_from[0], taps_from[1]};
  Window window;
  int places[WINDOW - 1];
  load_before(window, places, p, MAX_ROWS - half, row, channel, lane);

  asm volatile("griddepcontrol.wait;" ::: "memory");
  window.at[WINDOW - 1] = load_halves(p.x + row * p.x_stride + channel);
#pragma unroll
  for (int age = 0; age < WINDOW - 1; ++age)
    if (places[age] >= 0) window.at[WINDOW - 2 - age] = load_halves(p.x + places[age] * p.x_stride + channel);
  record(window, p, half, row, channel);
  float y[CHANNELS];
  convolve_channels(y, window.at, taps);
  if (vector >= 2 * p.key_heads) {
    const int head = vector - 2 * p.key_heads;
    store_halves(p.v + (row * p.value_heads + head) * HEAD_DIM + lane * CHANNELS, y);
    return;
  }
  const float scale = inverse_length(y);
  float4 unit = {__fmul_rn(y[0], scale), __fmul_rn(y[1], scale), __fmul_rn(y[2], scale), __fmul_rn(y[3], scale)};
  if (vector < p.key_heads) {
    unit = {__fmul_rn(unit.x, QUERY_LENGTH), __fmul_rn(unit.y, QUERY_LENGTH), __fmul_rn(unit.z, QUERY_LENGTH),
            __fmul_rn(unit.w, QUERY_LENGTH)};
    *reinterpret_cast<float4*>(p.q + (row * p.key_heads + vector) * HEAD_DIM + lane * CHANNELS) = unit;
  } else {
    const int head = vector - p.key_heads;
    *reinterpret_cast<float4*>(p.k + ((half + row) * p.key_heads + head) * HEAD_DIM + lane * CHANNELS) = unit;
  }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 3) conv_rows(const __grid_constant__ Conv p) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  const int gate_blocks = (p.value_heads + TILE_HEADS - 1) / TILE_HEADS * ((p.rows + TILE_ROWS - 1) / TILE_ROWS);
  const int block = blockIdx.x;
  if (block < gate_blocks) return multiply_gates(p, block, threadIdx.x);
  const int warp = __shfl_sync(ALL, threadIdx.x / 32, 0);
  convolve(p, (block - gate_blocks) * WARPS + warp, threadIdx.x % 32);
}
