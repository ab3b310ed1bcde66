// Multiply 1 to 32 rows of activations by a weight that is read from memory once.
//
// y[r, n] = sum over k of x[r, k] * w[n, k], one template over four weight formats. The weight is
// the A operand of mma.m16n8k16 (16 outputs), the activations are B (8 rows), sums are fp32.
//
// Order of a sum, which is all that decides its bits. K is cut into SLICES of whole steps of 128.
// One warp walks a slice in order of k, eight MMAs a step; the slices' sums are added as a binary
// tree of neighbours. Nothing here depends on the number of rows, on the rows beside a row, on how
// many blocks share K, or on how tiles are shared out among teams.
//
// Lane (g, t) = (lane / 4, lane % 4) holds weight rows g and g + 8 of a tile, 32 inputs of each step.
// A dot product does not care which input sits in which slot of an instruction, so the inputs of a
// lane are those of its own 16-byte loads, and activations are laid out to match: no shuffles.
//
// A team is a warp for each slice, spread over the SPLITS blocks of a cluster, and computes tiles of
// its own. CREW teams share a cluster, so that all read the same activations in shared memory; they
// meet nowhere else. A warp has a ring of its own there, filled by the copy engine: one stage is one
// step of the TILES tiles of a group. skinny_finish.cuh says who adds up what a group's warps have summed.

#include "skinny_activations.cuh"
#include "skinny_barriers.cuh"
#include "skinny_finish.cuh"
#include "skinny_operands.cuh"
#include "skinny_ring.cuh"
#include "skinny_step.cuh"
#include "skinny_team.cuh"

// Launch: p.teams / CREW clusters of SPLITS blocks of THREADS threads, each with the dynamic shared
// memory that `shared_bytes` of tile_room.py counts. A team computes tiles first to last - 1.
//
// codes  the weight's rows as bytes, [halves of a pair, pieces of 64, N, 64]; a box is a step of
//        16 x TILES / PAIR rows, of both halves
// runs   NVFP4: scale runs as bytes, [halves of a pair, tiles, Kp]; a box is one run of TILES / PAIR
//        tiles, of both halves. Other formats pass any map, which is never read.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    skinny(const __grid_constant__ Problem p, const __grid_constant__ TensorMap codes,
           const __grid_constant__ TensorMap runs) {
  extern __shared__ __align__(128) unsigned char shared[];
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const int index = __shfl_sync(~0u, threadIdx.x >> 5, 0);  // of the warp; the compiler sees that lanes agree
  const Block block(p, shared);
  if (index >= WORKERS) {
    if constexpr (SPLITS > 1) arrive_at_cluster();
    meet_block();
    if constexpr (OVERLAP) wait_for_predecessor();
    if constexpr (SPLITS > 1) wait_for_cluster();
    if constexpr (FINISHERS > 0) finish_groups(p, block, index - WORKERS, lane);
    return;
  }

  const int warp = index % WARPS, member = index / WARPS, slice = block.rank * WARPS + warp;
  const int begin = slice * p.steps / SLICES, end = (slice + 1) * p.steps / SLICES;
  const Team team(p, block, member);
  const int first = team.first, last = team.last, scale_rows = team.scale_rows;
  uint4* const shared_x = block.activations(warp);
  float* const unscale = block.factors(warp);
  float* const block_scales = team.scales + warp * LONGEST * PAIR * scale_rows;
  const unsigned ring = shared_address(team.rings) + warp * STAGES * STAGE_BYTES;
  const unsigned filled = team.filled + warp * STAGES * 8, brought = block.brought(warp);

  if (lane == 0) {
    for (int i = 0; i < STAGES; ++i) set_up_barrier(filled + 8 * i, 1);
    if (member == 0) set_up_barrier(brought, 1);
    if (warp == 0) {
      for (int i = 0; i < 2; ++i) set_up_barrier(team.exchanged + 8 * i, SPLITS);
      set_up_barrier(team.stored, WARPS);
      set_up_barrier(team.read, 1);
    }
    show_barriers();
  }
  __syncwarp();
  if constexpr (SPLITS > 1) arrive_at_cluster();

  // The stage to use and the one before it, which is filled anew meanwhile; addresses all along, because
  // arithmetic here costs time in every step.
  Cursor next = {first / PAIR, begin};
  Slot use = {ring, filled}, into = {ring + (STAGES - 1) * STAGE_BYTES, filled + (STAGES - 1) * 8};
  auto fetch = [&](const Slot& into) {
    if (next.tile < last / PAIR && begin < end) {
      if (elected()) fetch_stage(codes, runs, next, into);
      if (++next.step == end) {
        next.step = begin;
        next.tile += TILES / PAIR;
      }
    }
  };
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) fetch({ring + i * STAGE_BYTES, filled + i * 8});
  if constexpr (ROW_SCALED) {
    for (int i = warp * 32 + lane; i < (last - first) * 16; i += WARPS * 32) {
      const int n = weight_tile(p, first + i / 16) * 16 + i % 16;
      if (n < p.n) copy_float(team.scales + i, p.row_scales + n);
      else team.scales[i] = 0.0f;
    }
  }
  if constexpr (FORMAT == FP8_BLOCK) {
    const int steps = end - begin;
    for (int i = lane; i < PAIR * scale_rows * steps; i += 32) {
      const int half = i / (scale_rows * steps), within = i / steps % scale_rows;
      const int row = min(weight_tile(p, first + half) / 8 + within, (p.n - 1) / 128);
      copy_float(block_scales + i / steps * LONGEST + i % steps,
                 reinterpret_cast<const float*>(p.scales) + row * p.steps + begin + i % steps);
    }
  }
  if (member == 0) {
    for (int i = lane; i < ROW_BLOCKS * 8; i += 32) block.largest(warp)[i] = 0;
  }
  meet_block();
  if constexpr (OVERLAP) wait_for_predecessor();

  // What undoes a row's factor waits in shared memory until the row's sums are stored.
  float factor[ROW_BLOCKS];  // of this lane's activation row g in each block
  if (!bring_operands(p, shared_x, begin, end, member, lane, brought, factor))
    prepare_x(p, shared_x, block.largest(warp), begin, end, member, lane, factor);
  if (member == 0 && t == 0) {
#pragma unroll
    for (int r = 0; r < ROW_BLOCKS; ++r) unscale[r * 8 + g] = (FORMAT == NVFP4 ? SUM_FACTOR : 1.0f) / factor[r];
  }
  if constexpr (ROW_SCALED || FORMAT == FP8_BLOCK) wait_for_floats();
  meet_workers();
  if constexpr (SPLITS > 1) wait_for_cluster();  // all have started, so all can be sent to

  const LaneBytes bytes(lane);
  int phase = 0, group = 0;
