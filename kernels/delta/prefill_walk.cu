// Walk the chunks of the delta rule with the state in registers.
//
// A warp keeps 16 columns of a head's state, transposed: [16 columns, 128 keys] of sums. So each product's
// sums are the left operand of the next one, and nothing of a chunk's chain goes through shared memory:
//
//   met = S' K'          rest = V' - met by token        parts of S: 8 left operands
//   out = S' Q' by token + rest mix'
//   wrote = rest write'
//   S' = fade S' + wrote K
//
// Right operands (keys, queries, write, mix) have one place in shared memory for all warps of a block. With
// BUFFERS = 2 a chunk's are copied while the one before is walked. With 1 they are copied as soon as the
// chunk before has done with them; keys, which are asked for first and last, have two places even so.
#include "prefill_walk.cuh"

// Products of the state's parts with rows of keys or queries, a step of 16 channels: all tails, then all heads.
__device__ __forceinline__ void ask(Sums (&sums)[TOKEN_TILES], const Left& state, unsigned rows, int step, int lane) {
  const int row = lane / 16 * 8 + lane % 8, piece = 2 * step + lane / 8 % 2;
  Words right[BLOCKS];
#pragma unroll
  for (int i = 0; i < BLOCKS; ++i) load_matrices(right[i], rows + i * SIDE * LINE_BYTES + place_of(row, piece));
#pragma unroll
  for (int i = 0; i < BLOCKS; ++i) multiply(sums[2 * i], sums[2 * i + 1], state.tail, right[i]);
#pragma unroll
  for (int i = 0; i < BLOCKS; ++i) multiply(sums[2 * i], sums[2 * i + 1], state.head, right[i]);
}

// Products with blocks (i, j) of a matrix for all i from j on, smallest term first.
__device__ __forceinline__ void apply(Sums (&sums)[TOKEN_TILES], const Left& rest,
                                      const unsigned char (&matrix)[2][MATRIX_BYTES], int j, int lane) {
  const unsigned heads = shared_address(matrix[0]) + lane * 16, tails = shared_address(matrix[1]) + lane * 16;
#pragma unroll
  for (int i = j; i < BLOCKS; ++i) {
    Words head, tail;
    load_transposed(tail, tails + block_place(i, j));
    load_transposed(head, heads + block_place(i, j));
    multiply(sums[2 * i], sums[2 * i + 1], rest.head, tail);
    multiply(sums[2 * i], sums[2 * i + 1], rest.tail, head);
    multiply(sums[2 * i], sums[2 * i + 1], rest.head, head);
  }
}

