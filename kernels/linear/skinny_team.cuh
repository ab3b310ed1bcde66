// Where the things of a team lie in its block.
#pragma once

#include "skinny_problem.cuh"

// barriers | activations | their largest | factors | what ranks send | and of each team: rings | a group's
// sums of all warps | row or block scales
struct Block {
  unsigned char* shared;
  int rank;
  unsigned pairs;  // tiles of the weight, or pairs of them

  __device__ __forceinline__ Block(const Problem& p, unsigned char* shared)
      : shared(shared), rank(blockIdx.x % SPLITS), pairs(p.tiles / PAIR) {}

  // Of a slice's operands.
  __device__ __forceinline__ unsigned brought(int warp) const {
    return shared_address(shared) + 8 * (CREW * TEAM_BARRIERS + WORKERS * STAGES + warp);
  }
  __device__ __forceinline__ uint4* activations(int warp) const {
    return reinterpret_cast<uint4*>(shared + BARRIER_BYTES) + warp * SHARED_X;
  }
  __device__ __forceinline__ unsigned char* rows() const {
    return shared + BARRIER_BYTES + (SOURCE == SHARED ? WARPS * SHARED_X * 16 : 0);
  }
  __device__ __forceinline__ unsigned* largest(int warp) const {
    return reinterpret_cast<unsigned*>(rows()) + warp * ROW_BLOCKS * 8;
  }
  __device__ __forceinline__ float* factors(int warp) const {
    return reinterpret_cast<float*>(rows()) + (WARPS + warp) * ROW_BLOCKS * 8;
  }
  __device__ __forceinline__ unsigned char* teams() const {
    return rows() + aligned(2 * WARPS * ROW_BLOCKS * 8 * 4);
  }
  __device__ __forceinline__ float* exchange() const {
    return OVERLAID ? reinterpret_cast<float*>(shared + BARRIER_BYTES) : reinterpret_cast<float*>(teams());
  }
};

struct Team {
  int member;
  int first, last;  // tiles of the weight: first to last - 1
  int scale_rows;   // FP8: rows of scales of a half of a pair, at most
  unsigned exchanged, stored, read;  // barriers: a group's parts have come (two); its sums are stored, are read
  unsigned filled;                   // and one for each stage of each ring
  unsigned char* rings;
  float *sums, *scales;

  __device__ __forceinline__ Team(const Problem& p, const Block& block, int member) : member(member) {
    const unsigned team = blockIdx.x / SPLITS * CREW + member;
    first = static_cast<int>(team * block.pairs / p.teams) * PAIR;
    last = static_cast<int>((team + 1) * block.pairs / p.teams) * PAIR;
    const int most = (block.pairs + p.teams - 1) / p.teams;  // tiles of a team, or pairs of them
    scale_rows = (most + 6) / 8 + 1;
    const int scale_floats =
        ROW_SCALED ? most * PAIR * 16 : FORMAT == FP8_BLOCK ? WARPS * LONGEST * PAIR * scale_rows : 0;
    const unsigned barriers = shared_address(block.shared);
    exchanged = barriers + member * 8 * TEAM_BARRIERS;
    stored = exchanged + 16;
    read = exchanged + 24;
    filled = barriers + 8 * (CREW * TEAM_BARRIERS + member * WARPS * STAGES);
    unsigned char* const teams = block.teams() + EXCHANGE_BYTES;
    rings = teams + member * RINGS_BYTES;
    sums = reinterpret_cast<float*>(OVERLAID ? rings : teams + CREW * RINGS_BYTES + member * SUMS_BYTES);
    scales = reinterpret_cast<float*>(teams + CREW * (RINGS_BYTES + SUMS_BYTES)) + member * scale_floats;
  }
};
