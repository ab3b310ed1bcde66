// Multiply 64 outputs by all activation rows at once: wgmma, weights in registers, activations in shared
// memory. Its bits are those of mma.sync.
#pragma once

#include "skinny_step.cuh"

constexpr int SUMS = 4 * ROW_BLOCKS;             // of a thread
constexpr int X_BLOCK_BYTES = STEP_VECTORS * 16;       // activations of a step, 8 rows
constexpr int X_BYTES = ROW_BLOCKS * X_BLOCK_BYTES;
constexpr int BATCH = 2;  // instructions whose weights are decoded together: those of eight codes of a row

// Activations of an instruction lie as matrices of 8 rows x 16 bytes, the halves of its 16 inputs side by
// side, and the next 8 rows behind all inputs of the step. The address goes into the low bits, in units of 16
// bytes, and may be added to.
__device__ __forceinline__ unsigned long long describe_x(unsigned address) {
  constexpr unsigned long long NEXT_INPUTS = 128 / 16, NEXT_ROWS = X_BLOCK_BYTES / 16;
  return (address & 0x3FFFF) >> 4 | NEXT_INPUTS << 16 | NEXT_ROWS << 32;
}

__device__ __forceinline__ void begin_batch() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void end_batch() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Wait until all batches but the last NUM are done.
template <int NUM>
__device__ __forceinline__ void wait_for_batches() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(NUM) : "memory");
}

// Say that values change here, so that nothing made of them moves to before.
template <int NUM>
__device__ __forceinline__ void pin(float (&v)[NUM]) {
#pragma unroll
  for (int i = 0; i < NUM; ++i) asm volatile("" : "+f"(v[i])::"memory");
}

using BatchWeights = unsigned[BATCH][4];

__device__ __forceinline__ void pin(BatchWeights& a) {
#pragma unroll
  for (int k = 0; k < BATCH; ++k)
    asm volatile("" : "+r"(a[k][0]), "+r"(a[k][1]), "+r"(a[k][2]), "+r"(a[k][3])::"memory");
}

__device__ __forceinline__ void pin(uint4& v) {
  asm volatile("" : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)::"memory");
}

#if FORMAT == BF16
#define TYPES ".f32.bf16.bf16 "
#else
#define TYPES ".f32.f16.f16 "
#endif
#define FOUR(at) "+f"(d[at]), "+f"(d[at + 1]), "+f"(d[at + 2]), "+f"(d[at + 3])
#define WGMMA(shape, sums, a0, a1, a2, a3, rows, adds, ...)                                     \
  asm volatile("{ .reg .pred added; setp.ne.b32 added, %" adds ", 0;\n"                          \
               "wgmma.mma_async.sync.aligned." shape TYPES sums ", {%" a0 ", %" a1 ", %" a2 ", %" a3 "}, %" rows \
               ", added, 1, 1, 0; }"                                                             \
               : __VA_ARGS__ : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(x), "r"(add) : "memory")

// Add 16 inputs' products to the sums, or put them in their place. The weights must stay until that is done.
__device__ __forceinline__ void multiply_rows(float (&d)[SUMS], const unsigned (&a)[4], unsigned long long x, int add) {
#if ROW_BLOCKS == 3
  WGMMA("m64n24k16", "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11}", "12", "13", "14", "15", "16", "17",
        FOUR(0), FOUR(4), FOUR(8));
#elif ROW_BLOCKS == 4
  WGMMA("m64n32k16", "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}", "16", "17", "18", "19",
        "20", "21", FOUR(0), FOUR(4), FOUR(8), FOUR(12));
#elif ROW_BLOCKS == 2
  WGMMA("m64n16k16", "{%0, %1, %2, %3, %4, %5, %6, %7}", "8", "9", "10", "11", "12", "13", FOUR(0), FOUR(4));
#else
  WGMMA("m64n8k16", "{%0, %1, %2, %3}", "4", "5", "6", "7", "8", "9", FOUR(0));
#endif
}

// Decode and multiply one step of a warp's tile. On return the last batch may be under way: its weights, in `a`,
// must be kept for the next step. `before` is told when the step before is done.
template <class Before>
__device__ __forceinline__ void multiply_step(float (&sum)[SUMS], BatchWeights (&a)[2], Codes& c, unsigned long long x,
                                              bool first, Before before) {
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    unsigned upper[4], lower[4];
    decode(c.low, v, c.scales[0][v / 2], upper);
    decode(c.high, v, c.scales[1][v / 2], lower);
#pragma unroll
    for (int k = 0; k < BATCH; ++k) {
      a[v % 2][k][0] = upper[2 * k];
      a[v % 2][k][1] = lower[2 * k];
      a[v % 2][k][2] = upper[2 * k + 1];
      a[v % 2][k][3] = lower[2 * k + 1];
    }
    begin_batch();
#pragma unroll
    for (int k = 0; k < BATCH; ++k) {
      const int at = v * BATCH + k;
      multiply_rows(sum, a[v % 2][k], x + at * (256 / 16), at > 0 || !first);
    }
    end_batch();
    wait_for_batches<1>();
    pin(a[(v + 1) % 2]);  // free from here on, not before: the compiler loses sight of it where a loop turns
    if (v == 0) before();
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
      pin(c.low[i]);
      pin(c.high[i]);
    }
  }
}