// Half of the state's keys: S = fade S + wrote K.
__device__ __forceinline__ void write(Sums (&state)[TILES], const Left (&wrote)[BLOCKS], unsigned keys, float fade,
                                      int half, int lane) {
  const int row = lane / 8 % 2 * 8 + lane % 8, first = half * TILES / 2;
#pragma unroll
  for (int i = first; i < first + TILES / 2; ++i)
#pragma unroll
    for (int x = 0; x < 4; ++x) state[i][x] *= fade;
#pragma unroll
  for (int j = 0; j < BLOCKS; ++j) {
    Words right[TILES / 4];
#pragma unroll
    for (int i = 0; i < TILES / 4; ++i)
      load_transposed(right[i], keys + j * SIDE * LINE_BYTES + place_of(row, first + 2 * i + lane / 16));
#pragma unroll
    for (int i = 0; i < TILES / 4; ++i)
      multiply(state[first + 2 * i], state[first + 2 * i + 1], wrote[j].tail, right[i]);
#pragma unroll
    for (int i = 0; i < TILES / 4; ++i)
      multiply(state[first + 2 * i], state[first + 2 * i + 1], wrote[j].head, right[i]);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) delta_prefill_walk(const __grid_constant__ Walk p) {
  extern __shared__ Shared shared_of_block[];
  Shared& shared = *shared_of_block;
  const int lane = threadIdx.x % 32, warp = __shfl_sync(0xFFFFFFFFu, threadIdx.x / 32, 0);
  const int head = blockIdx.x / (WIDTH / VALUES), column = blockIdx.x % (WIDTH / VALUES) * VALUES;
  set_up_barriers(shared);

  // what the kernel before does not write
  copy_keys(shared, p, head, 0);
  end_group();
  copy_values(shared, p, head, column, 0);
  end_group();
  float* const own = state_of(p, head, column, warp, lane);
  Sums state[TILES];
  load_state(state, own);
  Left parts[STEPS];
#pragma unroll
  for (int i = 0; i < STEPS / 2; ++i) split(parts[i], state[2 * i], state[2 * i + 1]);
  await_predecessor();
  copy_prepared(shared, p, head, 0);

#pragma unroll 1
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    const bool more = chunk + 1 < p.chunks;
    const int buffer = chunk % BUFFERS;
    const unsigned keys = shared_address(&shared.k[chunk % 2]), queries = shared_address(&shared.q[buffer]);
    const unsigned values = shared_address(&shared.v[buffer]);
    const Prepared& prepared = shared.prepared[buffer];
    await_groups<BUFFERS == 2 ? 0 : 1>();
    __syncthreads();
    if (BUFFERS == 2 && more) {
      copy_prepared(shared, p, head, chunk + 1);
      copy_keys(shared, p, head, chunk + 1);
      copy_values(shared, p, head, column, chunk + 1);
      end_group();
    }

    Sums met[TOKEN_TILES] = {}, out[TOKEN_TILES] = {};
#pragma unroll
    for (int i = 0; i < STEPS; ++i) {
      // the half of the state that was written last is split while products of the other half run
      if (i < STEPS / 2) split(parts[STEPS / 2 + i], state[TILES / 2 + 2 * i], state[TILES / 2 + 2 * i + 1]);
      ask(met, parts[i], keys, i, lane);
    }
    if (BUFFERS == 1) {
      await_groups<0>();
      __syncthreads();
    }
    wait(shared_address(&shared.came[buffer]), chunk / BUFFERS % 2);
    Left rest[BLOCKS];
#pragma unroll
    for (int i = 0; i < STEPS; ++i) {
      ask(out, parts[i], queries, i, lane);
      if (i % 2 == 0) rest_of(rest[i / 2], met[i], met[i + 1], values, prepared.of_keys, i / 2, warp, lane);
    }
    if (BUFFERS == 1) {
      __syncthreads();
      if (more) copy_keys(shared, p, head, chunk + 1);
      end_group();
    }

#pragma unroll
    for (int i = 0; i < TOKEN_TILES; ++i) {
      const float2 f = *reinterpret_cast<const float2*>(prepared.of_queries + i * 8 + lane % 4 * 2);
#pragma unroll
      for (int x = 0; x < 4; ++x) out[i][x] *= x % 2 ? f.y : f.x;
    }
    Sums wrote[TOKEN_TILES] = {};
    Left written[BLOCKS];
#pragma unroll
    for (int j = 0; j < BLOCKS; ++j) {
      apply(wrote, rest[j], prepared.write, j, lane);
      apply(out, rest[j], prepared.mix, j, lane);
      split(written[j], wrote[2 * j], wrote[2 * j + 1]);
    }
    const float fade = prepared.fade;
    transpose(out, values, warp, lane);
    if (BUFFERS == 1) {
      store_outputs(p, values, head, column, chunk, warp, lane);
      __syncthreads();
      if (more) {
        copy_prepared(shared, p, head, chunk + 1);
        copy_values(shared, p, head, column, chunk + 1);
      }
      end_group();
    }
    write(state, written, keys, fade, 0, lane);
    if (BUFFERS == 2) store_outputs(p, values, head, column, chunk, warp, lane);
#pragma unroll
    for (int i = 0; i < STEPS / 2; ++i) split(parts[i], state[2 * i], state[2 * i + 1]);
    write(state, written, keys, fade, 1, lane);
  }
  store_state(own, state);
}
