// Products of four warps on a Hopper (wgmma): the left operand, 64 x 16, in registers as for m16n8k16, the
// right one of 16 x N in shared memory, which the tensor cores read by themselves while the warps go on.
//
// Between begin_products and await_products no register of a product under way is touched.
#pragma once

#include "prefill_products.cuh"

// Right operands whose rows are sums' columns: 64 rows of 128 bytes, pieces of 16 bytes apart as by place_of.
constexpr unsigned long long ROWS_APART = 1ull << 62 | 1024ull >> 4 << 32 | 1ull << 16;
// Right operands in blocks of 8 x 8 transposed, 128 bytes each: two to a step of 16, then the next columns.
constexpr unsigned long long BLOCKS_APART = 256ull >> 4 << 32 | 128ull >> 4 << 16;

__device__ __forceinline__ unsigned long long operand(unsigned long long layout, unsigned address) {
  return layout | (address & 0x3FFFFu) >> 4;
}

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void end_of_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int GROUPS>
__device__ __forceinline__ void await_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(GROUPS) : "memory");
}

// What threads wrote to shared memory before is seen by products and the copy engine behind it.
__device__ __forceinline__ void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#define TILE(at) "+f"(sums[at][0]), "+f"(sums[at][1]), "+f"(sums[at][2]), "+f"(sums[at][3])
#define LEFT "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3])

// Add the product of 16 more to COUNT tiles of sums from the FIRST on, or begin with it. The right operand has the
// columns of sums side by side where it is TRANSPOSED.
template <int FIRST, int COUNT, int TRANSPOSED, int ALL_TILES>
__device__ __forceinline__ void multiply(Sums (&all)[ALL_TILES], const Words& left, unsigned long long right,
                                         int adds) {
  Sums* const sums = all + FIRST;
  if constexpr (COUNT == 8)
    asm volatile(
        "{ .reg .pred adds; setp.ne.b32 adds, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
        "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, adds, 1, 1, %38; }"
        : TILE(0), TILE(1), TILE(2), TILE(3), TILE(4), TILE(5), TILE(6), TILE(7)
        : LEFT, "l"(right), "r"(adds), "n"(TRANSPOSED));
  else if constexpr (COUNT == 4)
    asm volatile(
        "{ .reg .pred adds; setp.ne.b32 adds, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19}, %20, adds, 1, 1, %22; }"
        : TILE(0), TILE(1), TILE(2), TILE(3) : LEFT, "l"(right), "r"(adds), "n"(TRANSPOSED));
  else {
    static_assert(COUNT == 2, "products of 64, 32 or 16 columns");
    asm volatile(
        "{ .reg .pred adds; setp.ne.b32 adds, %13, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, adds, 1, 1, %14; }"
        : TILE(0), TILE(1) : LEFT, "l"(right), "r"(adds), "n"(TRANSPOSED));
  }
}

#undef TILE
#undef LEFT
