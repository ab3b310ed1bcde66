// Finish groups: add up what the warps of a team have stored, send it where it is at home, write it.
//
// A team's last group is finished by the warps that multiplied. Groups before it are finished by warps
// that do nothing else, so that those which multiply go on and their rings never stand still; finisher i
// serves the teams i, i + FINISHERS, ... of its block. Where no team has more than one group there are none.
//
// Blocks of 16 outputs x 8 rows have a home each among the ranks of a cluster, to which all ranks
// send their part. Two places do: who sends group i + 2 has seen all parts of i + 1 arrive, and who had
// sent one of those had finished i.
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
  return (FINISHERS > 0 ? group & 1 : 0) * PLACES + (team.member * GROUP_BLOCKS + at) / SPLITS;
}

// Add the sums of this block's warps; write the results, or send them to their homes. Of MANY warps that
// do so together this is the `one`-th.
template <int MANY>
__device__ __forceinline__ void add_warps(const Problem& p, const Block& block, const Team& team, int group, int one,
                                          int lane) {
  const int base = team.first + group * TILES;
  wait(team.stored, group & 1);
  if constexpr (SPLITS > 1) {
    const int bytes = Home(team, block.rank).count * SPLITS * PART_FLOATS * 4;
    if (one == 0 && lane < SPLITS) tell(team.exchanged + 8 * (group & 1), lane, block.rank, bytes);
  }
#pragma unroll 1
  for (int at = one; at < GROUP_BLOCKS; at += MANY) {
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
      if (base + tile < team.last)
        write_block(p, team.scales + (base - team.first + tile) * 16, base + tile, rows, lane, sum);
    }
  }
}

// Wait until all ranks have sent their parts of a group.
__device__ __forceinline__ void wait_for_ranks(const Team& team, int group) {
  wait_for_others(team.exchanged + 8 * (group & 1), group >> 1 & 1);
}

// Add the parts of all ranks, and write the blocks that are at home here.
template <int MANY>
__device__ __forceinline__ void add_ranks(const Problem& p, const Block& block, const Team& team, int group, int one,
                                          int lane) {
  const int base = team.first + group * TILES;
  wait_for_ranks(team, group);
#pragma unroll 1
  for (int at = Home(team, block.rank).first + one * SPLITS; at < GROUP_BLOCKS; at += MANY * SPLITS) {
    const int tile = at / ROW_BLOCKS * PAIR, rows = at % ROW_BLOCKS;
    const float* const parts = block.exchange() + place(team, group, at) * SPLITS * PART_FLOATS + lane * 4;
    float4 sum[PAIR];
#pragma unroll
    for (int half = 0; half < PAIR; ++half) sum[half] = tree_sum<SPLITS>(parts + half * BLOCK_FLOATS, PART_FLOATS);
    if (base + tile < team.last)
      write_block(p, team.scales + (base - team.first + tile) * 16, base + tile, rows, lane, sum);
  }
}

// What a finisher does: all groups of its teams but the last.
__device__ __forceinline__ void finish_groups(const Problem& p, const Block& block, int finisher, int lane) {
  bool left = true;
#pragma unroll 1
  for (int group = 0; left; ++group) {
    left = false;
#pragma unroll 1
    for (int member = finisher; member < CREW; member += FINISHERS) {
      const Team team(p, block, member);
      if (team.first + (group + 1) * TILES >= team.last) continue;
      left = true;
      add_warps<1>(p, block, team, group, 0, lane);
      __syncwarp();
      if (lane == 0) arrive(team.read);
    }
    if constexpr (SPLITS > 1) {
#pragma unroll 1
      for (int member = finisher; member < CREW; member += FINISHERS) {
        const Team team(p, block, member);
        if (team.first + (group + 1) * TILES < team.last) add_ranks<1>(p, block, team, group, 0, lane);
      }
      __syncwarp();  // all lanes have read this group's parts before one tells of the next
    }
  }
}

// What the multiplying warps of a team do when they have stored their last sums.
__device__ __forceinline__ void finish_last(const Problem& p, const Block& block, const Team& team, int group, int warp,
                                            int lane) {
  if constexpr (FINISHERS > 0 && SPLITS > 1) {
    if (group > 0) wait_for_ranks(team, group - 1);
  }
  if constexpr (OVERLAID) meet_cluster();
  add_warps<WARPS>(p, block, team, group, warp, lane);
  if constexpr (SPLITS > 1) add_ranks<WARPS>(p, block, team, group, warp, lane);
}
