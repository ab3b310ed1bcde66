// Products of whole tiles by the matrix unit of a warpgroup (wgmma, sm_90a): operands are read from the
// swizzled boxes, by four warps together. The sums of a lane and their bits are those of mma.sync, so a
// tile that own rows reach into, whose rows lie apart, goes by mma.sync in the same kernel.
#pragma once

#include "verify_scores.cuh"
#include "verify_values.cuh"

// Where a matrix lies in shared memory, in rows of 128 bytes that are swizzled in eights: `to_eight`
// bytes from one eight rows to the next, `to_block` from 64 columns to the next 64 where columns are
// the long side.
__device__ __forceinline__ unsigned long long matrix_at(unsigned address, unsigned to_block, unsigned to_eight) {
  return (address & 0x3FFFF) >> 4 | static_cast<unsigned long long>(to_block >> 4) << 16 |
         static_cast<unsigned long long>(to_eight >> 4) << 32 | 1ull << 62;
}

// Have sums in registers where products begin or end: between, they are the matrix unit's.
template <int TILES>
__device__ __forceinline__ void settle(float (&sum)[TILES][4]) {
#pragma unroll
  for (int n = 0; n < TILES; ++n)
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(sum[n][i])::"memory");
}

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

#define SUM(i) "+f"(sum[i][0]), "+f"(sum[i][1]), "+f"(sum[i][2]), "+f"(sum[i][3])
#define SUM_4(i) SUM(i), SUM(i + 1), SUM(i + 2), SUM(i + 3)
#define SUM_16(i) SUM_4(i), SUM_4(i + 4), SUM_4(i + 8), SUM_4(i + 12)

// Scores of 64 rows and 32 positions: tiles n on.
__device__ __forceinline__ void multiply_keys(float (&sum)[N_TILES][4], int n, unsigned long long q,
                                              unsigned long long keys) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15 "
      "}, %16, %17, 1, 1, 1, 0, 0;"
      : SUM_4(n)
      : "l"(q), "l"(keys)
      : "memory");
}

// Sums of 64 rows and 256 columns over 16 positions.
__device__ __forceinline__ void multiply_values(float (&sum)[V_TILES][4], const Matrix4& p,
                                                unsigned long long values) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "
      "%59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, "
      "%78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, "
      "%97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, "
      "%113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127 "
      "}, {%128, %129, %130, %131}, %132, 1, 1, 1, 1;"
      : SUM_16(0), SUM_16(16)
      : "r"(p.v[0]), "r"(p.v[1]), "r"(p.v[2]), "r"(p.v[3]), "l"(values)
      : "memory");
}

#undef SUM_16
#undef SUM_4
#undef SUM

// Scores of a whole tile of 64 rows, as `score`; `q` is the first of their rows.
__device__ __forceinline__ void score_wide(Scores& scores, unsigned q, unsigned low, unsigned high) {
#pragma unroll
  for (int n = 0; n < N_TILES; ++n)
    for (int i = 0; i < 4; ++i) scores[n][i] = 0.0f;
  settle(scores);
  begin_products();
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    const unsigned within = k % 4 * 32;
    const unsigned long long rows = matrix_at(q + k / 4 * Q_BOX_BYTES + within, 0, 8 * BOX_ROW);
    multiply_keys(scores, 0, rows, matrix_at(low + k / 4 * BOX_BYTES + within, 0, 8 * BOX_ROW));
    multiply_keys(scores, 4, rows, matrix_at(high + k / 4 * BOX_BYTES + within, 0, 8 * BOX_ROW));
  }
  end_products();
  settle(scores);
}

// Add a whole tile to 64 rows' sums, as `Sums::add`.
__device__ __forceinline__ void add_wide(Sums& sums, const Ring& ring, int unit, const Matrix4 (&p)[STEPS], int lane) {
  settle(sums.values);
  begin_products();
#pragma unroll
  for (int k = 0; k < STEPS; ++k)
    multiply_values(sums.values, p[k],
                    matrix_at(ring.place(unit + k / 2) + (k & 1) * 16 * BOX_ROW, BOX_BYTES, 8 * BOX_ROW));
  end_products();
  settle(sums.values);
#pragma unroll
  for (int k = 0; k < STEPS; ++k) multiply_add(sums.weights, p[k], ONE_COLUMN);
  ring.let_go(unit, 2, lane);
}
