// Walk the chunks of the delta rule as prefill_walk.cu does, by products of four warps at once (wgmma).
//
// The warps hand the tensor cores a product and go on: what is left of values is found while queries meet the
// state, the writes are split while mix runs, outputs are stored and half of the state is split while the other
// half is written. So the tensor cores have the next product when one ends.
#include "prefill_walk.cuh"
#include "prefill_wgmma.cuh"

static_assert(VALUES == 64 && BUFFERS == 2, "four warps multiply together, and copies are two chunks ahead");

constexpr int HALF_BYTES = CHUNK * LINE_BYTES;  // of rows of keys or queries

// Products of the state's parts with rows of keys or queries, steps of 16 channels.
template <int FROM, int TO>
__device__ __forceinline__ void ask(Sums (&sums)[TOKEN_TILES], const Left (&parts)[STEPS], unsigned rows) {
#pragma unroll
  for (int i = FROM; i < TO; ++i) {
    const unsigned long long right = operand(ROWS_APART, rows + i / 4 * HALF_BYTES + i % 4 * SIDE * 2);
    multiply<0, TOKEN_TILES, 0>(sums, parts[i].tail, right, i > 0);
    multiply<0, TOKEN_TILES, 0>(sums, parts[i].head, right, 1);
  }
}

// A term of the products with a matrix: two rows of blocks at a time, below the diagonal and on its even places;
// corner is the rest. Columns that begin elsewhere are sums of their own: what is under way has one shape.
__device__ __forceinline__ void apply(Sums (&sums)[TOKEN_TILES], Sums (&corner)[2][2], const Words* (&&rest)[BLOCKS],
                                      const unsigned char* matrix, int adds, int corner_adds) {
  const unsigned long long at = operand(BLOCKS_APART, shared_address(matrix));
  const auto right = [at](int i, int j) { return at + (block_place(i, j) >> 4); };
  multiply<0, 4, 1>(sums, *rest[0], right(0, 0), adds);
  multiply<4, 4, 1>(sums, *rest[0], right(2, 0), adds);
  multiply<4, 4, 1>(sums, *rest[1], right(2, 1), 1);
  multiply<4, 4, 1>(sums, *rest[2], right(2, 2), 1);
  multiply<0, 2, 1>(corner[0], *rest[1], right(1, 1), corner_adds);
  multiply<0, 2, 1>(corner[1], *rest[3], right(3, 3), corner_adds);
}

// Products of what is left of values with write or mix, smallest term first.
__device__ __forceinline__ void apply(Sums (&sums)[TOKEN_TILES], Sums (&corner)[2][2], const Left (&rest)[BLOCKS],
                                      const unsigned char (&matrix)[2][MATRIX_BYTES], int adds) {
  apply(sums, corner, {&rest[0].head, &rest[1].head, &rest[2].head, &rest[3].head}, matrix[1], adds, 0);
  apply(sums, corner, {&rest[0].tail, &rest[1].tail, &rest[2].tail, &rest[3].tail}, matrix[0], 1, 1);
  apply(sums, corner, {&rest[0].head, &rest[1].head, &rest[2].head, &rest[3].head}, matrix[0], 1, 1);
}

__device__ __forceinline__ void add_corners(Sums (&sums)[TOKEN_TILES], const Sums (&corner)[2][2]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int x = 0; x < 4; ++x) sums[2 + i / 2 * 4 + i % 2][x] += corner[i / 2][i % 2][x];
}

// Half of the state's keys: S = S + wrote K.
template <int HALF>
__device__ __forceinline__ void write(Sums (&state)[TILES], const Left (&written)[BLOCKS], unsigned keys) {
#pragma unroll
  for (int j = 0; j < BLOCKS; ++j) {
    const unsigned long long right = operand(ROWS_APART, keys + HALF * HALF_BYTES + j * SIDE * LINE_BYTES);
    multiply<HALF * TILES / 2, TILES / 2, 1>(state, written[j].tail, right, 1);
    multiply<HALF * TILES / 2, TILES / 2, 1>(state, written[j].head, right, 1);
  }
}

