// What a block of skinny_streamed.cu multiplies, and in what order: slices of K, one after the other.
//
// Where a weight has a few tiles more than all blocks together have places for, as many warps again would work for
// one tile of each block. So those tiles are left over: four of them and one slice of K are a block's first work,
// and who comes last of the SLICES blocks with the same four adds their sums up (skinny_streamed_left.cuh).
#pragma once

#include "skinny_problem.cuh"

// The tiles that are left over for a block, and the slice of K by which it multiplies them.
struct Left {
  int first, slice;
  bool is;

  __device__ __forceinline__ explicit Left(const Problem& p) {
    const int whole = p.teams * TILES, unit = blockIdx.x;
    is = FINISHERS > 0 && unit < (p.tiles - whole) / 4 * SLICES;
    first = whole + unit / SLICES * 4;
    slice = unit % SLICES;
  }
};

// Slices and steps are counted as the block comes to them.
struct Course {
  int steps;             // of K
  int from, left_from;   // the first steps of the block's own slices, and of the one before them
  int own;               // the first of its own slices
  int before, ahead;     // slices and steps before them

  __device__ __forceinline__ Course(const Problem& p, const Left& left, int rank) : steps(p.steps), own(rank * WARPS) {
    from = bound(own);
    left_from = before = ahead = 0;
    if constexpr (FINISHERS > 0) {
      if (left.is) {
        before = 1;
        left_from = bound(left.slice);
        ahead = bound(left.slice + 1) - left_from;
      }
    }
  }

  __device__ __forceinline__ int bound(int slice) const { return slice * steps / SLICES; }
  __device__ __forceinline__ int num_slices() const { return WARPS + before; }
  __device__ __forceinline__ int num_steps() const { return ahead + bound(own + WARPS) - from; }
  __device__ __forceinline__ int begin(int slice) const {
    return slice < before ? 0 : ahead + bound(own + slice - before) - from;
  }
  __device__ __forceinline__ int end(int slice) const { return begin(slice + 1); }
  // Which step of K it is.
  __device__ __forceinline__ int step_of_k(int step) const {
    return step < ahead ? left_from + step : from + step - ahead;
  }
};
