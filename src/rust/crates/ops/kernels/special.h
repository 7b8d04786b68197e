// Helpers that gamma.h and normal.h share. Order of inclusion: prelude.h, special.h, gamma.h, normal.h.
//
// The functions follow papers, named where they are used, never R's sources (GPL); results are compared with R's.
// Polynomials without a named paper were computed with mpmath: interpolation at the Chebyshev nodes with 45 digits,
// truncated where the rest is below 1e-17 of the function, and written in powers of the variable. float32 computes in
// double and rounds.
#pragma once

// Even and odd powers are summed separately: without a fused multiply-add each step waits for the previous one, and two
// short chains are faster than a long one.
template <int N> VG_FN f64 polynomial(const f64 (&c)[N], f64 x) {
  f64 v = x * x, even = c[(N - 1) & ~1], odd = c[(N - 2) | 1];
#ifdef VG_DEVICE
#pragma unroll
#endif
  for (int k = ((N - 1) & ~1) - 2; k >= 0; k -= 2) even = even * v + c[k];
#ifdef VG_DEVICE
#pragma unroll
#endif
  for (int k = ((N - 2) | 1) - 2; k >= 0; k -= 2) odd = odd * v + c[k];
  return odd * x + even;
}

VG_FN f64 infinity_f64() { return f64_of_bits(0x7FF0000000000000ull); }
VG_FN bool is_finite_f64(f64 x) { return fabs(x) <= 1.7976931348623157e308; }
// a new NaN, noted in w: R's "NaNs produced"
VG_FN f64 nan_noted(u32& w) { w |= 1u; return nan_f64(); }
