// Multiply 1 to 32 rows of activations by a weight that is read from memory once.
//
// y[r, n] = sum over k of x[r, k] * w[n, k], one template over four weight formats. The weight is
// the A operand of mma.m16n8k16 (16 outputs), the activations are B (8 rows), sums are fp32.
//
// Order of a sum, which is all that decides its bits. K is cut into SPLITS * WARPS slices of whole
// steps of 128. One warp walks a slice in order of k, eight MMAs a step. Warp sums are added in
// order of the warps, then block sums in order of the blocks of a cluster. Nothing here depends on
// the number of rows, on the rows beside a row, or on how tiles are shared out among blocks.
//
// Lane (g, t) = (lane / 4, lane % 4) holds weight rows g and g + 8 of a tile, 32 inputs of each step.
// A dot product does not care which input sits in which slot of an instruction, so the inputs of a
// lane are those of its own 16-byte loads, and activations are laid out to match: no shuffles.
//
// A warp has a ring of its own in shared memory, filled by the copy engine: one stage is one step
// of the TILES tiles of a group. Warps meet only where their sums are added, one group late.

#include "skinny_activations.cuh"
#include "skinny_ring.cuh"
#include "skinny_step.cuh"
#include "skinny_sums.cuh"

// Launch: p.teams clusters of SPLITS blocks of THREADS threads, each with the dynamic shared memory
// that `shared_bytes` of tile.py counts. A team is one cluster: it computes tiles first to last - 1,
// each of its blocks over its own part of K.
//
// codes  the weight's rows as bytes, [N, Kp x bits / 8]; a box is 64 bytes of 16 x TILES / PAIR rows
// runs   NVFP4: scale runs as bytes, [ceil(N / 16), Kp]; a box is one run of TILES / PAIR tiles.
//        Other formats pass any map, which is never read.
extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    skinny(const __grid_constant__ Problem p, const __grid_constant__ TensorMap codes,
           const __grid_constant__ TensorMap runs) {
  extern __shared__ __align__(128) unsigned char shared[];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int rank = blockIdx.x % SPLITS, team = blockIdx.x / SPLITS;
  const int slice = rank * WARPS + warp;
  const int begin = slice * p.steps / (SPLITS * WARPS), end = (slice + 1) * p.steps / (SPLITS * WARPS);
  const int pairs = p.tiles / PAIR;
  const int first = static_cast<int>(static_cast<long long>(team) * pairs / p.teams) * PAIR;
  const int last = static_cast<int>(static_cast<long long>(team + 1) * pairs / p.teams) * PAIR;

  // barriers | rings | some groups' sums of all warps | sums of blocks | factors | row or block scales
  unsigned char* const ring = shared + BARRIER_BYTES + warp * STAGES * STAGE_BYTES;
  float* const partial = reinterpret_cast<float*>(shared + BARRIER_BYTES + WARPS * STAGES * STAGE_BYTES);
  float* const exchange = partial + BUFFERS * WARPS * WARP_FLOATS;
  const int team_tiles = (pairs + p.teams - 1) / p.teams * PAIR;  // at most
  const int shares = (team_tiles / PAIR * ROW_BLOCKS + SPLITS - 1) / SPLITS;  // blocks that each of a cluster finishes
  const int exchanged = SPLITS > 1 ? shares * SPLITS * PAIR * BLOCK_FLOATS : 0;
  const int scale_rows = (team_tiles / PAIR * 16 + 127) / 128 + 1;  // of a half of a pair
  float* const unscale = exchange + exchanged + warp * ROW_BLOCKS * 8;
  float* const row_scales = exchange + exchanged + WARPS * ROW_BLOCKS * 8;
  float* const block_scales = row_scales + (ROW_SCALED ? team_tiles * 16 : 0) + warp * SLICE * PAIR * scale_rows;
  const unsigned filled = shared_address(shared) + 8 * BUFFERS + warp * STAGES * 8;  // barriers of this warp's ring
  const unsigned summed = shared_address(shared);                           // one a buffer of sums

  if (lane == 0) {
    for (int i = 0; i < STAGES; ++i) set_up_barrier(filled + 8 * i, 1);
    if (warp == 0) {
      for (int i = 0; i < BUFFERS; ++i) set_up_barrier(summed + 8 * i, WARPS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncwarp();
  if constexpr (SPLITS > 1) arrive_at_cluster();

  Cursor next = {first, begin};
  int slot = 0;
  const unsigned ring_at = shared_address(ring);
  auto fetch = [&](int into) {
    if (next.tile >= last || begin == end) return;
    if (lane == 0) fetch_stage(p, codes, runs, next, ring_at + into * STAGE_BYTES, filled + 8 * into);
    if (++next.step == end) {
      next.step = begin;
      next.tile += TILES;
    }
  };
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) fetch(i);
  if constexpr (ROW_SCALED) {
    for (int i = threadIdx.x; i < (last - first) * 16; i += THREADS) {
      const int n = weight_tile(p, first + i / 16) * 16 + i % 16;
      row_scales[i] = n < p.n ? p.row_scales[n] : 0.0f;
    }
  }
  if constexpr (FORMAT == FP8_BLOCK) {
    const int steps = end - begin;
    for (int i = lane; i < PAIR * scale_rows * steps; i += 32) {
      const int half = i / (scale_rows * steps), within = i / steps % scale_rows;
      const int row = min(weight_tile(p, first + half) / 8 + within, (p.n - 1) / 128);
      block_scales[i / steps * SLICE + i % steps] =
          reinterpret_cast<const float*>(p.scales)[row * p.steps + begin + i % steps];
    }
  }
  __syncthreads();
  if constexpr (OVERLAP) wait_for_predecessor();

  uint4 held[SOURCE == REGISTERS ? SLICE : 1][ROW_BLOCKS][4];
  unsigned most[ROW_BLOCKS] = {};
  float factor[ROW_BLOCKS];  // of this lane's activation row g in each block
#pragma unroll UNROLLED
  for (int s = 0; s < SLICE; ++s) {
    uint4(&x)[ROW_BLOCKS][4] = held[SOURCE == REGISTERS ? s : 0];
#pragma unroll
    for (int r = 0; r < ROW_BLOCKS; ++r)
      for (int v = 0; v < 4; ++v)
        x[r][v] = begin + s < end ? load_x(p, r * 8 + g, begin + s, v, t) : make_uint4(0, 0, 0, 0);
    if constexpr (SOURCE == GLOBAL && FORMAT != BF16) {
#pragma unroll
      for (int r = 0; r < ROW_BLOCKS; ++r)
        for (int v = 0; v < 4; ++v) most[r] = largest(most[r], x[r][v]);
    }
  }
  find_factors(held, most, factor);
  // What undoes a row's factor waits in shared memory until the row's sums are written.
  if (t == 0) {
#pragma unroll
    for (int r = 0; r < ROW_BLOCKS; ++r) unscale[r * 8 + g] = (FORMAT == NVFP4 ? SUM_FACTOR : 1.0f) / factor[r];
  }
  __syncwarp();

  // Blocks of sums go to the warps in turn, group after group on to the next, so that no warp falls
  // behind. A group is finished while later ones are under way. In a cluster, every block has one
  // home, to which the others send their part.
  constexpr int GROUP_BLOCKS = TILES / PAIR * ROW_BLOCKS;
  const unsigned exchange_at = shared_address(exchange) + lane * 16;
  int turn = warp, done = 0;  // this warp's first block of the next group to finish, and that group
  auto finish = [&]() {
    const int base = first + done * TILES;
    const float* const all = partial + done % BUFFERS * WARPS * WARP_FLOATS;
#pragma unroll 1
    for (int at = turn; at < GROUP_BLOCKS; at += WARPS) {
      const int tile = at / ROW_BLOCKS * PAIR, block = at % ROW_BLOCKS;
      if (block * 8 >= p.rows || base + tile >= last) continue;
      wait(summed + 8 * (done % BUFFERS), done / BUFFERS & 1);
      float4 sum[PAIR];
#pragma unroll
      for (int half = 0; half < PAIR; ++half) sum[half] = sum_of_warps(all, (tile + half) * ROW_BLOCKS + block, lane);
      if constexpr (SPLITS > 1) {
        const int number = (base - first + tile) / PAIR * ROW_BLOCKS + block;
#pragma unroll
        for (int half = 0; half < PAIR; ++half)
          send(exchange_at + ((number / SPLITS * PAIR + half) * SPLITS + rank) * BLOCK_FLOATS * 4, number % SPLITS,
               sum[half]);
      } else {
        write_block(p, row_scales + (base - first + tile) * 16, base + tile, block, lane, sum);
      }
    }
    turn = turn < GROUP_BLOCKS % WARPS ? turn + WARPS - GROUP_BLOCKS % WARPS : turn - GROUP_BLOCKS % WARPS;
    ++done;
  };
  if constexpr (SPLITS > 1) wait_for_cluster();  // all have started, so all can be sent to

  int phase = 0, group = 0;
  for (int base = first; base < last; base += TILES, ++group) {
    float sum[TILES][ROW_BLOCKS][4];
#pragma unroll
    for (int j = 0; j < TILES; ++j)
      for (int r = 0; r < ROW_BLOCKS; ++r)
        for (int i = 0; i < 4; ++i) sum[j][r][i] = 0.0f;

#pragma unroll UNROLLED
    for (int s = 0; s < SLICE; ++s) {
      if (begin + s < end) {
        uint4 x[ROW_BLOCKS][4];
#pragma unroll
        for (int r = 0; r < ROW_BLOCKS; ++r)
          for (int v = 0; v < 4; ++v)
            x[r][v] = SOURCE == REGISTERS ? held[SOURCE == REGISTERS ? s : 0][r][v]
                                          : operand(load_x(p, r * 8 + g, begin + s, v, t), factor[r]);
        __syncwarp();  // all lanes have read the stage before this one, which is filled anew
        fetch(slot == 0 ? STAGES - 1 : slot - 1);
        wait(filled + 8 * slot, phase);
        const unsigned char* const stage = ring + slot * STAGE_BYTES;
        float block_scale[TILES];
        if constexpr (FORMAT == FP8_BLOCK) {
#pragma unroll
          for (int j = 0; j < TILES; ++j) {
            const int half = j % PAIR, at = weight_tile(p, base + j) / 8 - weight_tile(p, first + half) / 8;
            const int within = min(at, scale_rows - 1);  // tiles beyond the team's are computed, not used
            block_scale[j] = block_scales[(half * scale_rows + within) * SLICE + s];
          }
        }
#pragma unroll
        for (int j = 0; j + 1 < TILES; j += 2) accumulate<2>(sum, stage, j, block_scale, lane, x);
        if constexpr (TILES % 2 == 1) accumulate<1>(sum, stage, TILES - 1, block_scale, lane, x);
        if (++slot == STAGES) {
          slot = 0;
          phase ^= 1;
        }
      }
    }

    if (group >= LAG) finish();
    const int before = group - BUFFERS + LAG;  // once all have passed it, none reads what is overwritten
    if (before >= 0) wait(summed + 8 * (before % BUFFERS), before / BUFFERS & 1);
    float* const mine = partial + group % BUFFERS * WARPS * WARP_FLOATS + warp * WARP_FLOATS;
#pragma unroll
    for (int j = 0; j < TILES; ++j)
      for (int r = 0; r < ROW_BLOCKS; ++r)
        for (int half = 0; half < 2; ++half) {
          const float2 factors = *reinterpret_cast<const float2*>(unscale + r * 8 + 2 * t);
          *reinterpret_cast<float2*>(mine + place_of_pair(j * ROW_BLOCKS + r, 2 * t, g + half * 8)) =
              make_float2(__fmul_rn(sum[j][r][2 * half], factors.x),
                          __fmul_rn(sum[j][r][2 * half + 1], factors.y));
        }
    __syncwarp();
    if (lane == 0) arrive(summed + 8 * (group % BUFFERS));
  }
  while (done < group) finish();

  if constexpr (SPLITS > 1) {
    arrive_at_cluster();
    wait_for_cluster();
    const int blocks = (last - first) / PAIR * ROW_BLOCKS;
    for (int share = warp; share * SPLITS + rank < blocks; share += WARPS) {
      const int number = share * SPLITS + rank, tile = number / ROW_BLOCKS * PAIR;
      float4 sum[PAIR];
#pragma unroll
      for (int half = 0; half < PAIR; ++half) {
        const float* const home = exchange + (share * PAIR + half) * SPLITS * BLOCK_FLOATS;
        const float4* const parts = reinterpret_cast<const float4*>(home) + lane;
        sum[half] = parts[0];
#pragma unroll
        for (int r = 1; r < SPLITS; ++r) sum[half] = plus(sum[half], parts[r * (BLOCK_FLOATS / 4)]);
      }
      write_block(p, row_scales + tile * 16, first + tile, number % ROW_BLOCKS, lane, sum);
    }
  }
}
