// Exponentials and SiLU with the bits of exact.py: IEEE additions, multiplications and divisions in its
// order, none of them contracted. Families take them from here, so that no two can differ.
#pragma once

// `exp` of exact.py, which says why it is computed so.
__device__ __forceinline__ float exact_exp(float x) {
  x = x > 126.0f ? 126.0f : x;
  x = x < -126.0f ? -126.0f : x;
  const float n = __fsub_rn(__fadd_rn(__fmul_rn(x, 1.4426950408889634f), 12582912.0f), 12582912.0f);
  const float r = __fsub_rn(__fsub_rn(x, __fmul_rn(n, 0.693145751953125f)), __fmul_rn(n, 1.4286068203094173e-06f));
  float p = __fadd_rn(__fmul_rn(r, 1.9841269841269841e-04f), 1.3888888888888889e-03f);
  p = __fadd_rn(__fmul_rn(p, r), 8.3333333333333333e-03f);
  p = __fadd_rn(__fmul_rn(p, r), 4.1666666666666664e-02f);
  p = __fadd_rn(__fmul_rn(p, r), 1.6666666666666666e-01f);
  p = __fadd_rn(__fmul_rn(p, r), 0.5f);
  p = __fadd_rn(__fmul_rn(p, r), 1.0f);
  p = __fadd_rn(__fmul_rn(p, r), 1.0f);
  const int exponent = static_cast<int>(n), half = exponent >> 1;
  const float low = __int_as_float((half + 127) << 23), high = __int_as_float((exponent - half + 127) << 23);
  return __fmul_rn(__fmul_rn(p, low), high);
}

__device__ __forceinline__ float exact_silu(float x) { return __fdiv_rn(x, __fadd_rn(1.0f, exact_exp(-x))); }

// Divide x by d: the correctly rounded quotient, where x and d are far from the ends of the range and d
// is not next below a power of two. A reciprocal, then the remainder twice: no branch as __fdiv_rn has
// one, so divisions go side by side.
__device__ __forceinline__ float quotient(float x, float d) {
  float by;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(by) : "f"(d));
  by = __fmaf_rn(__fmaf_rn(-d, by, 1.0f), by, by);
  float q = __fmul_rn(x, by);
  q = __fmaf_rn(__fmaf_rn(-d, q, x), by, q);
  return __fmaf_rn(__fmaf_rn(-d, q, x), by, q);
}

// exact_silu of values in bf16, side by side. Between the limits `quotient` has the bits of __fdiv_rn for
// every one of them (tests/kernels/common/test_quotient.py).
template <int N>
__device__ __forceinline__ void exact_silus(float (&y)[N], const float (&x)[N]) {
  float d[N];
  bool is_far = true;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    d[i] = __fadd_rn(1.0f, exact_exp(-x[i]));
    is_far = is_far && x[i] >= -44.0f && x[i] <= 1e30f && fabsf(x[i]) >= 1e-6f;
  }
  if (is_far) {
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = quotient(x[i], d[i]);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = __fdiv_rn(x[i], d[i]);
  }
}
