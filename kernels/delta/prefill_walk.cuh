// What every walk over chunks is told, what its blocks hold, and how rows come in and go out.
#pragma once

#include "../common/launch_order.cuh"
#include "prefill_products.cuh"

// `PrefillWalk` of prefill_launch.py has the same fields in the same order.
struct Walk {
  const __nv_bfloat16* q;         // [T, G, 128]
  const __nv_bfloat16* k;         // [T, G, 128]
  const __nv_bfloat16* v;         // [T, H, 128]
  const Prepared* prepared;       // [H, chunks]
  float* state;                   // [H, 128, 128]
  __nv_bfloat16* out;             // [T, H, 128]
  long long q_row, q_head, k_row, k_head, v_row, v_head, state_head, out_row, out_head;  // elements
  int rows, chunks, heads_a_key;
};

using Barrier = unsigned long long;

constexpr int COLUMNS = 16;  // of a warp
constexpr int WARPS = VALUES / COLUMNS, THREADS = 32 * WARPS;
constexpr int TILES = WIDTH / 8, TOKEN_TILES = CHUNK / 8, STEPS = WIDTH / SIDE;

struct alignas(1024) Rows { __nv_bfloat16 rows[CHUNK][WIDTH]; };
struct alignas(128) Values { __nv_bfloat16 rows[CHUNK][VALUES]; };

struct Shared {
  Rows k[2];
  Rows q[BUFFERS];
  Values v[BUFFERS];  // values, then outputs
  Prepared prepared[BUFFERS];
  Barrier came[BUFFERS];
};

static_assert(sizeof(Shared) == SHARED_BYTES, "prefill_tile.py counts a block's memory otherwise");

// By the thread that asks for copies: it may do so at once, and who waits has met it before.
__device__ __forceinline__ void set_up_barriers(Shared& shared) {
  if (threadIdx.x != 0) return;
#pragma unroll
  for (int i = 0; i < BUFFERS; ++i) set_up_barrier(shared_address(&shared.came[i]), 1);
  show_barriers();
}

// Where a lane's sums of a warp's columns of a state begin.
__device__ __forceinline__ float* state_of(const Walk& p, int head, int column, int warp, int lane) {
  return p.state + head * p.state_head + lane % 4 * 2 * WIDTH + column + warp * COLUMNS + lane / 4;
}

__device__ __forceinline__ void load_state(Sums (&state)[TILES], const float* own) {
#pragma unroll
  for (int i = 0; i < TILES; ++i)
#pragma unroll
    for (int x = 0; x < 4; ++x) state[i][x] = own[(i * 8 + x % 2) * WIDTH + x / 2 * 8];
}

__device__ __forceinline__ void store_state(float* own, const Sums (&state)[TILES]) {
#pragma unroll
  for (int i = 0; i < TILES; ++i)
#pragma unroll
    for (int x = 0; x < 4; ++x) own[(i * 8 + x % 2) * WIDTH + x / 2 * 8] = state[i][x];
}

__device__ __forceinline__ void copy_keys(Shared& to, const Walk& p, int head, int chunk) {
  const int key = head / p.heads_a_key, first = chunk * CHUNK, rows = p.rows - first;
  const __nv_bfloat16* const k = p.k + key * p.k_head + first * p.k_row;
  const __nv_bfloat16* const q = p.q + key * p.q_head + first * p.q_row;
  copy_rows<WIDTH, THREADS>(shared_address(&to.k[chunk % 2]), k, p.k_row, rows);
  copy_rows<WIDTH, THREADS>(shared_address(&to.q[chunk % BUFFERS]), q, p.q_row, rows);
}

__device__ __forceinline__ void copy_values(Shared& to, const Walk& p, int head, int column, int chunk) {
  const int first = chunk * CHUNK;
  const __nv_bfloat16* const v = p.v + head * p.v_head + column + first * p.v_row;
  copy_rows<VALUES, THREADS>(shared_address(&to.v[chunk % BUFFERS]), v, p.v_row, p.rows - first);
}

__device__ __forceinline__ void copy_prepared(Shared& to, const Walk& p, int head, int chunk) {
  const long long place = static_cast<long long>(head) * p.chunks + chunk;
  const int buffer = chunk % BUFFERS;
  if (threadIdx.x == 0)
    copy_bytes(shared_address(&to.prepared[buffer]), p.prepared + place, sizeof(Prepared),
               shared_address(&to.came[buffer]));
}

// rest of 16 tokens = v - factor met, split.
__device__ __forceinline__ void rest_of(Left& rest, Sums& low, Sums& high, unsigned values, const float* factors,
                                        int block, int warp, int lane) {
  Words v;
  load_transposed(v, values + place_of(block * SIDE + lane / 16 * 8 + lane % 8, 2 * warp + lane / 8 % 2));
  const float2 f = *reinterpret_cast<const float2*>(factors + block * SIDE + lane % 4 * 2);
  const float2 h = *reinterpret_cast<const float2*>(factors + block * SIDE + 8 + lane % 4 * 2);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    low[2 * i] = __fmaf_rn(-f.x, low[2 * i], __uint_as_float(v[i] << 16));
    low[2 * i + 1] = __fmaf_rn(-f.y, low[2 * i + 1], __uint_as_float(v[i] & 0xFFFF0000u));
    high[2 * i] = __fmaf_rn(-h.x, high[2 * i], __uint_as_float(v[2 + i] << 16));
    high[2 * i + 1] = __fmaf_rn(-h.y, high[2 * i + 1], __uint_as_float(v[2 + i] & 0xFFFF0000u));
  }
  split(rest, low, high);
}

// Put a warp's outputs of a chunk where its values were, tokens as rows.
__device__ __forceinline__ void transpose(const Sums (&out)[TOKEN_TILES], unsigned values, int warp, int lane) {
#pragma unroll
  for (int i = 0; i < BLOCKS; ++i) {
    Words o;
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      const Sums& tile = out[2 * i + x / 2];
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(o[x]) : "f"(tile[x % 2 * 2 + 1]), "f"(tile[x % 2 * 2]));
    }
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(values + place_of(i * SIDE + lane / 16 * 8 + lane % 8, 2 * warp + lane / 8 % 2)),
                    "r"(o[0]), "r"(o[1]), "r"(o[2]), "r"(o[3]) : "memory");
  }
  __syncwarp();
}

__device__ __forceinline__ void store_outputs(const Walk& p, unsigned values, int head, int column, int chunk, int warp,
                                              int lane) {
  __nv_bfloat16* const to = p.out + head * p.out_head + column + warp * COLUMNS + lane % 2 * 8;
#pragma unroll
  for (int i = 0; i < BLOCKS; ++i) {
    const int row = i * SIDE + lane / 2;
    uint4 o;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(o.x), "=r"(o.y), "=r"(o.z), "=r"(o.w)
                 : "r"(values + place_of(row, 2 * warp + lane % 2)) : "memory");
    const int at = chunk * CHUNK + row;
    // a predicate and no branch: products go on beside it
    asm volatile("{ .reg .pred live; setp.ne.b32 live, %0, 0; @live st.global.v4.u32 [%1], {%2, %3, %4, %5}; }"
                 :: "r"(static_cast<int>(at < p.rows)), "l"(to + at * p.out_row), "r"(o.x), "r"(o.y), "r"(o.z), "r"(o.w)
                 : "memory");
  }
}
