// Multiply one step of some tiles.
#pragma once

#include "skinny_activations.cuh"
#include "skinny_decode.cuh"

__device__ __forceinline__ void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if FORMAT == BF16
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
#else
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
#endif
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A number that stays in a register: the compiler would compute it anew in every step.
__device__ __forceinline__ unsigned kept(unsigned v) {
  asm("mov.u32 %0, %0;" : "+r"(v));
  return v;
}

// Where this lane's bytes of a stage lie within its tiles and its scale runs.
struct LaneBytes {
  unsigned codes, scales;
  __device__ __forceinline__ explicit LaneBytes(int lane) : codes(kept(lane * 16)), scales(kept(lane * 4)) {}
};

struct Codes {
  uint4 low[CHUNKS], high[CHUNKS];  // of rows g and g + 8
  __half2 scales[2][2];             // [row half][group of 16 inputs], each twice
};

__device__ __forceinline__ void decode_scales(__half2 (&scales)[2], unsigned short e4m3) {
  unsigned pair = halves_of_e4m3(e4m3);
  const __half2 both = __hmul2(*reinterpret_cast<__half2*>(&pair), __float2half2_rn(SCALE_FACTOR));
  scales[0] = __low2half2(both);
  scales[1] = __high2half2(both);
}

template <class T>
__device__ __forceinline__ T load_shared(unsigned at) {
  T v;
  if constexpr (sizeof(T) == 16)
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at));
  else if constexpr (sizeof(T) == 2)
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(at));
  else
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at));
  return v;
}

__device__ __forceinline__ void load_codes(Codes& c, unsigned stage, int tile, const LaneBytes& lane) {
  const int half = tile % PAIR, within = tile / PAIR;  // gate tiles of a pair lie first, then up tiles
  const unsigned at = stage + lane.codes + half * CHUNKS * BOX_BYTES + within * 1024;
#pragma unroll
  for (int i = 0; i < CHUNKS; ++i) {
    c.low[i] = load_shared<uint4>(at + i * BOX_BYTES);
    c.high[i] = load_shared<uint4>(at + i * BOX_BYTES + 512);
  }
  if constexpr (FORMAT == NVFP4) {
    const int run = half * (TILES / PAIR) + within;
    const unsigned scale = load_shared<unsigned>(stage + lane.scales + CODES_BYTES + run * RUN_BYTES);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      decode_scales(c.scales[half], static_cast<unsigned short>(scale >> (16 * half)));
  }
}

// Multiply NUM tiles side by side, so that one's decoding fills the wait for another's instruction.
template <int NUM>
__device__ __forceinline__ void accumulate(float (*sum)[ROW_BLOCKS][4], unsigned stage, int first,
                                           const float* block_scale, const LaneBytes& lane, const Activations& x) {
  Codes codes[NUM];
#pragma unroll
  for (int j = 0; j < NUM; ++j) load_codes(codes[j], stage, first + j, lane);
  float part[NUM][ROW_BLOCKS][4];
  if constexpr (FORMAT == FP8_BLOCK) {
#pragma unroll
    for (int j = 0; j < NUM; ++j)
      for (int r = 0; r < ROW_BLOCKS; ++r)
        for (int i = 0; i < 4; ++i) part[j][r][i] = 0.0f;
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    uint4 b[ROW_BLOCKS];
#pragma unroll
    for (int r = 0; r < ROW_BLOCKS; ++r) b[r] = x.operands(r, v);
    unsigned upper[NUM][4], lower[NUM][4];
#pragma unroll
    for (int j = 0; j < NUM; ++j) {
      decode(codes[j].low, v, codes[j].scales[0][v / 2], upper[j]);
      decode(codes[j].high, v, codes[j].scales[1][v / 2], lower[j]);
    }
#pragma unroll
    for (int k = 0; k < 2; ++k)
      for (int j = 0; j < NUM; ++j) {
        const unsigned a[4] = {upper[j][2 * k], lower[j][2 * k], upper[j][2 * k + 1], lower[j][2 * k + 1]};
        for (int r = 0; r < ROW_BLOCKS; ++r) {
          float(&into)[4] = FORMAT == FP8_BLOCK ? part[j][r] : sum[first + j][r];
          multiply(into, a, k == 0 ? b[r].x : b[r].z, k == 0 ? b[r].y : b[r].w);
        }
      }
  }
  if constexpr (FORMAT == FP8_BLOCK) {
#pragma unroll
    for (int j = 0; j < NUM; ++j)
      for (int r = 0; r < ROW_BLOCKS; ++r)
        for (int i = 0; i < 4; ++i)
          sum[first + j][r][i] = __fmaf_rn(part[j][r][i], block_scale[first + j], sum[first + j][r][i]);
  }
}
