// Where partial results lie. A chunk has a line for each row of the matrix unit that a verify's rows
// take, those of a KV head and row group together and padded to eights. The sums of eight lines lie as
// the lanes of a warp hold them, so that a store fills 512 bytes side by side: for each 16 columns four
// quads a line, quad t with what lane t has of them (`column_of`).
#pragma once

struct Partials {
  float* sums;      // [chunks, lines / 8, 16, 8, 4, 4]: of values, weighted
  float* tops;      // [chunks, lines]: largest score, times `factor`
  float* weights;   // [chunks, lines]: sum of weights
  int lines;        // of a chunk
  int head_lines;   // of a KV head
  int group_lines;  // of a row group but the last

  __device__ __forceinline__ int first_line(int head, int row_group) const {
    return head * head_lines + row_group * group_lines;
  }

  __device__ __forceinline__ long long line(int chunk, int number) const {
    return static_cast<long long>(chunk) * lines + number;
  }

  // Quad t of columns 16 * sixteen on, of a line.
  __device__ __forceinline__ float* quad(long long line, int sixteen, int t) const {
    return sums + (line & ~7ll) * 256 + sixteen * 128 + static_cast<int>(line & 7) * 16 + t * 4;
  }
};

__device__ __forceinline__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Column of element i of quad t, of its sixteen: two tiles of eight columns, which transposed loads of
// codes have dealt out in turn.
__device__ __forceinline__ int column_of(int t, int i) {
  return KV_BYTES == 2 ? i / 2 * 8 + 2 * t + i % 2 : 4 * t + i;
}
