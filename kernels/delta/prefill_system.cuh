// The triangular system of a chunk (prefill_chunk.cu): where it lies in a block, and how it is solved.
//
// By forward substitution: warp w inverts block w of the diagonal column by column; then warp j finds the
// blocks of X in block column j from the top down, transposed, [tokens j, tokens i] of sums, so that what it
// found is the left operand of what it finds next. No power of lower is formed.
#pragma once

#include "prefill_products.cuh"

constexpr int WARPS = BLOCKS, THREADS = 32 * WARPS;
constexpr int RESIDENT = 3;  // blocks of a multiprocessor, whose registers they share
constexpr int TILES = CHUNK / 8;
constexpr int LINE = SIDE + 4;  // of a block in fp32: rows apart in shared memory
constexpr unsigned ALL = 0xFFFFFFFFu;

struct alignas(128) Rows { __nv_bfloat16 rows[CHUNK][WIDTH]; };
struct alignas(128) Lower { unsigned char blocks[MATRIX_BYTES]; };

struct Raw { Rows k, q; };
struct Systems {
  Lower lower[2], asked[2];           // heads and tails: [i, j] in blocks of [2, 2, 8, 8]
  alignas(16) float diagonal[BLOCKS][SIDE][LINE];
};
struct Shared {
  union { Raw raw; Systems systems; };
  float faded[CHUNK], beta[CHUNK];
  float k_scale[CHUNK], q_scale[CHUNK], kept[CHUNK];
};

static_assert(sizeof(Shared) == SHARED_BYTES, "prefill_tile.py counts a block's memory otherwise");

__device__ __forceinline__ void store_word(unsigned char* to, unsigned word) {
  *reinterpret_cast<unsigned*>(to) = word;
}

// Invert a block of the diagonal: a lane has a column (two lanes the same one). Once row j is final, its
// multiples join the rows below. Written split in place of the block, and whole where the block's columns were.
__device__ __forceinline__ void invert(Shared& shared, int warp, int lane) {
  float (&block)[SIDE][LINE] = shared.systems.diagonal[warp];
  const int column = lane % SIDE;
  float x[SIDE];
#pragma unroll
  for (int i = 0; i < SIDE; ++i) x[i] = i == column ? 1.0f : 0.0f;
#pragma unroll
  for (int j = 0; j < SIDE - 1; ++j)
#pragma unroll
    for (int i = (j + 1) / 4 * 4; i < SIDE; i += 4) {
      const float4 below = *reinterpret_cast<const float4*>(&block[j][i]);
      if (i > j) x[i] = __fmaf_rn(below.x, x[j], x[i]);
      if (i + 1 > j) x[i + 1] = __fmaf_rn(below.y, x[j], x[i + 1]);
      if (i + 2 > j) x[i + 2] = __fmaf_rn(below.z, x[j], x[i + 2]);
      if (i + 3 > j) x[i + 3] = __fmaf_rn(below.w, x[j], x[i + 3]);
    }
  __syncwarp();
  const bool is_tail = lane >= SIDE;
  const int place = block_place(warp, warp) + column / 8 * 128 + column % 8 * 2;
  unsigned char* const to = shared.systems.lower[is_tail].blocks + place;
#pragma unroll
  for (int i = 0; i < SIDE; ++i) {
    const __nv_bfloat16 head = __float2bfloat16_rn(x[i]);
    const __nv_bfloat16 tail = __float2bfloat16_rn(x[i] - __bfloat162float(head));
    *reinterpret_cast<__nv_bfloat16*>(to + i / 8 * 256 + i % 8 * 16) = is_tail ? tail : head;
    if (!is_tail) block[column][i] = x[i];
  }
}

// Three products of two terms each: small ones together, large ones apart.
struct Terms { Sums small[2], large[2]; };

__device__ __forceinline__ void multiply(Terms& to, const Left& left, unsigned heads, unsigned tails) {
  Words head, tail;
  load_matrices(tail, tails);
  load_matrices(head, heads);
  multiply(to.small[0], to.small[1], left.head, tail);
  multiply(to.large[0], to.large[1], left.head, head);
  multiply(to.small[0], to.small[1], left.tail, head);
}

__device__ __forceinline__ void add_up(Sums (&sums)[2], const Terms& terms) {
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int x = 0; x < 4; ++x) sums[n][x] = terms.small[n][x] + terms.large[n][x];
}

// Write a block of a matrix, transposed as it is, rows and columns scaled: heads, then tails.
__device__ __forceinline__ void store_block(unsigned char (&matrix)[2][MATRIX_BYTES], int place, const Sums (&sums)[2],
                                            const float (&of_j)[2], const float2 (&of_i)[2]) {
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      unsigned head, tail;
      split(head, tail, sums[n][2 * r] * of_i[n].x * of_j[r], sums[n][2 * r + 1] * of_i[n].y * of_j[r]);
      const int at = place + (2 * n + r) * 128;
      store_word(matrix[0] + at, head), store_word(matrix[1] + at, tail);
    }
}

// Find a warp's block column of X, and with it those of write and mix.
__device__ __forceinline__ void solve(const Shared& shared, Prepared& to, int j, int lane) {
  const int g = lane / 4, t = lane % 4;
  const Systems& of = shared.systems;
  const unsigned lane_at = lane * 16;
  const unsigned heads = shared_address(&of.lower[0]) + lane_at, tails = shared_address(&of.lower[1]) + lane_at;
  const unsigned asked_heads = shared_address(&of.asked[0]) + lane_at;
  const unsigned asked_tails = shared_address(&of.asked[1]) + lane_at;
  const float of_j[2] = {shared.beta[j * SIDE + g], shared.beta[j * SIDE + g + 8]};
  const float2 whole[2] = {{1.0f, 1.0f}, {1.0f, 1.0f}};
  Left found[BLOCKS];
#pragma unroll
  for (int n = 0; n < BLOCKS; ++n) {
    const int i = j + n;
    if (i >= BLOCKS) break;
    Sums x[2];
    if (n == 0) {
      load_transposed(found[0].head, heads + block_place(j, j));
      load_transposed(found[0].tail, tails + block_place(j, j));
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float2 pair = *reinterpret_cast<const float2*>(&of.diagonal[j][g + 8 * r][half * 8 + 2 * t]);
          x[half][2 * r] = pair.x, x[half][2 * r + 1] = pair.y;
        }
    } else {
      Terms met = {}, terms = {};
#pragma unroll
      for (int m = 0; m < n; ++m) multiply(met, found[m], heads + block_place(i, j + m), tails + block_place(i, j + m));
      add_up(x, met);
      Left left;
      split(left, x[0], x[1]);
      multiply(terms, left, heads + block_place(i, i), tails + block_place(i, i));
      add_up(x, terms);
      split(found[n], x[0], x[1]);
    }
    float2 of_i[2];
#pragma unroll
    for (int half = 0; half < 2; ++half)
      of_i[half] = *reinterpret_cast<const float2*>(&shared.kept[i * SIDE + half * 8 + 2 * t]);
    store_block(to.write, block_place(i, j) + lane * 4, x, of_j, of_i);
    Terms mixed = {};
#pragma unroll
    for (int m = 0; m <= n; ++m)
      multiply(mixed, found[m], asked_heads + block_place(i, j + m), asked_tails + block_place(i, j + m));
    add_up(x, mixed);
    store_block(to.mix, block_place(i, j) + lane * 4, x, of_j, whole);
  }
}
