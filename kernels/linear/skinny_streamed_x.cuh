// Bring activations step by step, as wgmma reads them, while weights stream past.
#pragma once

#include "skinny_wgmma.cuh"

constexpr int AHEAD = CREW > 5 ? 1 : 3;  // steps whose loads are under way; as registers allow

// One vector of 8 rows: word by word matrices of 8 rows x 4 lanes.
__device__ __forceinline__ void store_words(unsigned at, uint4 v) {
  asm volatile("st.shared.u32 [%0], %1;" :: "r"(at), "r"(v.x) : "memory");
  asm volatile("st.shared.u32 [%0], %1;" :: "r"(at + 128), "r"(v.y) : "memory");
  asm volatile("st.shared.u32 [%0], %1;" :: "r"(at + OPERAND_BYTES), "r"(v.z) : "memory");
  asm volatile("st.shared.u32 [%0], %1;" :: "r"(at + OPERAND_BYTES + 128), "r"(v.w) : "memory");
}

// What a warp reads of 8 rows: operands that the kernel before has written, or the rows.
struct RowBlock {
  const Problem& p;
  int block, lane;

  __device__ __forceinline__ uint4 row(int step, int v) const {
    return load_x(p, block * 8 + (lane >> 2), step, v, lane & 3);
  }

  __device__ __forceinline__ uint4 load(int step, int v) const {
    if constexpr (PREPARED) return p.operands[(static_cast<size_t>(block) * p.steps + step) * STEP_VECTORS + v * 32 + lane];
    return row(step, v);
  }

  // The factor of this lane's row in a slice.
  __device__ __forceinline__ float factor(int begin, int end) const {
    const int own = block * 8 + (lane >> 2), t = lane & 3;
    unsigned most = 0;
    if constexpr (PREPARED) {
#pragma unroll
      for (int i = 0; i < LONGEST; i += 4) {
        const int step = begin + i + t;
        const int even = 2 * own * p.steps + step, odd = even + p.steps;
        if (own < p.rows && step < end) most = largest(largest(most, p.largest[even]), p.largest[odd]);
      }
    } else {
#pragma unroll 2
      for (int step = begin; step < end; ++step) {
#pragma unroll
        for (int v = 0; v < 4; ++v) most = largest(most, row(step, v));
      }
    }
    return FORMAT == BF16 ? 1.0f : range_factor(largest_of_row(most));
  }
};

// What a warp that brings 8 rows does. `slots` say where a step goes and when it may; `fetch` asks for its
// weights as well, where a slot has been emptied.
template <class Slots, class Fetch>
__device__ __forceinline__ void bring_x(const Problem& p, const Slots& slots, Fetch fetch, float* unscale, int rank,
                                        int block, int lane) {
  const RowBlock rows = {p, block, lane};
  const int first = rank * WARPS * p.steps / SLICES, last = (rank + 1) * WARPS * p.steps / SLICES;
  uint4 waiting[AHEAD][4];
#pragma unroll
  for (int d = 0; d < AHEAD; ++d)
    for (int v = 0; v < 4; ++v) waiting[d][v] = first + d < last ? rows.load(first + d, v) : make_uint4(0, 0, 0, 0);
  int slice = 0, next = first;
  float factor = 1.0f;
  bool other = false;  // a row's factor is not 1
  auto at = slots.first();
#pragma unroll 1
  for (int base = first; base < last; base += AHEAD) {
#pragma unroll
    for (int d = 0; d < AHEAD; ++d) {
      const int step = base + d;
      if (step >= last) break;
      slots.wait_empty(at);
      if (at.again) fetch(at, step);
      while (step == next) {  // slices may be empty
        next = (rank * WARPS + slice + 1) * p.steps / SLICES;
        factor = rows.factor(step, next);
        other = __any_sync(~0u, factor != 1.0f);
        if ((lane & 3) == 0)
          unscale[(slice * ROW_BLOCKS + block) * 8 + (lane >> 2)] = (FORMAT == NVFP4 ? SUM_FACTOR : 1.0f) / factor;
        ++slice;
      }
      const unsigned to = at.at + STAGE_BYTES + block * 256 + lane * 4;
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        uint4 x = waiting[d][v];
        if (!PREPARED) x = operand(x, factor);
        else if (other) x = operand(rows.row(step, v), factor);
        store_words(to + 2 * v * OPERAND_BYTES, x);
      }
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncwarp();
      if (elected()) arrive(at.filled);
      slots.advance(at);
#pragma unroll
      for (int v = 0; v < 4; ++v)
        if (step + AHEAD < last) waiting[d][v] = rows.load(step + AHEAD, v);
    }
  }
}
