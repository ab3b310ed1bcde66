// The matrix unit: fragments from shared memory, and one instruction for every row count.
#pragma once

#include "verify_problem.cuh"

struct Matrix4 {
  unsigned v[4];
};

// b of an instruction: what a lane holds of sums 2t, 2t + 1, and of 2t + 8, 2t + 9.
struct Operand {
  unsigned low, high;
};

__device__ __forceinline__ uint4 load_16(unsigned address) {
  uint4 four;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w)
               : "r"(address)
               : "memory");
  return four;
}

__device__ __forceinline__ Matrix4 load_matrices(unsigned address) {
  Matrix4 m;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m.v[0]), "=r"(m.v[1]), "=r"(m.v[2]), "=r"(m.v[3])
               : "r"(address)
               : "memory");
  return m;
}

__device__ __forceinline__ Matrix4 load_transposed(unsigned address) {
  Matrix4 m;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m.v[0]), "=r"(m.v[1]), "=r"(m.v[2]), "=r"(m.v[3])
               : "r"(address)
               : "memory");
  return m;
}

// sum[16 x 8] += a[16 x 16] b[16 x 8], bf16 to fp32. Lane (g, t) holds columns 2t, 2t + 1 of rows g
// and g + 8. An element's bits follow from its row of a, its column of b and its own sum.
__device__ __forceinline__ void multiply_add(float (&sum)[4], const Matrix4& a, const Operand& b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b.low), "r"(b.high));
}

// Multiply and add where a lane's rows g and g + 8 take part.
__device__ __forceinline__ void multiply_add_where(float (&sum)[4], const Matrix4& a, const Operand& b, bool low,
                                                   bool high) {
  float next[4] = {sum[0], sum[1], sum[2], sum[3]};
  multiply_add(next, a, b);
#pragma unroll
  for (int i = 0; i < 4; ++i) sum[i] = (i < 2 ? low : high) ? next[i] : sum[i];
}

constexpr unsigned ONES = 0x3F803F80;  // two of bf16: the weights' own sum is one more column
constexpr Operand ONE_COLUMN = {ONES, ONES};

// A row of a unit of the ring, or of the queries: its 16-byte pieces lie swizzled in boxes of 128 bytes a
// row, as the engine writes them.
struct UnitRow {
  unsigned at, box;  // address of its first box, and from box to box
  int turn;          // what its pieces are swizzled by

  __device__ __forceinline__ unsigned piece(int i) const { return at + (i >> 3) * box + (((i & 7) ^ turn) << 4); }
};

__device__ __forceinline__ UnitRow unit_row(unsigned unit, int row) {
  return {unit + row * BOX_ROW, BOX_BYTES, row & 7};
}

// A lane's row of a 16 x 16 operand a of the queries; the upper half of the lanes is a piece on.
__device__ __forceinline__ UnitRow query_row(unsigned q, int first, int lane) {
  const int row = first + (lane & 15);
  return {q + row * BOX_ROW, Q_BOX_BYTES, row & 7};
}
