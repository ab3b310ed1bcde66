// Bring activations step by step, as wgmma reads them, while weights stream past.
#pragma once

#include "skinny_operands.cuh"
#include "skinny_streamed_course.cuh"
#include "skinny_wgmma.cuh"

constexpr int AHEAD = PREPARED ? 1 : 2;      // steps of rows whose loads are under way
constexpr int QUARTERS = (LONGEST + 3) / 4;  // of a slice: four lanes look at four steps at a time
constexpr bool LOOKS_AHEAD = PREPARED && QUARTERS <= 2;  // a slice's magnitudes wait in registers

// One vector of 8 rows: word by word matrices of 8 rows x 4 lanes.
__device__ __forceinline__ void store_words(unsigned at, uint4 v) {
  asm volatile("st.shared.u32 [%0], %1;" :: "r"(at), "r"(v.x) : "memory");
  asm volatile("st.shared.u32 [%0], %1;" :: "r"(at + 128), "r"(v.y) : "memory");
  asm volatile("st.shared.u32 [%0], %1;" :: "r"(at + 256), "r"(v.z) : "memory");
  asm volatile("st.shared.u32 [%0], %1;" :: "r"(at + 384), "r"(v.w) : "memory");
}

// What a warp reads of 8 rows.
struct RowBlock {
  const Problem& p;
  int block, lane;

  __device__ __forceinline__ uint4 row(int step, int v) const {
    return load_x(p, block * 8 + (lane >> 2), step, v, lane & 3);
  }

  __device__ __forceinline__ const uint4* operands(int step) const {
    return p.operands + static_cast<size_t>(block * p.steps + step) * STEP_VECTORS;
  }

  // The magnitudes of this lane's row in a lane's share of four steps.
  __device__ __forceinline__ void magnitudes(uint4 (&two)[2], int first, int end) const {
    const int own = block * 8 + (lane >> 2), step = first + (lane & 3), even = 2 * own * p.steps + step;
    const bool is = own < p.rows && step < end;
    two[0] = is ? p.largest[even] : make_uint4(0, 0, 0, 0);
    two[1] = is ? p.largest[even + p.steps] : make_uint4(0, 0, 0, 0);
  }

  // What the rows say themselves.
  __device__ __forceinline__ unsigned largest_of_rows(int begin, int end) const {
    unsigned most = 0;
#pragma unroll 2
    for (int step = begin; step < end; ++step) {
#pragma unroll
      for (int v = 0; v < 4; ++v) most = largest(most, row(step, v));
    }
    return most;
  }
};

// The largest magnitudes of the slices, one after the other; those of the next are under way.
struct Largest {
  uint4 parts[LOOKS_AHEAD ? QUARTERS : 1][2];

  __device__ __forceinline__ void ask(const RowBlock& rows, int begin, int end) {
    if constexpr (LOOKS_AHEAD) {
#pragma unroll
      for (int i = 0; i < QUARTERS; ++i) rows.magnitudes(parts[i], begin + 4 * i, end);
    }
  }

  __device__ __forceinline__ float factor(const RowBlock& rows, int begin, int end) {
    unsigned most = 0;
    if constexpr (LOOKS_AHEAD) {
#pragma unroll
      for (int i = 0; i < QUARTERS; ++i) most = largest(largest(most, parts[i][0]), parts[i][1]);
    } else if constexpr (PREPARED) {
#pragma unroll
      for (int i = 0; i < QUARTERS; ++i) {
        rows.magnitudes(parts[0], begin + 4 * i, end);
        most = largest(largest(most, parts[0][0]), parts[0][1]);
      }
    } else {
      most = rows.largest_of_rows(begin, end);
    }
    return range_factor(largest_of_row(most));
  }
};

// What a warp that brings 8 rows does: `slots` say where a step goes and when it may, `fetch` asks for the
// warp's share of the weights of a slot that has been emptied. Where x comes as operands and no row of the 8
// needs a factor in a slice, the copy engine brings them; else the rows are converted.
//
// The first slots' operands are asked for while the first magnitudes are on their way: `landed` is a barrier of
// the warp's own.
template <class Slots, class Fetch>
__device__ __forceinline__ void bring_x(const Problem& p, const Course& course, const Slots& slots, Fetch fetch,
                                        float* unscale, unsigned landed, int block, int lane) {
  const RowBlock rows = {p, block, lane};
  const int last = course.num_steps();
  auto row = [&](int step, int v) { return rows.row(course.step_of_k(step), v); };
  uint4 waiting[AHEAD][4];
  if constexpr (!PREPARED) {
#pragma unroll
    for (int d = 0; d < AHEAD; ++d)
      for (int v = 0; v < 4; ++v) waiting[d][v] = d < last ? row(d, v) : make_uint4(0, 0, 0, 0);
  }
  Largest largest;
  auto ask = [&](int slice) {
    const int first = course.step_of_k(course.begin(slice));
    largest.ask(rows, first, first + course.end(slice) - course.begin(slice));
  };
  ask(0);
  const int early = PREPARED ? min(STAGES, course.end(0)) : 0;
  if (PREPARED && elected()) {
    expect_bytes(landed, early * X_BLOCK_BYTES);
    auto at = slots.first();
#pragma unroll 1
    for (int step = 0; step < early; ++step) {
      copy_bytes(at.at + STAGE_BYTES + block * X_BLOCK_BYTES, rows.operands(course.step_of_k(step)), X_BLOCK_BYTES,
                 landed);
      slots.advance(at);
    }
  }
  int slice = 0, next = 0;
  float factor = 1.0f;
  bool converts = !PREPARED;
  auto at = slots.first();
#pragma unroll 1
  for (int base = 0; base < last; base += AHEAD) {
#pragma unroll
    for (int d = 0; d < AHEAD; ++d) {
      const int step = base + d;
      if (step >= last) break;
      const int of_k = course.step_of_k(step);
      slots.wait_empty(at);
      if (at.again) fetch(at, step);
      if (step == next) {  // a slice begins
        next = course.end(slice);
        factor = largest.factor(rows, of_k, of_k + next - step);
        converts = !PREPARED || __any_sync(~0u, factor != 1.0f);
        if ((lane & 3) == 0)
          unscale[(slice * ROW_BLOCKS + block) * 8 + (lane >> 2)] = SUM_FACTOR / factor;
        if (++slice < course.num_slices()) ask(slice);
      }
      if (PREPARED && step == 0) wait(landed, 0);
      const unsigned to = at.at + STAGE_BYTES + block * X_BLOCK_BYTES;
      if (converts) {
#pragma unroll
        for (int v = 0; v < 4; ++v)
          store_words(to + v * 512 + lane * 4, operand(PREPARED ? rows.row(of_k, v) : waiting[d][v], factor));
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
        if (elected()) arrive(at.filled);
      } else {
        __syncwarp();
        if (elected()) {
          if (step < early) {
            arrive(at.filled);
          } else {
            expect_bytes(at.filled, X_BLOCK_BYTES);
            copy_bytes(to, rows.operands(of_k), X_BLOCK_BYTES, at.filled);
          }
        }
      }
      slots.advance(at);
      if constexpr (!PREPARED) {
#pragma unroll
        for (int v = 0; v < 4; ++v)
          if (step + AHEAD < last) waiting[d][v] = row(step + AHEAD, v);
      }
    }
  }
}
