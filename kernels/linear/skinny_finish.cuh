// Finish groups: warps that do nothing else add up what the multiplying warps stored, and write it.
//
// So a multiplying warp stores its sums and goes on; its ring never stands still. One finisher serves
// the teams `finisher`, `finisher` + FINISHERS, ... of its block.
//
// Blocks of 16 outputs x 8 rows have a home each among the ranks of a cluster, to which all ranks
// send their part. Two places do: who sends group i + 2 has finished i + 1, which all had sent, and who
// had sent that had finished i.
#pragma once

#include "skinny_barriers.cuh"
#include "skinny_sums.cuh"
#include "skinny_team.cuh"

struct Home {
  int first, count;  // the first block of a team's group that this rank finishes, each SPLITS after it; how many

  __device__ __forceinline__ Home(const Team& team, int rank) {
    first = (rank + SPLITS - team.member * GROUP_BLOCKS % SPLITS) % SPLITS;
    count = (GROUP_BLOCKS - first + SPLITS - 1) / SPLITS;
  }
};

__device__ __forceinline__ int place(const Team& team, int group, int at) {
  return (group & 1) * PLACES + (team.member * GROUP_BLOCKS + at) / SPLITS;
}

// Add the sums of this block's warps; write the results, or send them to their homes.
__device__ __forceinline__ void add_warps(const Problem& p, const Block& block, const Team& team, int group, int lane) {
  const int base = team.first + group * TILES;
  wait(team.stored, group & 1);
  if constexpr (SPLITS > 1) {
    const int bytes = Home(team, block.rank).count * SPLITS * PART_FLOATS * 4;
    if (lane < SPLITS) tell(team.exchanged + 8 * (group & 1), lane, block.rank, bytes);
  }
#pragma unroll 1
  for (int at = 0; at < GROUP_BLOCKS; ++at) {
    const int tile = at / ROW_BLOCKS * PAIR, rows = at % ROW_BLOCKS;
    float4 sum[PAIR];
#pragma unroll
    for (int half = 0; half < PAIR; ++half)
      sum[half] = sum_of_warps(team.sums, (tile + half) * ROW_BLOCKS + rows, lane);
    if constexpr (SPLITS > 1) {
      float* const to = block.exchange() + (place(team, group, at) * SPLITS + block.rank) * PART_FLOATS + lane * 4;
      const int home = (team.member * GROUP_BLOCKS + at) % SPLITS;
#pragma unroll
      for (int half = 0; half < PAIR; ++half)
        send(shared_address(to + half * BLOCK_FLOATS), team.exchanged + 8 * (group & 1), home, sum[half]);
    } else {
      if (base + tile < team.last) write_block(p, team.scales + (base - team.first + tile) * 16, base + tile, rows, lane, sum);
    }
  }
  __syncwarp();
  if (lane == 0) arrive(team.read);
}

// Add the parts of all ranks, and write the blocks that are at home here.
__device__ __forceinline__ void add_ranks(const Problem& p, const Block& block, const Team& team, int group, int lane) {
  const int base = team.first + group * TILES;
  wait(team.exchanged + 8 * (group & 1), group >> 1 & 1);
#pragma unroll 1
  for (int at = Home(team, block.rank).first; at < GROUP_BLOCKS; at += SPLITS) {
    const int tile = at / ROW_BLOCKS * PAIR, rows = at % ROW_BLOCKS;
    const float* const parts = block.exchange() + place(team, group, at) * SPLITS * PART_FLOATS + lane * 4;
    float4 sum[PAIR];
#pragma unroll
    for (int half = 0; half < PAIR; ++half) sum[half] = tree_sum<SPLITS>(parts + half * BLOCK_FLOATS, PART_FLOATS);
    if (base + tile < team.last) write_block(p, team.scales + (base - team.first + tile) * 16, base + tile, rows, lane, sum);
  }
}

__device__ __forceinline__ void finish(const Problem& p, const Block& block, int finisher, int lane) {
  bool left = true;
#pragma unroll 1
  for (int group = 0; left; ++group) {
    left = false;
#pragma unroll 1
    for (int member = finisher; member < CREW; member += FINISHERS) {
      const Team team(p, block, member);
      if (team.first + group * TILES >= team.last) continue;
      left = true;
      add_warps(p, block, team, group, lane);
    }
    if constexpr (SPLITS > 1) {
#pragma unroll 1
      for (int member = finisher; member < CREW; member += FINISHERS) {
        const Team team(p, block, member);
        if (team.first + group * TILES < team.last) add_ranks(p, block, team, group, lane);
      }
    }
  }
}
