// Add up what the blocks of a cluster have summed, and write it.
#pragma once

#include "skinny_streamed_block.cuh"
#include "skinny_streamed_gated.cuh"
#include "skinny_sums.cuh"

__device__ __forceinline__ void send_pair(unsigned to, unsigned barrier, int rank, float2 v) {
  asm volatile(
      "{ .reg .u32 there, counter; mapa.shared::cluster.u32 there, %0, %2; mapa.shared::cluster.u32 counter, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [there], {%3, %4}, [counter]; }"
      :: "r"(to), "r"(barrier), "r"(rank), "r"(__float_as_uint(v.x)), "r"(__float_as_uint(v.y)) : "memory");
}

// A warp's sums of 16 rows of the weight, as blocks with 8 activation rows: where the two lie that a thread has of
// row g, or g + 8, of the weight.
__device__ __forceinline__ int place_in_block(int half, int lane) {
  return place_of_pair(0, 2 * (lane & 3), (lane >> 2) + half * 8);
}

// The sum of a block over ranks, as write_block takes it.
__device__ __forceinline__ float4 sum_of_ranks(const float* parts, int lane) {
  const int output = lane >> 1, half = (lane & 1) ^ (output >> 3);
  const float4 sum = tree_sum<SPLITS>(parts + output * 8 + half * 4, BLOCK_FLOATS);
  return output >> 2 & 1 ? make_float4(sum.z, sum.w, sum.x, sum.y) : sum;
}

// Finish a block whose parts all ranks have stored.
__device__ __forceinline__ void write_parts(const Problem& p, const float* scales, int tile, int block, int lane,
                                            const float* parts) {
  if constexpr (PAIR == 2) {
    const float2 gate = tree_sum<SPLITS, float2>(parts + place_in_block(0, lane), BLOCK_FLOATS);
    const float2 up = tree_sum<SPLITS, float2>(parts + place_in_block(1, lane), BLOCK_FLOATS);
    const float sums[4] = {gate.x, gate.y, up.x, up.y};
    write_gated<1>(p, scales, tile, block, lane, sums);
  } else {
    const float4 whole[PAIR] = {sum_of_ranks(parts, lane)};
    write_block(p, scales, tile, block, lane, whole);
  }
}

// What a warp does with the sums of the block's tile `index`; of none where there are fewer.
__device__ __forceinline__ void finish(const Problem& p, const Places& places, const float (&sum)[SUMS], int first,
                                       int count, int rank, unsigned exchanged, int index, int lane) {
  const bool mine = index < count;
  const float* const scales = places.scales();
  __syncwarp();
  if constexpr (SPLITS == 1 && PAIR == 2) {
    if (mine) write_gated<ROW_BLOCKS>(p, scales + index * 16, first + index, 0, lane, sum);
    return;
  }
#pragma unroll
  for (int r = 0; r < ROW_BLOCKS; ++r)
    for (int half = 0; half < 2; ++half) {
      const float2 pair = make_float2(sum[4 * r + 2 * half], sum[4 * r + 2 * half + 1]);
      if constexpr (SPLITS > 1) {
        const int block = index * ROW_BLOCKS + r;
        float* const place = places.exchange() + (block / SPLITS * SPLITS + rank) * BLOCK_FLOATS;
        if (mine) send_pair(shared_address(place + place_in_block(half, lane)), exchanged, block % SPLITS, pair);
      } else {
        float* const place = reinterpret_cast<float*>(places.kept(index, 0)) + r * BLOCK_FLOATS;
        *reinterpret_cast<float2*>(place + place_in_block(half, lane)) = pair;
      }
    }
  __syncwarp();
  if constexpr (SPLITS > 1) {
    wait_for_others(exchanged, 0);
#pragma unroll 1
    for (int block = rank + index * SPLITS; block < count * ROW_BLOCKS; block += MULTIPLIERS * SPLITS) {
      const int of = block / ROW_BLOCKS;
      const float* const parts = places.exchange() + block / SPLITS * SPLITS * BLOCK_FLOATS;
      write_parts(p, scales + of * 16, first + of, block % ROW_BLOCKS, lane, parts);
    }
  } else if (mine) {
#pragma unroll
    for (int r = 0; r < ROW_BLOCKS; ++r) {
      const float* const parts = reinterpret_cast<float*>(places.kept(index, 0)) + r * BLOCK_FLOATS;
      write_parts(p, scales + index * 16, first + index, r, lane, parts);
    }
  }
}
