// Normalise each output of a head by its root mean square, scale it by the weight, gate it by SiLU.
//
// A warp has a tile of a head's outputs. It adds their squares, tells the sum to all blocks of its
// cluster, which is the head, and all add the sums of the tiles: neighbours, then neighbours of
// those, so that the order is one binary tree over the head's outputs. Every step is an IEEE
// operation, so the bits are those of a norm apart (kernels/norm, kernels/common/exact.py).
#pragma once

#include "../common/exact.cuh"
#include "../common/operands.cuh"
#include "walk_ring.cuh"

constexpr int CLUSTER = TILES / WARPS;  // blocks of a head; where it is one, none is launched as a cluster
constexpr int ROWS_ABREAST = 32 / COLUMN_LANES;  // that a warp writes at a time

// `GateArguments` of walk_launch.py has the same fields in the same order.
struct Gate {
  const __nv_bfloat16* z;  // [T, H, E], row stride z_stride
  const void* weight;      // [E], bf16 or fp32
  long long z_stride;
  int wide_weight;  // fp32: its product is not rounded
  float eps;
  NextOperands next;  // of the results, rows of H E inputs
};

// What a warp holds of its head's rows.
struct alignas(16) Part {
  __nv_bfloat16 outputs[MAX_ROWS * TILE_COLUMNS];
  __nv_bfloat16 z[MAX_ROWS * TILE_COLUMNS];
};

// What a block is told of its head: the sums of squares of all tiles.
struct alignas(16) Head {
  float squares[TILES][MAX_ROWS];
  unsigned long long told;  // barrier: of the squares
};

// Be ready to be told the squares of all rows by all warps of the cluster; every thread arrives.
__device__ __forceinline__ void set_up_gate(Head& head, int rows) {
  if constexpr (CLUSTER == 1) return;
  if (threadIdx.x == 0) {
    const unsigned told = shared_address(&head.told);
    set_up_barrier(told, 1);
    expect_bytes(told, rows * TILES * 4);
    show_barriers();
  }
  __syncwarp();
  arrive_at_cluster();
}

// Wait until every block of the cluster is ready.
__device__ __forceinline__ void meet_cluster() {
  if constexpr (CLUSTER > 1) wait_for_cluster();
}

__device__ __forceinline__ void wait_to_be_told(Head& head) {
  if constexpr (CLUSTER == 1) return __syncthreads();
  wait_for_others(shared_address(&head.told), 0);
}

// Ask for the gates of all rows; they come with the first group that is ended after this.
__device__ __forceinline__ void fetch_gate(Part& own, const Gate& gate, int rows, const Place& at, int lane) {
  if constexpr (!GATED) return;
  for (int i = lane; i < rows * (TILE_COLUMNS / 8); i += 32) {
    const int row = i / (TILE_COLUMNS / 8), column = i % (TILE_COLUMNS / 8) * 8;
    copy_16(shared_address(own.z + row * TILE_COLUMNS + column),
            gate.z + row * gate.z_stride + at.head * VALUE_DIM + at.first_column + column);
  }
}

// Add neighbours until one is left; N is a power of two.
template <int N>
__device__ __forceinline__ float sum_of_pairs(float (&x)[N]) {
#pragma unroll
  for (int step = 1; step < N; step *= 2)
#pragma unroll
    for (int i = 0; i < N; i += 2 * step) x[i] = __fadd_rn(x[i], x[i + step]);
  return x[0];
}

// With tiles of nothing a head's are a power of two.
constexpr int TREE_TILES = TILES <= 1 ? 1 : TILES <= 2 ? 2 : TILES <= 4 ? 4 : TILES <= 8 ? 8 : 16;

// 1 / rms of a row of the head.
__device__ __forceinline__ float inverse_rms(const Head& head, int row, float eps) {
  float squares[TREE_TILES];
#pragma unroll
  for (int i = 0; i < TREE_TILES; ++i) squares[i] = i < TILES ? head.squares[i < TILES ? i : 0][row] : 0.0f;
  const float mean = __fdiv_rn(sum_of_pairs(squares), static_cast<float>(VALUE_DIM));
  return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, eps)));
}

