// Weights of skinny_streamed.cu: which rows a tile has, how its steps reach a slot, and where a lane finds them.
//
// A tile is 16 rows of the weight. Of a pair it is 8 of gate and the 8 of up that meet them, so that a thread
// has both of an output in its sums; the copy engine brings them by one box, which lies over both halves.
#pragma once

#include "skinny_ring.cuh"
#include "skinny_streamed_block.cuh"

struct WeightMaps {
  const TensorMap &four_codes, &codes, &runs;  // of four tiles, of one; scales of all tiles of a block
};

__device__ __forceinline__ int weight_row(const Problem& p, int tile, int row) {
  if constexpr (PAIR == 2) return row / 8 * (p.n / 2) + tile * 8 + row % 8;
  return tile * 16 + row;
}

// Say that a barrier's phase does not end before so many bytes have come; who arrives is another matter.
__device__ __forceinline__ void expect_more(unsigned barrier, int bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}

// Ask for one warp's share of a step of `count` tiles: boxes of four, the rest one by one, and the scales of all
// are dealt out to the four warps that bring.
__device__ __forceinline__ void fetch_step(const WeightMaps& maps, int first, int count, int step, int share,
                                           const Slots::At& slot) {
  const int fours = count / 4, boxes = fours + count % 4;
#pragma unroll 1
  for (int box = share; box < boxes; box += 4) {
    const bool four = box < fours;
    const int tile = four ? box * 4 : fours * 4 + box - fours;
    expect_more(slot.filled, (four ? 4 : 1) * TILE_BYTES);
    copy_codes(slot.at + tile * TILE_BYTES, four ? maps.four_codes : maps.codes, step, (first + tile) * (16 / PAIR),
               slot.filled);
  }
  if (boxes % 4 == share) {
    expect_more(slot.filled, RUNS * RUN_BYTES);
    copy_runs(slot.at + CODES_BYTES, maps.runs, step * RUN_BYTES, first / PAIR, slot.filled);
  }
}

// Where a lane's codes and scales of a tile lie in a slot. Of four tiles of a pair gate's rows lie first.
struct TileBytes {
  unsigned low, apart, scales;  // rows g, and how far behind them rows g + 8 are

  __device__ __forceinline__ TileBytes(int first, int count, int tile, int lane) {
    if constexpr (PAIR == 1) {
      low = kept(tile * TILE_BYTES + lane * 16);
      apart = TILE_BYTES / 2;
      scales = kept(CODES_BYTES + tile * RUN_BYTES + lane * 4);
    } else {
      const bool four = tile < count / 4 * 4;
      low = kept((four ? tile / 4 * 4 * TILE_BYTES + tile % 4 * (TILE_BYTES / 2) : tile * TILE_BYTES) + lane * 16);
      apart = four ? 4 * TILE_BYTES / 2 : TILE_BYTES / 2;
      const int run = (first + tile) / 2 - first / 2;
      scales = kept(CODES_BYTES + run * RUN_BYTES + lane * 4 + (first + tile) % 2 * 2);
    }
  }
};

__device__ __forceinline__ void load_tile(Codes& c, unsigned slot, const TileBytes& own) {
  c.low[0] = load_shared<uint4>(slot + own.low);
  c.high[0] = load_shared<uint4>(slot + own.low + own.apart);
  if constexpr (PAIR == 1) {
    const unsigned both = load_shared<unsigned>(slot + own.scales);
    decode_scales(c.scales[0], static_cast<unsigned short>(both));
    decode_scales(c.scales[1], static_cast<unsigned short>(both >> 16));
  } else {
    decode_scales(c.scales[0], load_shared<unsigned short>(slot + own.scales));
    decode_scales(c.scales[1], load_shared<unsigned short>(slot + own.scales + RUNS / 2 * RUN_BYTES));
  }
}
