// Finish the rows of a block behind the warps that walk: k.q, the output, the head's norm, the gate.
//
// A lane has eight neighbours of a row, so a warp some rows at a time. Squares are added by a tree of
// neighbours over the head, within the block and then with the other block's: the bits are those of a
// norm apart (kernels/norm).
#pragma once

#include "team_rows.cuh"
#include "walk_gate.cuh"
#include "walk_row.cuh"

constexpr int BLOCKS = VALUE_DIM / BLOCK_COLUMNS;  // of a head
constexpr int OWN = 8;                             // columns of a lane: 16 bytes of bf16
constexpr int ROW_LANES = BLOCK_COLUMNS / OWN;
constexpr int ABREAST = 32 / ROW_LANES;            // rows that a warp finishes at a time
constexpr bool CLUSTERED = GATED && BLOCKS > 1;    // they have something to tell each other
static_assert(!GATED || BLOCKS <= 2, "a gated head has two blocks at most");
static_assert(CHUNK % ABREAST == 0 && ROW_LANES >= KEY_LANES, "rows of a warp are handed on together");
static_assert((VALUE_DIM & (VALUE_DIM - 1)) == 0, "a mean is a product");

// What the walk finds of a row.
struct alignas(16) Walked {
  float u[BLOCK_COLUMNS];
  float asked[BLOCK_COLUMNS];  // decay S'q
};

// What the other block of the head tells.
struct alignas(16) Told {
  Barrier came[MAX_ROWS / ABREAST];
  float squares[MAX_ROWS];
};

struct alignas(16) Eight {
  __nv_bfloat162 at[OWN / 2];
};

// A lane sets up the barrier of some rows, those that a warp finishes at a time.
__device__ __forceinline__ void set_up_told(Told& here, int rows, int lane) {
  if constexpr (!CLUSTERED) return;
  if (lane < MAX_ROWS / ABREAST) {
    const unsigned came = shared_address(here.came + lane);
    set_up_barrier(came, 1);
    expect_bytes(came, 4 * max(0, min(ABREAST, rows - lane * ABREAST)));
    show_barriers();
  }
}

// Tell the other block of the head this one's squares of a row. The store itself arrives at the barrier.
__device__ __forceinline__ void tell(Told& here, int row, float sum) {
  asm volatile(
      "{\n .reg .b32 rank, there, barrier;\n mov.u32 rank, %%cluster_ctarank;\n xor.b32 rank, rank, 1;\n"
      " mapa.shared::cluster.u32 there, %0, rank;\n mapa.shared::cluster.u32 barrier, %1, rank;\n"
      " st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [there], %2, [barrier];\n}"
      ::"r"(shared_address(here.squares + row)), "r"(shared_address(here.came + row / ABREAST)), "r"(__float_as_int(sum))
      : "memory");
}

__device__ __forceinline__ void widen(float (&to)[OWN], const Eight& from) {
#pragma unroll
  for (int i = 0; i < OWN / 2; ++i) to[2 * i] = __bfloat162float(from.at[i].x), to[2 * i + 1] = __bfloat162float(from.at[i].y);
}

__device__ __forceinline__ Eight rounded(const float (&from)[OWN]) {
  Eight to;
#pragma unroll
  for (int i = 0; i < OWN / 2; ++i) to.at[i] = __floats2bfloat162_rn(from[2 * i], from[2 * i + 1]);
  return to;
}

__device__ __forceinline__ void round_in_place(float (&x)[OWN]) { widen(x, rounded(x)); }

__device__ __forceinline__ void load_eight(float (&to)[OWN], const float* from) {
#pragma unroll
  for (int i = 0; i < OWN; i += 4) {
    const float4 v = *reinterpret_cast<const float4*>(from + i);
    to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
  }
}

__device__ __forceinline__ void load_own_weight(float (&weight)[OWN], const Gate& gate, int column) {
  if (gate.wide_weight)
    load_eight(weight, static_cast<const float*>(gate.weight) + column);
  else
    widen(weight, *reinterpret_cast<const Eight*>(static_cast<const __nv_bfloat16*>(gate.weight) + column));
}

// k.q of a row, in all of its lanes.
__device__ __forceinline__ float met_of(const WalkedRow& row, int key_lane) {
  Place at;
  at.key = key_lane * 4;
  float k[KEYS], q[KEYS];
  load_keys(k, row.k, at);
  load_keys(q, row.q, at);
  float met = part_of_product(k, q);
#pragma unroll
  for (int lanes = 1; lanes < KEY_LANES; lanes *= 2) met = __fadd_rn(met, __shfl_xor_sync(ALL, met, lanes));
  return met;
}