// Tell every block of the cluster the squares of this warp's columns of a row, which is the lane's.
// The store itself arrives at the barrier: nothing waits for what else is on its way to memory.
__device__ __forceinline__ void tell_squares(Head& head, const Part& own, int tile, int row) {
  float squares[TILE_COLUMNS];
#pragma unroll
  for (int i = 0; i < TILE_COLUMNS; ++i) {
    const float x = __bfloat162float(own.outputs[row * TILE_COLUMNS + i]);
    squares[i] = __fmul_rn(x, x);
  }
  const float sum = sum_of_pairs(squares);
  if constexpr (CLUSTER == 1) {
    head.squares[tile][row] = sum;
    return;
  }
  const unsigned here = shared_address(&head.squares[tile][row]);
  const unsigned told = shared_address(&head.told);
#pragma unroll
  for (int rank = 0; rank < CLUSTER; ++rank)
    asm volatile(
        "{\n .reg .b32 there, barrier;\n mapa.shared::cluster.u32 there, %0, %2;\n"
        " mapa.shared::cluster.u32 barrier, %1, %2;\n"
        " st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [there], %3, [barrier];\n}"
        ::"r"(here), "r"(told), "r"(rank), "r"(__float_as_int(sum)) : "memory");
}

// The weights of a lane's columns; they are older than every kernel.
__device__ __forceinline__ void load_weight(float (&weight)[COLUMNS], const Gate& gate, const Place& at) {
  if constexpr (!GATED) return;
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c)
    weight[c] = gate.wide_weight ? static_cast<const float*>(gate.weight)[at.column + c]
                                 : __bfloat162float(static_cast<const __nv_bfloat16*>(gate.weight)[at.column + c]);
}

// Write a lane's results of a row as operands too. The lanes that have 8 columns find their largest.
__device__ __forceinline__ void write_operands(const NextOperands& next, const Halves& x, int row, int input,
                                               bool known) {
  static_assert(COLUMNS <= 8 && 8 % COLUMNS == 0, "8 columns are those of several lanes");
  unsigned most = 0;
  if (known) {
    __half* const place = operand_place(next, row, input);
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
      place[c / 2 * next.pair + c % 2] = operand_of(x.at[c]);
      most = max(most, magnitude(x.at[c]));
    }
  }
#pragma unroll
  for (int apart = 1; apart < 8 / COLUMNS; apart *= 2) most = max(most, __shfl_xor_sync(ALL, most, apart));
  if (known && input % 8 == 0) tell_largest(next, row, input, most);
}

// Write the rows whose outputs the warp holds. A block ends when it has been told all, so none is
// written to that has ended.
__device__ __forceinline__ void write_gated(__nv_bfloat16* out, Head& head, const Part& own, const Gate& gate,
                                            const float (&weight)[COLUMNS], int rows, int heads, const Place& at,
                                            int lane) {
  const int within = at.column - at.first_column, first_row = lane / COLUMN_LANES;
  __syncwarp();
  meet_cluster();
  if (lane < rows) tell_squares(head, own, at.first_column / TILE_COLUMNS, lane);

  float gates[MAX_ROWS / ROWS_ABREAST][COLUMNS];
#pragma unroll
  for (int i = 0; i < MAX_ROWS / ROWS_ABREAST; ++i) {
    const int row = i * ROWS_ABREAST + first_row;
    if (row >= rows) continue;
    const Halves halves = *reinterpret_cast<const Halves*>(own.z + row * TILE_COLUMNS + within);
    float z[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) z[c] = __bfloat162float(halves.at[c]);
    exact_silus(gates[i], z);
  }
  wait_to_be_told(head);

  const float inverse = lane < rows ? inverse_rms(head, lane, gate.eps) : 0.0f;
#pragma unroll
  for (int i = 0; i < MAX_ROWS / ROWS_ABREAST; ++i) {
    const int row = i * ROWS_ABREAST + first_row;
    const float by = __shfl_sync(ALL, inverse, row);
    Halves x = {};
    if (row < rows) x = *reinterpret_cast<const Halves*>(own.outputs + row * TILE_COLUMNS + within);
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
      const float normed = __bfloat162float(__float2bfloat16_rn(__fmul_rn(__bfloat162float(x.at[c]), by)));
      float scaled = __fmul_rn(normed, weight[c]);
      if (!gate.wide_weight) scaled = __bfloat162float(__float2bfloat16_rn(scaled));
      x.at[c] = __float2bfloat16_rn(__fmul_rn(scaled, gates[i][c]));
    }
    if (row < rows)
      *reinterpret_cast<Halves*>(out + (static_cast<size_t>(row) * heads + at.head) * VALUE_DIM + at.column) = x;
    if (gate.next.image != nullptr && i * ROWS_ABREAST < rows)
      write_operands(gate.next, x, row, at.head * VALUE_DIM + at.column, row < rows);
  }
}
