// Double-double numbers: the sum of two doubles, the second of which is the rounding error of the first. Sums and
// products by Dekker (1971) and Knuth; quotients and roots by one step of Newton's iteration.
#pragma once
#include "prelude.h"

struct dd { f64 hi, lo; };
VG_FN dd two_sum(f64 a, f64 b) {
  f64 s = a + b, t = s - a;
  dd r; r.hi = s; r.lo = (a - (s - t)) + (b - t);
  return r;
}
VG_FN dd quick_two_sum(f64 a, f64 b) { f64 s = a + b; dd r; r.hi = s; r.lo = b - (s - a); return r; }
// r, or the plain sum s if r is not finite: the error term would turn Inf into NaN
VG_FN dd dd_or_nonfinite(f64 s, dd r) {
  if (r.lo - r.lo != 0.0) { r.hi = s; r.lo = 0.0; }
  return r;
}
VG_FN dd dd_add(dd a, f64 b) {
  dd s = two_sum(a.hi, b);
  s.lo += a.lo;
  return dd_or_nonfinite(s.hi, quick_two_sum(s.hi, s.lo));
}
VG_FN dd dd_add(dd a, dd b) {
  dd s = two_sum(a.hi, b.hi), t = two_sum(a.lo, b.lo);
  s.lo += t.hi;
  s = quick_two_sum(s.hi, s.lo);
  s.lo += t.lo;
  return dd_or_nonfinite(a.hi + b.hi, quick_two_sum(s.hi, s.lo));
}
VG_FN f64 multiply_add(f64 a, f64 b, f64 c) {
#ifdef VG_DEVICE
  return __fma_rn(a, b, c);
#else
  return fma(a, b, c);
#endif
}
VG_FN dd two_product(f64 a, f64 b) { dd r; r.hi = a * b; r.lo = multiply_add(a, b, -r.hi); return r; }
VG_FN dd dd_multiply(dd a, dd b) {
  dd p = two_product(a.hi, b.hi);
  p.lo += a.hi * b.lo + a.lo * b.hi;
  return dd_or_nonfinite(p.hi, quick_two_sum(p.hi, p.lo));
}
VG_FN f64 dd_divide(dd a, f64 n) {
  f64 q = a.hi / n;
  dd p = two_product(q, n);
  f64 rest = ((a.hi - p.hi) - p.lo) + a.lo;
  f64 r = q + rest / n;
  return r - r == 0.0 ? r : q;
}
VG_FN dd dd_of(f64 hi, f64 lo) { dd r; r.hi = hi; r.lo = lo; return r; }
VG_FN dd dd_negate(dd a) { return dd_of(-a.hi, -a.lo); }
VG_FN dd dd_divide(dd a, dd b) {
  f64 q = a.hi / b.hi;
  dd p = two_product(q, b.hi);
  return quick_two_sum(q, (((a.hi - p.hi) - p.lo) + (a.lo - q * b.lo)) / b.hi);
}
VG_FN dd dd_sqrt(dd a) {
  f64 r = sqrt(a.hi);
  dd p = two_product(r, r);
  return r > 0 ? quick_two_sum(r, (((a.hi - p.hi) - p.lo) + a.lo) / (2 * r)) : dd_of(0.0, 0.0);
}
