// Find what the walk needs of a chunk: its matrices write and mix, and its factors.
//
// A block is a chunk of a value head; K K' and Q K' stay in registers, warp w with the tokens from 16 w on as
// rows. Then
//
//   lower = -beta_i k_i.k_j decay_ij below the diagonal     asked = q_i.k_j decay_ij on and below it
//   X = (I - lower)^-1    write_ij = X_ij beta_j decay_last,i    mix = asked X beta_j
//
// all with keys and queries of length one, but that write leaves the length of k_i to the walk's raw keys.
#include "../common/launch_order.cuh"
#include "prefill_system.cuh"

// `PrefillChunk` of prefill_launch.py has the same fields in the same order.
struct Chunk {
  const __nv_bfloat16* q;     // [T, G, 128]
  const __nv_bfloat16* k;     // [T, G, 128]
  const float* g;             // [T, H]
  const __nv_bfloat16* beta;  // [T, H]
  Prepared* prepared;         // [H, chunks]
  long long q_row, q_head, k_row, k_head, g_row, beta_row;  // elements
  int rows, chunks, heads_a_key;
  float eps, scale;
};

// The running sums of g from the chunk's first token on, by pairs and then in a scan of pairs; and beta.
__device__ __forceinline__ void gates_of(float (&faded)[CHUNK], float (&beta)[CHUNK], const Chunk& p, int head,
                                         int first, int lane) {
  float g[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int token = lane * 2 + i, row = first + token;
    g[i] = row < p.rows ? p.g[row * p.g_row + head] : 0.0f;
    beta[token] = row < p.rows ? __bfloat162float(p.beta[row * p.beta_row + head]) : 0.0f;
  }
  const float both = g[0] + g[1];
  float sum = both;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float below = __shfl_up_sync(ALL, sum, step);
    if (lane >= step) sum += below;
  }
  float before = __shfl_up_sync(ALL, sum, 1);
  if (lane == 0) before = 0.0f;
  faded[lane * 2] = before + g[0];
  faded[lane * 2 + 1] = sum;
}

// K K', Q K' on and below the diagonal, of a warp's 16 rows; and what makes their lengths one.
__device__ __forceinline__ void multiply_rows(Sums (&alike)[TILES], Sums (&asked)[TILES], Shared& shared,
                                              const Chunk& p, int warp, int lane) {
  const unsigned k = shared_address(&shared.raw.k), q = shared_address(&shared.raw.q);
  const int left_row = warp * SIDE + lane / 8 % 2 * 8 + lane % 8, right_row = lane / 16 * 8 + lane % 8;
  Sums squares[2] = {};
#pragma unroll
  for (int step = 0; step < WIDTH / SIDE; ++step) {
    Words k_rows, q_rows, right;
    load_matrices(k_rows, k + place_of(left_row, 2 * step + lane / 16));
    load_matrices(q_rows, q + place_of(left_row, 2 * step + lane / 16));
    const int piece = 2 * step + lane / 8 % 2;
#pragma unroll
    for (int j = 0; j < BLOCKS; ++j) {
      if (j > warp) break;
      load_matrices(right, k + place_of(j * SIDE + right_row, piece));
      multiply(alike[2 * j], alike[2 * j + 1], k_rows, right);
      multiply(asked[2 * j], asked[2 * j + 1], q_rows, right);
    }
    load_matrices(right, q + place_of(warp * SIDE + right_row, piece));
    multiply(squares[0], squares[1], q_rows, right);
  }
  const int g = lane / 4, t = lane % 4;
  if (g / 2 == t) {
    const int row = warp * SIDE + g;
#pragma unroll
    for (int j = 0; j < BLOCKS; ++j)
      if (j == warp) {
        shared.k_scale[row] = rsqrtf((g % 2 ? alike[2 * j][1] : alike[2 * j][0]) + p.eps);
        shared.k_scale[row + 8] = rsqrtf((g % 2 ? alike[2 * j + 1][3] : alike[2 * j + 1][2]) + p.eps);
      }
    shared.q_scale[row] = rsqrtf((g % 2 ? squares[0][1] : squares[0][0]) + p.eps) * p.scale;
    shared.q_scale[row + 8] = rsqrtf((g % 2 ? squares[1][3] : squares[1][2]) + p.eps) * p.scale;
  }
}

