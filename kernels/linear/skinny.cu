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
// step of the TILES tiles of a group.

#include "skinny_activations.cuh"
#include "skinny_barriers.cuh"
#include "skinny_operands.cuh"
#include "skinny_ring.cuh"
#include "skinny_step.cuh"
#include "skinny_sums.cuh"

// Launch: p.teams / CREW clusters of SPLITS blocks of THREADS threads, each with the dynamic shared
// memory that `shared_bytes` of tile.py counts. A team computes tiles first to last - 1.
//
// codes  the weight's rows as bytes, [N, Kp x bits / 8]; a box is 64 bytes of 16 x TILES / PAIR rows
// runs   NVFP4: scale runs as bytes, [ceil(N / 16), Kp]; a box is one run of TILES / PAIR tiles.
//        Other formats pass any map, which is never read.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    skinny(const __grid_constant__ Problem p, const __grid_constant__ TensorMap codes,
           const __grid_constant__ TensorMap runs) {
  extern __shared__ __align__(128) unsigned char shared[];
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const int index = __shfl_sync(~0u, threadIdx.x >> 5, 0);  // of the warp; the compiler sees that lanes agree
  const int warp = index % WARPS, member = index / WARPS;
  const int rank = blockIdx.x % SPLITS, team = blockIdx.x / SPLITS * CREW + member;
  const int slice = rank * WARPS + warp;
  const int begin = slice * p.steps / SLICES, end = (slice + 1) * p.steps / SLICES;
  const int pairs = p.tiles / PAIR;
  const int first = static_cast<int>(static_cast<long long>(team) * pairs / p.teams) * PAIR;
  const int last = static_cast<int>(static_cast<long long>(team + 1) * pairs / p.teams) * PAIR;

  // barriers | activations | their largest | factors | for each team:
  //   rings | a group's or two groups' sums of all warps | two groups' sums of all blocks | row or block scales
  const int team_tiles = (pairs + p.teams - 1) / p.teams * PAIR;  // at most
  const int scale_rows = (team_tiles / PAIR * 16 + 127) / 128 + 1;  // of a half of a pair
  const int scale_floats =
      ROW_SCALED ? team_tiles * 16 : FORMAT == FP8_BLOCK ? WARPS * LONGEST * PAIR * scale_rows : 0;
  constexpr int X_BYTES = SOURCE == SHARED ? WARPS * SHARED_X * 16 : 0;
  unsigned char* const rows_at = shared + BARRIER_BYTES + X_BYTES;
  uint4* const shared_x = reinterpret_cast<uint4*>(shared + BARRIER_BYTES) + warp * SHARED_X;
  unsigned* const shared_most = reinterpret_cast<unsigned*>(rows_at) + warp * ROW_BLOCKS * 8;
  float* const unscale = reinterpret_cast<float*>(rows_at) + (WARPS + warp) * ROW_BLOCKS * 8;
  unsigned char* const own = rows_at + aligned(2 * WARPS * ROW_BLOCKS * 8 * 4) +
                             member * (RINGS_BYTES + SUMS_BYTES + aligned(4 * scale_floats));
  unsigned char* const ring = own + warp * STAGES * STAGE_BYTES;
  float* const partial = reinterpret_cast<float*>(own + RINGS_BYTES);
  float* const exchange = partial + BUFFERS * WARPS * WARP_FLOATS;
  float* const row_scales = reinterpret_cast<float*>(own + RINGS_BYTES + SUMS_BYTES);
  float* const block_scales = row_scales + warp * LONGEST * PAIR * scale_rows;
  const unsigned exchanged = shared_address(shared) + member * 16;  // a barrier for each of two groups
  const unsigned filled = shared_address(shared) + CREW * 16 + (member * WARPS + warp) * STAGES * 8;
  const unsigned brought = shared_address(shared) + BARRIER_BYTES - (WARPS - warp) * 8;  // a slice's operands

  if (lane == 0) {
    for (int i = 0; i < STAGES; ++i) set_up_barrier(filled + 8 * i, 1);
    if (member == 0) set_up_barrier(brought, 1);
    if (warp == 0) {
      for (int i = 0; i < 2; ++i) set_up_barrier(exchanged + 8 * i, SPLITS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncwarp();
  if constexpr (SPLITS > 1) arrive_at_cluster();

  // The stage to fill and the one to use, addresses all along: arithmetic here costs time in every step.
  const unsigned ring_at = shared_address(ring);
  Cursor next = {first, begin};
  Slot into = {ring_at, filled}, use = {ring_at, filled};
  auto fetch = [&]() {
    if (next.tile < last && begin < end) {
      if (elected()) fetch_stage(p, codes, runs, next, into);
      if (++next.step == end) {
        next.step = begin;
        next.tile += TILES;
      }
    }
    into.advance(ring_at, filled);
  };
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) fetch();
  if constexpr (ROW_SCALED) {
    for (int i = warp * 32 + lane; i < (last - first) * 16; i += WARPS * 32) {
      const int n = weight_tile(p, first + i / 16) * 16 + i % 16;
      row_scales[i] = n < p.n ? p.row_scales[n] : 0.0f;
    }
  }
  if constexpr (FORMAT == FP8_BLOCK) {
    const int steps = end - begin;
    for (int i = lane; i < PAIR * scale_rows * steps; i += 32) {
      const int half = i / (scale_rows * steps), within = i / steps % scale_rows;
      const int row = min(weight_tile(p, first + half) / 8 + within, (p.n - 1) / 128);
      block_scales[i / steps * LONGEST + i % steps] =
          reinterpret_cast<const float*>(p.scales)[row * p.steps + begin + i % steps];
    }
  }
  if (member == 0) {
    for (int i = lane; i < ROW_BLOCKS * 8; i += 32) shared_most[i] = 0;
  }
  __syncthreads();
  if constexpr (OVERLAP) wait_for_predecessor();

  // What undoes a row's factor waits in shared memory until the row's sums are written.
  float factor[ROW_BLOCKS];  // of this lane's activation row g in each block
  if (!bring_operands(p, shared_x, begin, end, member, lane, brought, factor))
    prepare_x(p, shared_x, shared_most, begin, end, member, lane, factor);
  if (member == 0 && t == 0) {
#pragma unroll
    for (int r = 0; r < ROW_BLOCKS; ++r) unscale[r * 8 + g] = (FORMAT == NVFP4 ? SUM_FACTOR : 1.0f) / factor[r];
  }
  __syncthreads();
  if constexpr (SPLITS > 1) wait_for_cluster();  // all have started, so all can be sent to

  // Blocks of 16 outputs x 8 rows go to the warps of a team in turn. In a cluster each has a home
  // among the ranks, to which all send their part; it is finished there one group later, when the
  // parts have arrived. Two places do: who sends group i + 2 has finished i + 1, which all had sent,
  // and who had sent that had finished i.
  auto finish = [&](int group) {
    const int base = first + group * TILES, from = (rank + group) % SPLITS;
    wait(exchanged + 8 * (group & 1), group >> 1 & 1);
#pragma unroll 1
    for (int at = warp; at * SPLITS + from < GROUP_BLOCKS; at += WARPS) {
      const int tile = (at * SPLITS + from) / ROW_BLOCKS * PAIR, block = (at * SPLITS + from) % ROW_BLOCKS;
      const float* const parts = exchange + ((group & 1) * HOMED + at) * SPLITS * PAIR * BLOCK_FLOATS + lane * 4;
      float4 sum[PAIR];
#pragma unroll
      for (int half = 0; half < PAIR; ++half)
        sum[half] = tree_sum<SPLITS>(parts + half * SPLITS * BLOCK_FLOATS, BLOCK_FLOATS);
      if (base + tile < last) write_block(p, row_scales + (base - first + tile) * 16, base + tile, block, lane, sum);
    }
  };

  int phase = 0, group = 0;
#pragma unroll 1
  for (int base = first; base < last; base += TILES, ++group) {
    float sum[TILES][ROW_BLOCKS][4];
#pragma unroll
    for (int j = 0; j < TILES; ++j)
      for (int r = 0; r < ROW_BLOCKS; ++r)
        for (int i = 0; i < 4; ++i) sum[j][r][i] = 0.0f;

#pragma unroll 1
    for (int step = begin; step < end; ++step) {
      __syncwarp();  // all lanes have read the stage before this one, which is filled anew
      fetch();
      wait(use.barrier, phase);
      const unsigned stage = use.at + lane * 16;
      float block_scale[TILES];
      if constexpr (FORMAT == FP8_BLOCK) {
#pragma unroll
        for (int j = 0; j < TILES; ++j) {
          const int half = j % PAIR, at = weight_tile(p, base + j) / 8 - weight_tile(p, first + half) / 8;
          const int within = min(at, scale_rows - 1);  // tiles beyond the team's are computed, not used
          block_scale[j] = block_scales[(half * scale_rows + within) * LONGEST + step - begin];
        }
      }
      const Activations x = {p, shared_x + (step - begin) * STEP_VECTORS, step, factor};
#pragma unroll
      for (int j = 0; j + 1 < TILES; j += 2) accumulate<2>(sum, stage, j, block_scale, lane, x);
      if constexpr (TILES % 2 == 1) accumulate<1>(sum, stage, TILES - 1, block_scale, lane, x);
      phase ^= use.advance(ring_at, filled);
    }

    float* const all = partial + group % BUFFERS * WARPS * WARP_FLOATS;
    if constexpr (BUFFERS == 1) meet_team(member);  // the sums of the group before have been read
#pragma unroll
    for (int j = 0; j < TILES; ++j)
      for (int r = 0; r < ROW_BLOCKS; ++r)
        for (int half = 0; half < 2; ++half) {
          const float2 factors = *reinterpret_cast<const float2*>(unscale + r * 8 + 2 * t);
          float* const place = all + warp * WARP_FLOATS + place_of_pair(j * ROW_BLOCKS + r, 2 * t, g + half * 8);
          *reinterpret_cast<float2*>(place) =
              make_float2(__fmul_rn(sum[j][r][2 * half], factors.x),
                          __fmul_rn(sum[j][r][2 * half + 1], factors.y));
        }
    if constexpr (SPLITS > 1) {
      if (group > 0) finish(group - 1);
    }
    meet_team(member);
    if constexpr (SPLITS > 1) {
      if (warp == 0 && lane < SPLITS) {
        const int homed = (GROUP_BLOCKS - 1 - (rank + group) % SPLITS + SPLITS) / SPLITS;
        tell(exchanged + 8 * (group & 1), lane, rank, homed * SPLITS * PAIR * BLOCK_FLOATS * 4);
      }
    }
#pragma unroll 1
    for (int at = warp; at < GROUP_BLOCKS; at += WARPS) {
      const int tile = at / ROW_BLOCKS * PAIR, block = at % ROW_BLOCKS;
      float4 sum[PAIR];
#pragma unroll
      for (int half = 0; half < PAIR; ++half) sum[half] = sum_of_warps(all, (tile + half) * ROW_BLOCKS + block, lane);
      if constexpr (SPLITS > 1) {
        const int home = (at + SPLITS - group % SPLITS) % SPLITS;
#pragma unroll
        for (int half = 0; half < PAIR; ++half)
          send(shared_address(exchange) +
                   ((((group & 1) * HOMED + at / SPLITS) * PAIR + half) * SPLITS + rank) * BLOCK_FLOATS * 4 + lane * 16,
               exchanged + 8 * (group & 1), home, sum[half]);
      } else {
        if (base + tile < last) write_block(p, row_scales + (base - first + tile) * 16, base + tile, block, lane, sum);
      }
    }
  }
  if constexpr (SPLITS > 1) {
    if (group > 0) finish(group - 1);
  }
}
