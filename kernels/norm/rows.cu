// Add a sublayer's output to the residual stream and normalise the sum: few rows, several blocks a row.
//
// A round waits for this kernel twice a layer, so what counts is the time from the end of the product before it
// to its own, and what it leaves of a multiprocessor to the product behind. Every block of a row adds all its
// squares, for then no block waits for another, and writes a share of it.
//
// The sum has the order of exact.py: parts of 2,048 inputs onto each other, halves first; then neighbours, of
// which a thread has eight, a warp those of its lanes, and the block the rest.
#include "../common/launch_order.cuh"
#include "../common/operands.cuh"

// Compile-time sizes, by `cubin` of rows_launch.py: WIDTH of a row, and SPLITS, the blocks that share it.

constexpr int LANES = 2048;                     // left where neighbours begin
constexpr int THREADS = LANES / 8;
constexpr int WARPS = THREADS / 32;
constexpr int PARTS = (WIDTH + LANES - 1) / LANES;
constexpr int HALVED = PARTS <= 1 ? 1 : PARTS <= 2 ? 2 : 4;  // parts, with those that are zeros
constexpr int EIGHTS = WIDTH / 8 / SPLITS;      // that a block writes, one a thread
constexpr unsigned ALL = 0xffffffffu;

static_assert(PARTS <= 4 && WIDTH % (8 * SPLITS) == 0 && EIGHTS <= THREADS, "a thread has more than it can hold");

// `AddNormArguments` of rows_launch.py has the same fields in the same order.
struct AddNorm {
  const __nv_bfloat16* x;         // [T, WIDTH]
  const __nv_bfloat16* residual;  // [T, WIDTH]
  const __nv_bfloat16* weight;    // [WIDTH], less 1
  __nv_bfloat16* out;             // [T, WIDTH]
  __nv_bfloat16* residual_out;    // [T, WIDTH]
  long long x_stride, residual_stride, out_stride, residual_out_stride;
  NextOperands next;              // of out
  float eps;
};

struct alignas(16) Eight {
  __nv_bfloat162 pair[4];
};

__device__ __forceinline__ float low(__nv_bfloat162 pair) { return __low2float(pair); }
__device__ __forceinline__ float high(__nv_bfloat162 pair) { return __high2float(pair); }

// Load eight inputs past the first-level cache, where older rows of the same place may be; or zeros.
__device__ __forceinline__ Eight load(const __nv_bfloat16* from, bool known) {
  Eight found = {};
  if (known) reinterpret_cast<uint4&>(found) = __ldcg(reinterpret_cast<const uint4*>(from));
  return found;
}

__device__ __forceinline__ void store(void* to, const Eight& x) {
  *static_cast<uint4*>(to) = reinterpret_cast<const uint4&>(x);
}

// The sum as the model stores it: rounded once to bf16, it has the bits of an fp32 sum that is rounded again.
__device__ __forceinline__ Eight added(const Eight& x, const Eight& y) {
  Eight sum;
#pragma unroll
  for (int i = 0; i < 4; ++i) sum.pair[i] = __hadd2_rn(x.pair[i], y.pair[i]);
  return sum;
}

// Add neighbours until one is left; N is a power of two.
template <int N>
__device__ __forceinline__ float sum_of_pairs(float (&x)[N]) {
#pragma unroll
  for (int apart = 1; apart < N; apart *= 2)
#pragma unroll
    for (int i = 0; i < N; i += 2 * apart) x[i] = __fadd_rn(x[i], x[i + apart]);
  return x[0];
}

// Add the squares of a thread's inputs.
__device__ __forceinline__ float squares_of(const Eight (&x)[PARTS]) {
  float sums[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float part[PARTS];
#pragma unroll
    for (int p = 0; p < PARTS; ++p) {
      const float value = i % 2 ? high(x[p].pair[i / 2]) : low(x[p].pair[i / 2]);
      part[p] = __fmul_rn(value, value);
    }
#pragma unroll
    for (int left = HALVED / 2; left > 0; left /= 2)
#pragma unroll
      for (int p = 0; p < left; ++p)
        if (p + left < PARTS) part[p] = __fadd_rn(part[p], part[p + left]);
    sums[i] = part[0];
  }
  return sum_of_pairs(sums);
}

__device__ __forceinline__ float over_block(float sum) {
  __shared__ __align__(16) float shared[WARPS];
#pragma unroll
  for (int lanes = 1; lanes < 32; lanes *= 2) sum = __fadd_rn(sum, __shfl_xor_sync(ALL, sum, lanes));
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
  __syncthreads();
  float sums[WARPS];
#pragma unroll
  for (int i = 0; i < WARPS; ++i) sums[i] = shared[i];
  return sum_of_pairs(sums);
}

// Write eight results as operands too.
__device__ __forceinline__ void write_operands(const NextOperands& to, __half* place, const Eight& x, int row,
                                               int input) {
  unsigned most = 0;
  Eight halves;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    reinterpret_cast<__half2&>(halves.pair[i]) = __floats2half2_rn(low(x.pair[i]), high(x.pair[i]));
    most = __vmaxu2(most, reinterpret_cast<const unsigned&>(x.pair[i]) & 0x7fff7fffu);
  }
  if (to.pair == 2) {
    store(place, halves);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) *reinterpret_cast<__nv_bfloat162*>(place + i * to.pair) = halves.pair[i];
  }
  tell_largest(to, row, input, max(most & 0xffffu, most >> 16));
}

extern "C" __global__ void __launch_bounds__(THREADS) add_norm(const __grid_constant__ AddNorm p) {
  let_successor_start();
  const int thread = threadIdx.x, row = blockIdx.x / SPLITS, first = blockIdx.x % SPLITS * EIGHTS;
  const bool writes = thread < EIGHTS;
  const int input = (first + thread) * 8;  // of the eight that this thread writes
  __half* const place = operand_place(p.next, row, input);
  const __nv_bfloat16 *const x = p.x + row * p.x_stride, *const residual = p.residual + row * p.residual_stride;

  // weight and residual are older than the predecessor
  const Eight less = load(p.weight + input, writes);
  float weight[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) weight[i] = __fadd_rn(1.0f, i % 2 ? high(less.pair[i / 2]) : low(less.pair[i / 2]));
  Eight total[PARTS], own = load(residual + input, writes);
#pragma unroll
  for (int i = 0; i < PARTS; ++i) {
    const int at = i * LANES + thread * 8;
    total[i] = load(residual + at, at < WIDTH);
  }

  await_predecessor();
  {
    Eight more[PARTS];
#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
      const int at = i * LANES + thread * 8;
      more[i] = load(x + at, at < WIDTH);
    }
    own = added(own, load(x + input, writes));
#pragma unroll
    for (int i = 0; i < PARTS; ++i) total[i] = added(total[i], more[i]);
  }
  const float mean = __fdiv_rn(over_block(squares_of(total)), static_cast<float>(WIDTH));
  const float inverse = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, p.eps)));
  if (!writes) return;
  store(p.residual_out + row * p.residual_out_stride + input, own);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    own.pair[i] = __floats2bfloat162_rn(__fmul_rn(__fmul_rn(low(own.pair[i]), inverse), weight[2 * i]),
                                        __fmul_rn(__fmul_rn(high(own.pair[i]), inverse), weight[2 * i + 1]));
  store(p.out + row * p.out_stride + input, own);
  if (p.next.image != nullptr) write_operands(p.next, place, own, row, input);
}
