// Products on tensor cores for the chunked delta rule, and where its operands lie.
//
// A product is m16n8k16 in bf16 with sums in fp32. A lane g * 4 + t holds of a tile of 16 x 8 sums the
// columns 2t and 2t + 1 of rows g and g + 8; two tiles beside each other, rounded, are the left operand
// of 16 x 16 of the next product as they stand, so that a chain of products stays in registers. A left
// operand in fp32 is split in two bf16 numbers, which are within 2^-18 of it.
#pragma once

#include <cuda_bf16.h>

#include "../common/async_copies.cuh"
#include "../common/barriers.cuh"

constexpr int CHUNK = 64;          // tokens
constexpr int WIDTH = 128;         // of keys and values
constexpr int SIDE = 16;           // tokens of a block
constexpr int BLOCKS = CHUNK / SIDE;
constexpr int LOWER_BLOCKS = BLOCKS * (BLOCKS + 1) / 2;
constexpr int BLOCK_BYTES = SIDE * SIDE * 2;
constexpr int MATRIX_BYTES = LOWER_BLOCKS * BLOCK_BYTES;

// What the walk needs of a chunk of a head: two matrices, each a head and a tail, and factors. Matrices are
// transposed, in blocks on and below the diagonal: [LOWER_BLOCKS, 2, 2, 8, 8], of a block the halves of its i,
// the halves of its j, eight j, eight i. The 128 bytes of an eighth are what a warp writes at once.
struct alignas(16) Prepared {
  unsigned char write[2][MATRIX_BYTES], mix[2][MATRIX_BYTES];
  float of_keys[CHUNK], of_queries[CHUNK];  // factors of K S and of Q S
  float fade, none[3];                      // factor of S
};

// The place of block (i, j) among those on and below the diagonal: behind those of columns before, then by row.
__device__ __forceinline__ constexpr int block_place(int i, int j) {
  return (j * BLOCKS - j * (j - 1) / 2 + i - j) * BLOCK_BYTES;
}

using Sums = float[4];
struct Left { unsigned head[4], tail[4]; };
using Words = unsigned[4];

__device__ __forceinline__ void split(unsigned& head, unsigned& tail, float low, float high) {
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(head) : "f"(high), "f"(low));
  const float low_rest = __fsub_rn(low, __uint_as_float(head << 16));
  const float high_rest = __fsub_rn(high, __uint_as_float(head & 0xFFFF0000u));
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(tail) : "f"(high_rest), "f"(low_rest));
}

// Two tiles beside each other as a left operand.
__device__ __forceinline__ void split(Left& to, const Sums& low, const Sums& high) {
  split(to.head[0], to.tail[0], low[0], low[1]);
  split(to.head[1], to.tail[1], low[2], low[3]);
  split(to.head[2], to.tail[2], high[0], high[1]);
  split(to.head[3], to.tail[3], high[2], high[3]);
}

__device__ __forceinline__ void multiply(Sums& sums, const Words& left, unsigned low, unsigned high) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(low), "r"(high));
}

// Two tiles of sums from 16 x 16 of a right operand.
__device__ __forceinline__ void multiply(Sums& low, Sums& high, const Words& left, const Words& right) {
  multiply(low, left, right[0], right[1]);
  multiply(high, left, right[2], right[3]);
}

// Four 8 x 8 matrices of bf16; a lane names the row lane % 8 of matrix lane / 8.
__device__ __forceinline__ void load_matrices(Words& to, unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}

__device__ __forceinline__ void load_transposed(Words& to, unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}

// Where 16 bytes of a row lie in shared memory: 128 bytes of all rows, then the next 128. A piece lies apart from
// those of the seven rows beside it, so that eight rows of a matrix are read at once.
constexpr int LINE_BYTES = 128;

__device__ __forceinline__ unsigned place_of(int row, int piece) {
  return piece / 8 * CHUNK * LINE_BYTES + row * LINE_BYTES + (piece % 8 ^ row % 8) * 16;
}

// Ask for a chunk's rows of bf16; zeros behind the last one.
template <int COLUMNS, int THREADS>
__device__ __forceinline__ void copy_rows(unsigned to, const __nv_bfloat16* from, long long stride, int rows) {
  constexpr int PIECES = COLUMNS / 8, STEP = THREADS / PIECES;
  static_assert(STEP % 8 == 0 && CHUNK % STEP == 0, "a thread's pieces lie in one column of shared memory");
  const int piece = threadIdx.x % PIECES, first = threadIdx.x / PIECES;
  from += first * stride + piece * 8;
  to += place_of(first, piece);
#pragma unroll
  for (int i = 0; i < CHUNK; i += STEP) copy_16_or_zeros(first + i < rows, to + i * LINE_BYTES, from + i * stride);
}

// Have the copy engine bring bytes that lie side by side, and arrive at a barrier with them.
__device__ __forceinline__ void copy_bytes(unsigned to, const void* from, int bytes, unsigned barrier) {
  expect_bytes(barrier, bytes);
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