// Scale a warp's rows of K K' and Q K' to those of the system; those of its diagonal block apart, by columns.
__device__ __forceinline__ void make_system(Shared& shared, const Sums (&alike)[TILES], const Sums (&asked)[TILES],
                                            int warp, int lane) {
  const int g = lane / 4, t = lane % 4;
  Systems& to = shared.systems;
  const int row[2] = {warp * SIDE + g, warp * SIDE + g + 8};
  float seen[2], k_scale[2], q_scale[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    seen[r] = shared.faded[row[r]];
    k_scale[r] = -shared.beta[row[r]] * shared.k_scale[row[r]];
    q_scale[r] = shared.q_scale[row[r]];
  }
#pragma unroll
  for (int n = 0; n < TILES; ++n) {
    if (n / 2 > warp) break;
    const float2 sum = *reinterpret_cast<const float2*>(shared.faded + n * 8 + 2 * t);
    const float2 scale = *reinterpret_cast<const float2*>(shared.k_scale + n * 8 + 2 * t);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float lower[2], ask[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int i = row[r], j = n * 8 + 2 * t + c;
        // chosen before exp: towards later tokens the exponent is positive and may overflow
        const float decay = i >= j ? __expf(seen[r] - (c ? sum.y : sum.x)) : 0.0f, of_j = c ? scale.y : scale.x;
        lower[c] = i > j ? alike[n][2 * r + c] * k_scale[r] * decay * of_j : 0.0f;
        ask[c] = i >= j ? asked[n][2 * r + c] * q_scale[r] * decay * of_j : 0.0f;
      }
      unsigned head, tail;
      const int place = block_place(warp, n / 2) + (2 * r + n % 2) * 128 + lane * 4;
      split(head, tail, ask[0], ask[1]);
      store_word(to.asked[0].blocks + place, head), store_word(to.asked[1].blocks + place, tail);
      if (n / 2 == warp) {
        to.diagonal[warp][n % 2 * 8 + 2 * t][r * 8 + g] = lower[0];
        to.diagonal[warp][n % 2 * 8 + 2 * t + 1][r * 8 + g] = lower[1];
      } else {
        split(head, tail, lower[0], lower[1]);
        store_word(to.lower[0].blocks + place, head), store_word(to.lower[1].blocks + place, tail);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) delta_prefill_chunk(const __grid_constant__ Chunk p) {
  extern __shared__ Shared shared_of_block[];
  Shared& shared = *shared_of_block;
  const int lane = threadIdx.x % 32, warp = __shfl_sync(ALL, threadIdx.x / 32, 0);
  const int chunk = blockIdx.x % p.chunks, head = blockIdx.x / p.chunks;
  const int key = head / p.heads_a_key, first = chunk * CHUNK, rows = p.rows - first;
  let_successor_start();
  copy_rows<WIDTH, THREADS>(shared_address(&shared.raw.k), p.k + key * p.k_head + first * p.k_row, p.k_row, rows);
  copy_rows<WIDTH, THREADS>(shared_address(&shared.raw.q), p.q + key * p.q_head + first * p.q_row, p.q_row, rows);
  end_group();
  if (warp == 0) gates_of(shared.faded, shared.beta, p, head, first, lane);
  await_groups<0>();
  __syncthreads();
  Sums alike[TILES] = {}, asked[TILES] = {};
  multiply_rows(alike, asked, shared, p, warp, lane);
  __syncthreads();
  Prepared& to = p.prepared[static_cast<long long>(head) * p.chunks + chunk];
  make_system(shared, alike, asked, warp, lane);
  if (threadIdx.x < CHUNK) {
    const int i = threadIdx.x;
    const float last = shared.faded[CHUNK - 1], here = __expf(shared.faded[i]);
    to.of_keys[i] = here * shared.k_scale[i];
    to.of_queries[i] = here * shared.q_scale[i];
    if (i == 0) to.fade = __expf(last);
    shared.kept[i] = __expf(last - shared.faded[i]) * shared.k_scale[i];
  }
  __syncwarp();
  invert(shared, warp, lane);
  __syncthreads();
  solve(shared, to, warp, lane);
}