// Add the squares of a block's columns of a row, in all of its lanes.
__device__ __forceinline__ float squares_of(const float (&x)[OWN]) {
  float squares[OWN];
#pragma unroll
  for (int i = 0; i < OWN; ++i) squares[i] = __fmul_rn(x[i], x[i]);
  float sum = sum_of_pairs(squares);
#pragma unroll
  for (int lanes = 1; lanes < ROW_LANES; lanes *= 2) sum = __fadd_rn(sum, __shfl_xor_sync(ALL, sum, lanes));
  return sum;
}

__device__ __forceinline__ void write_operands(const NextOperands& next, const Eight& x, int row, int input) {
  union {
    __half at[OWN];
    __half2 pair[OWN / 2];
    uint4 all;
  } operands;
  unsigned most = 0;
#pragma unroll
  for (int i = 0; i < OWN; ++i) {
    const __nv_bfloat16 one = i % 2 ? x.at[i / 2].y : x.at[i / 2].x;
    operands.at[i] = operand_of(one);
    most = max(most, magnitude(one));
  }
  __half* const place = operand_place(next, row, input);
  if (next.pair == 2) {
    *reinterpret_cast<uint4*>(place) = operands.all;
  } else {
#pragma unroll
    for (int i = 0; i < OWN / 2; ++i) *reinterpret_cast<__half2*>(place + i * next.pair) = operands.pair[i];
  }
  tell_largest(next, row, input, most);
}

struct Finish {
  const Gate& gate;     // not read without GATED
  float* u;             // of the block's first row and column
  __nv_bfloat16* out;   // the same
  int rows, step;       // from row to row of both
};

// Norm eight outputs of a row by the head's mean square, scale and gate them.
__device__ __forceinline__ void gate_eight(float (&x)[OWN], float mean, const float (&weight)[OWN],
                                           const float (&gates)[OWN], const Gate& gate) {
  const float inverse = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, gate.eps)));
#pragma unroll
  for (int i = 0; i < OWN; ++i) x[i] = __fmul_rn(x[i], inverse);
  round_in_place(x);
#pragma unroll
  for (int i = 0; i < OWN; ++i) x[i] = __fmul_rn(x[i], weight[i]);
  if (!gate.wide_weight) round_in_place(x);
#pragma unroll
  for (int i = 0; i < OWN; ++i) x[i] = __fmul_rn(x[i], gates[i]);
}

__device__ __forceinline__ void finish_rows(const Finish& to, const Walked* found, Barrier* walked, Told& told,
                                            Barrier* came, const WalkedRow* rows, const Share& share, int lane) {
  const int column = lane % ROW_LANES * OWN, input = share.head * VALUE_DIM + share.first + column;
  float weight[OWN];
  if constexpr (GATED) load_own_weight(weight, to.gate, share.first + column);
  if constexpr (CLUSTERED) meet_cluster();
#pragma unroll 1
  for (int first = share.warp * ABREAST; first < to.rows; first += FINISHERS * ABREAST) {
    const int row = min(first + lane / ROW_LANES, to.rows - 1);  // of lanes without one: read and not written
    const bool exists = first + lane / ROW_LANES < to.rows;
    float gates[OWN], u[OWN], x[OWN];
    if constexpr (GATED) {
      float z[OWN];
      widen(z, *reinterpret_cast<const Eight*>(to.gate.z + row * to.gate.z_stride + input));
      exact_silus(gates, z);
    }
    wait_at(came[first < FIRST_ROWS ? FIRST : REST]);
    const float met = met_of(rows[row], lane % KEY_LANES);

    wait_at(walked[first / CHUNK]);
    load_eight(u, found[row].u + column);
    load_eight(x, found[row].asked + column);
#pragma unroll
    for (int i = 0; i < OWN; ++i) x[i] = __fmaf_rn(met, u[i], x[i]);
    if constexpr (GATED) {
      round_in_place(x);
      float sum = squares_of(x);
      if (CLUSTERED && exists && column == 0) tell(told, row, sum);
      if constexpr (CLUSTERED) {
        wait_for_others(shared_address(told.came + first / ABREAST), 0);
        __syncwarp();
        sum = __fadd_rn(sum, told.squares[row]);
      }
      gate_eight(x, __fmul_rn(sum, 1.0f / VALUE_DIM), weight, gates, to.gate);
    }
    if (!exists) continue;
    const Eight result = rounded(x);
    *reinterpret_cast<Eight*>(to.out + row * to.step + column) = result;
    float4* const u_to = reinterpret_cast<float4*>(to.u + row * to.step + column);
    u_to[0] = {u[0], u[1], u[2], u[3]}, u_to[1] = {u[4], u[5], u[6], u[7]};
    if constexpr (GATED)
      if (to.gate.next.image != nullptr) write_operands(to.gate.next, result, row, input);
  }
}