template <int FROM>
__device__ __forceinline__ void split_half(Left (&parts)[STEPS], const Sums (&state)[TILES]) {
#pragma unroll
  for (int i = FROM; i < FROM + STEPS / 2; ++i) split(parts[i], state[2 * i], state[2 * i + 1]);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) delta_prefill_walk(const __grid_constant__ Walk p) {
  extern __shared__ Shared shared_of_block[];
  Shared& shared = *shared_of_block;
  const int lane = threadIdx.x % 32, warp = __shfl_sync(0xFFFFFFFFu, threadIdx.x / 32, 0);
  const int head = blockIdx.x / (WIDTH / VALUES), column = blockIdx.x % (WIDTH / VALUES) * VALUES;
  set_up_barriers(shared);
  const auto copy_rows_of = [&](int chunk) {
    if (chunk < p.chunks) {
      copy_keys(shared, p, head, chunk);
      copy_values(shared, p, head, column, chunk);
    }
    end_group();
  };

  // what the kernel before does not write
  copy_rows_of(0);
  copy_rows_of(1);
  float* const own = state_of(p, head, column, warp, lane);
  Sums state[TILES];
  load_state(state, own);
  await_predecessor();
  copy_prepared(shared, p, head, 0);
  if (p.chunks > 1) copy_prepared(shared, p, head, 1);

  Left parts[STEPS], rest[BLOCKS];
  Sums out[TOKEN_TILES];
  // of a chunk whose keys are there: rest and queries' products with the state, whose first half is split
  const auto meet = [&](int chunk) {
    const int buffer = chunk % 2;
    const unsigned keys = shared_address(&shared.k[buffer]), queries = shared_address(&shared.q[buffer]);
    Sums met[TOKEN_TILES];
    begin_products();
    ask<0, STEPS / 2>(met, parts, keys);
    end_of_products();
    await_products<1>();  // the state is written
    split_half<STEPS / 2>(parts, state);
    begin_products();
    ask<STEPS / 2, STEPS>(met, parts, keys);
    end_of_products();
    begin_products();
    ask<0, STEPS>(out, parts, queries);
    end_of_products();
    __syncthreads();
    if (chunk > 0 && chunk + 1 < p.chunks) copy_prepared(shared, p, head, chunk + 1);
    if (chunk > 0) copy_rows_of(chunk + 1);
    if (chunk < p.chunks) wait(shared_address(&shared.came[buffer]), chunk / 2 % 2);
    await_products<1>();
    const unsigned values = shared_address(&shared.v[buffer]);
#pragma unroll
    for (int i = 0; i < BLOCKS; ++i)
      rest_of(rest[i], met[2 * i], met[2 * i + 1], values, shared.prepared[buffer].of_keys, i, warp, lane);
    await_products<0>();
  };
  const auto await_rows = [] {
    show_to_products();
    __syncthreads();
  };

  split_half<0>(parts, state);
  await_groups<1>();
  await_rows();
  meet(0);
#pragma unroll 1
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    const int buffer = chunk % 2;
    const unsigned keys = shared_address(&shared.k[buffer]), values = shared_address(&shared.v[buffer]);
    const Prepared& prepared = shared.prepared[buffer];
    Sums wrote[TOKEN_TILES], corner[2][2];
    begin_products();
    apply(wrote, corner, rest, prepared.write, 0);
    end_of_products();
    const float fade = prepared.fade;
#pragma unroll
    for (int i = 0; i < TILES; ++i)
#pragma unroll
      for (int x = 0; x < 4; ++x) state[i][x] *= fade;
    Sums mixed[TOKEN_TILES], mixed_corner[2][2];
    begin_products();
    apply(mixed, mixed_corner, rest, prepared.mix, 0);
    end_of_products();
    await_products<1>();
    add_corners(wrote, corner);
    Left written[BLOCKS];
#pragma unroll
    for (int i = 0; i < BLOCKS; ++i) split(written[i], wrote[2 * i], wrote[2 * i + 1]);
    begin_products();
    write<0>(state, written, keys);
    end_of_products();
    begin_products();
    write<1>(state, written, keys);
    end_of_products();
    await_products<2>();
    add_corners(mixed, mixed_corner);
#pragma unroll
    for (int i = 0; i < TOKEN_TILES; ++i) {
      const float2 f = *reinterpret_cast<const float2*>(prepared.of_queries + i * 8 + lane % 4 * 2);
#pragma unroll
      for (int x = 0; x < 4; ++x) out[i][x] = __fmaf_rn(x % 2 ? f.y : f.x, out[i][x], mixed[i][x]);
    }
    transpose(out, values, warp, lane);
    store_outputs(p, values, head, column, chunk, warp, lane);
    await_products<1>();
    split_half<0>(parts, state);
    await_groups<0>();
    await_rows();
    meet(chunk + 1);
  }
  await_products<0>();
  store_state(own, state);
}
