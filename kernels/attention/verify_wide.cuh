// The products of a tile of committed positions by four warps together: `wgmma` of sm_90, 64 rows to an
// instruction, which takes keys and values from the ring itself. A lane holds of its warp's 16 rows what
// it holds of mma.m16n8k16, and a sum takes the same 16 products at each step in the same order.
#pragma once

#include "verify_scores.cuh"
#include "verify_values.cuh"

// A matrix in shared memory as the engine writes it, in rows of 128 swizzled bytes: eights of rows are
// `eights` bytes apart, boxes of 64 columns `boxes`.
__device__ __forceinline__ unsigned long long matrix_of(unsigned address, unsigned boxes, unsigned eights) {
  return static_cast<unsigned long long>(address >> 4) | static_cast<unsigned long long>(boxes >> 4) << 16 |
         static_cast<unsigned long long>(eights >> 4) << 32 | 1ull << 62;
}

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

#define FOUR_OF(x) "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
#define SIXTEEN_OF(x, n) FOUR_OF(x[n]), FOUR_OF(x[n + 1]), FOUR_OF(x[n + 2]), FOUR_OF(x[n + 3])

// Scores of 64 rows against the 64 positions of a unit: 16 instructions over D.
__device__ __forceinline__ void score_wide(Scores& s, unsigned queries, unsigned unit) {
#pragma unroll
  for (int i = 0; i < N_TILES * 4; ++i) s[i / 4][i % 4] = 0.0f;
  begin_products();
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    const unsigned within = k % 4 * 32;
    const unsigned long long a = matrix_of(queries + k / 4 * Q_BOX_BYTES + within, 16, 8 * BOX_ROW);
    const unsigned long long b = matrix_of(unit + k / 4 * BOX_BYTES + within, 16, 8 * BOX_ROW);
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;"
        : SIXTEEN_OF(s, 0), SIXTEEN_OF(s, 4)
        : "l"(a), "l"(b));
  }
  end_products();
}

// Add the values of a unit to sums of 64 rows: 4 instructions over 64 positions.
__device__ __forceinline__ void add_wide(Sums& sums, const Matrix4 (&p)[STEPS], unsigned unit) {
  begin_products();
#pragma unroll
  for (int k = 0; k < STEPS; ++k) {
    const unsigned long long b = matrix_of(unit + k * 16 * BOX_ROW, BOX_BYTES, 8 * BOX_ROW);
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "{%128, %129, %130, %131}, %132, 1, 1, 1, 1;"
        : SIXTEEN_OF(sums.values, 0), SIXTEEN_OF(sums.values, 4), SIXTEEN_OF(sums.values, 8),
          SIXTEEN_OF(sums.values, 12), SIXTEEN_OF(sums.values, 16), SIXTEEN_OF(sums.values, 20),
          SIXTEEN_OF(sums.values, 24), SIXTEEN_OF(sums.values, 28)
        : "r"(p[k].v[0]), "r"(p[k].v[1]), "r"(p[k].v[2]), "r"(p[k].v[3]), "l"(b));
  }
  end_products();
#pragma unroll
  for (int k = 0; k < STEPS; ++k) multiply_add(sums.weights, p[k], ONE_COLUMN);
}