#pragma unroll 1
  for (int base = first; base < last; base += TILES, ++group) {
    float sum[TILES][ROW_BLOCKS][4];
#pragma unroll
    for (int j = 0; j < TILES; ++j)
      for (int r = 0; r < ROW_BLOCKS; ++r)
        for (int i = 0; i < 4; ++i) sum[j][r][i] = 0.0f;

    const uint4* lane_x = shared_x + lane;
#pragma unroll 1
    for (int step = begin; step < end; ++step) {
      __syncwarp();  // all lanes have read the stage before this one, which is filled anew
      fetch(into);
      wait(use.barrier, phase);
      float block_scale[TILES];
      if constexpr (FORMAT == FP8_BLOCK) {
#pragma unroll
        for (int j = 0; j < TILES; ++j) {
          const int half = j % PAIR, row = weight_tile(p, base + j) / 8 - weight_tile(p, first + half) / 8;
          const int within = min(row, scale_rows - 1);  // tiles beyond the team's are computed, not used
          block_scale[j] = block_scales[(half * scale_rows + within) * LONGEST + step - begin];
        }
      }
      const Activations x = {p, lane_x, step, lane, factor};
#pragma unroll
      for (int j = 0; j + 1 < TILES; j += 2) accumulate<2>(sum, use.at, j, block_scale, bytes, x);
      if constexpr (TILES % 2 == 1) accumulate<1>(sum, use.at, TILES - 1, block_scale, bytes, x);
      lane_x += STEP_VECTORS;
      into = use;
      phase ^= use.advance(ring, filled);
    }

    if (group > 0) wait(team.read, (group - 1) & 1);  // there is one place for a group's sums
    if constexpr (OVERLAID) __syncwarp();             // which is the ring, of which all lanes have read the last stage
#pragma unroll
    for (int j = 0; j < TILES; ++j)
      for (int r = 0; r < ROW_BLOCKS; ++r)
        for (int half = 0; half < 2; ++half) {
          const float2 factors = *reinterpret_cast<const float2*>(unscale + r * 8 + 2 * t);
          float* const place = team.sums + warp * SUMS_STRIDE + place_of_pair(j * ROW_BLOCKS + r, 2 * t, g + half * 8);
          *reinterpret_cast<float2*>(place) =
              make_float2(__fmul_rn(sum[j][r][2 * half], factors.x),
                          __fmul_rn(sum[j][r][2 * half + 1], factors.y));
        }
    __syncwarp();
    if (elected()) arrive(team.stored);
    if (base + TILES >= last) finish_last(p, block, team, group, warp, lane);
  }
  if constexpr (OVERLAID) {
    if (first >= last) meet_cluster();
  }
}
