// What a skinny product is compiled for, and what a launch of it is told.
#pragma once

#include "../common/operands.cuh"
#include "../common/tensor_map.cuh"

#define NVFP4 0
#define FP8_BLOCK 1
#define E4M3_ROW 2
#define BF16 3

#define STORE 0
#define ADD_RESIDUAL 1
#define SILU_PAIR 2

// Where the activations are while weights stream past: in shared memory as operands, or in global
// memory, read and converted anew for each group of tiles. Or they stream past too (skinny_streamed.cu).
#define SHARED 0
#define GLOBAL 1
#define STREAMED 2

// Compile-time choices. Of a tile and a problem, by `macros` of tile.py: FORMAT, ROW_BLOCKS (of 8
// rows), LONGEST (steps of the longest slice), SPLITS, CREW, FINISHERS, TILES (of 16 outputs, side by
// side), STAGES, SOURCE. Of a launch, by `cubin` of skinny_launch.py: EPILOGUE, OUT_FP32, OVERLAP,
// PREPARED (x comes as operands too) and, where the target has it, E2M1_CONVERTER.

__host__ __device__ constexpr int aligned(int bytes) { return (bytes + 127) / 128 * 128; }

constexpr int SLICES = 8;  // of K; tile.py says the same
constexpr int WARPS = SLICES / SPLITS;  // of a team, in one block
constexpr int STEP = 128;
constexpr int CHUNKS = FORMAT == NVFP4 ? 1 : FORMAT == BF16 ? 4 : 2;  // 64-byte pieces of a row's step
constexpr int CHUNK_INPUTS = 32 / CHUNKS;  // of a lane
constexpr bool ROW_SCALED = FORMAT == NVFP4 || FORMAT == E4M3_ROW;
constexpr int PAIR = EPILOGUE == SILU_PAIR ? 2 : 1;  // tiles that make one tile of outputs
constexpr int STEP_BYTES = CHUNKS * 64;  // of a row
constexpr int TILE_BYTES = 16 * STEP_BYTES;
constexpr int BOX_BYTES = TILES / PAIR * 1024;  // 64 bytes of each row of a half, read without conflicts
constexpr int RUN_BYTES = FORMAT == NVFP4 ? 128 : 0;  // scales of a tile's step
constexpr int CODES_BYTES = TILES * TILE_BYTES;
// Where a pair's activations stream past, a tile is 8 outputs of gate and the same 8 of up: runs of whole tiles.
constexpr int RUNS = SOURCE == STREAMED && PAIR == 2 ? 2 * (TILES / 2 + 1) : TILES;
constexpr int STAGE_BYTES = CODES_BYTES + RUNS * RUN_BYTES;
constexpr int BLOCK_FLOATS = 128;  // sums of 16 outputs and 8 rows
constexpr int WARP_FLOATS = TILES * ROW_BLOCKS * BLOCK_FLOATS;
constexpr int WORKERS = CREW * WARPS;  // warps that multiply; FINISHERS more finish their groups
constexpr int THREADS = (WORKERS + FINISHERS) * 32;
constexpr int TEAM_BARRIERS = 4;  // beside those of its rings
constexpr int BARRIER_BYTES = aligned(8 * (CREW * TEAM_BARRIERS + WORKERS * STAGES + WARPS));
constexpr int STEP_VECTORS = 4 * 32;  // of a step's activations, 8 rows: four for each lane
constexpr int SHARED_X = ROW_BLOCKS * LONGEST * STEP_VECTORS;  // of a slice's: [row block][step][vector][lane]
constexpr int MOVED = (LONGEST * 4 + CREW - 1) / CREW;   // of its pieces of 32 inputs, those that one warp brings
// Whether pieces wait in registers for their factor; prepared rows are hardly ever brought so.
constexpr bool KEPT = SOURCE == SHARED && PREPARED == 0 && MOVED * ROW_BLOCKS <= 10;
constexpr int GROUP_BLOCKS = TILES / PAIR * ROW_BLOCKS;  // of a group's results, 16 outputs x 8 rows
// Of all teams' blocks, those that one rank finishes.
constexpr int PLACES = (CREW * GROUP_BLOCKS + SPLITS - 1) / SPLITS;
constexpr int PART_FLOATS = PAIR * BLOCK_FLOATS;  // what one rank knows of a block
constexpr int RINGS_BYTES = WARPS * STAGES * STAGE_BYTES;
// Where teams have one group each, many rows leave no room for sums beside all else: those of a warp then
// lie where its ring was, and what ranks send each other where the activations were.
constexpr bool OVERLAID = FINISHERS == 0 && SPLITS > 1 && SOURCE == SHARED && ROW_BLOCKS > 2;
constexpr int SUMS_STRIDE = OVERLAID ? STAGES * STAGE_BYTES / 4 : WARP_FLOATS;  // from one warp's to the next's
constexpr int SUMS_BYTES = OVERLAID ? 0 : 4 * WARPS * WARP_FLOATS;
constexpr int EXCHANGES = SPLITS == 1 ? 0 : FINISHERS > 0 ? 2 : 1;  // groups whose parts may be under way
constexpr int EXCHANGE_BYTES = OVERLAID ? 0 : 4 * EXCHANGES * PLACES * SPLITS * PART_FLOATS;

// Sizes: T = rows, N = n, Kp = 128 steps, tiles = ceil(N / 16), teams = CREW x clusters of the grid.
// `Arguments` of skinny_launch.py has the same fields in the same order.
struct Problem {
  const __nv_bfloat16* x;         // [T, Kp], row stride x_stride
  const unsigned char* scales;    // e4m3 runs, or fp32 [N/128, Kp/128]
  const float* row_scales;        // [N]
  const __nv_bfloat16* residual;  // [T, N], row stride residual_stride
  void* out;                      // [T, N] or, for pairs, [T, N/2]
  int rows, n, steps, x_stride, out_stride, residual_stride, tiles, teams;
  const uint4* operands;          // PREPARED: x as `Operands` of kernels/common/operands.py
  const uint4* largest;           // their magnitudes, [T, 2, Kp/128] times eight of 16 bits
  NextOperands next;              // of a pair's results
  float4* left_sums;              // what skinny_streamed_left.cuh says
  unsigned* left_slices;          // how many are there, of each four tiles; 0 between launches
};

// Which tile of the weight stands where: of a pair, gate and up alternate.
__device__ __forceinline__ int weight_tile(const Problem& p, int tile) {
  if constexpr (EPILOGUE == SILU_PAIR) return (tile >> 1) + (tile & 1) * (p.tiles >> 1);
  return tile;
}
