// Blocks of remainders and of complex quotients on the cpu device, with the bits of r_mod, r_intdiv (arith.h) and c_div
// (complex.h) in fewer steps, for common operands.
#pragma once
#include "arith.h"
#include "complex.h"

static __attribute__((noinline, unused)) f64 any_mod(f64 a, f64 b, u32& w) { return r_mod(a, b, w); }
static __attribute__((noinline, unused)) f64 any_intdiv(f64 a, f64 b) { return r_intdiv(a, b); }

// a - n b for n = floor(a / b), if R's steps in 80 bits give the same bits; false otherwise. The product is exact in 64
// bits, since n has at most 11. With |a| >= |b| the difference is a multiple of b's last place and no larger than b, so
// a double holds it. Otherwise n is 0 or -1, and 64 bits hold the sum as long as a is not much smaller; if it is, the
// sum must not come near a tie, where rounding to 64 bits first would matter. A difference that is not between 0 and b,
// or too near to b, needs R's second step.
VG_FN bool quick_remainder(f64 a, f64 b, f64 q, f64 n, f64& r) {
  f64_pair p = exact_product(n, b), s = exact_sum(a, -p.hi);
  f64 rest = s.lo - p.lo, size = fabs(b);
  r = s.hi + rest;
  bool usual = (a != 0) & (fabs(n) <= 2048) & (size > 1e-250) & (size < 1e250);
  bool between = (r == 0) | (((r < 0) == (b < 0)) & (fabs(r) < size * 0.999999999999998));
  bool sure = (fabs(q) >= 0.001) | (s.hi + rest * 1.001 == s.hi);
  return usual & between & sure;
}

// Elements of a step: all are computed quickly, then those that this does not serve are computed again.
enum { SOME = 64 };
VG_FN void mod_block(f64* __restrict o, const f64* __restrict a, const f64* __restrict b, i32 n, u32& w) {
  for (i32 from = 0; from < n; from += SOME) {
    i32 to = n - from < SOME ? n : from + SOME;
    u64 served[SOME], all = 1;
    for (i32 k = from; k < to; k++) {
      f64 q = a[k] / b[k];
      all &= served[k - from] = quick_remainder(a[k], b[k], q, floor(q), o[k]);
    }
    if (!all) for (i32 k = from; k < to; k++) if (!served[k - from]) o[k] = any_mod(a[k], b[k], w);
  }
}
VG_FN void intdiv_block(f64* __restrict o, const f64* __restrict a, const f64* __restrict b, i32 n) {
  for (i32 from = 0; from < n; from += SOME) {
    i32 to = n - from < SOME ? n : from + SOME;
    u64 served[SOME], all = 1;
    for (i32 k = from; k < to; k++) {
      f64 q = a[k] / b[k], n = floor(q), r;
      // below 1 the result agrees with arith.h's rule
      bool small = (fabs(q) < 1) & (q != 0), quick = quick_remainder(a[k], b[k], q, n, r);
      o[k] = n + 0.0;  // never -0
      all &= served[k - from] = small | quick;
    }
    if (!all) for (i32 k = from; k < to; k++) if (!served[k - from]) o[k] = any_intdiv(a[k], b[k]);
  }
}

static __attribute__((noinline, unused)) c128 any_div(c128 a, c128 b) { return c_div(a, b); }

// Smith's division for operands that need no scaling, and whose ratio does not underflow.
VG_FN void div_block(c128* __restrict o, const c128* __restrict a, const c128* __restrict b, i32 n) {
  for (i32 from = 0; from < n; from += SOME) {
    i32 to = n - from < SOME ? n : from + SOME;
    u64 served[SOME], all = 1;
    for (i32 k = from; k < to; k++) {
      f64 x = a[k].re, y = a[k].im, re = b[k].re, im = b[k].im, p = fabs(re), q = fabs(im), u = fabs(x), v = fabs(y);
      bool turned = p < q;
      f64 large = turned ? im : re, small = turned ? re : im, most = turned ? q : p, top = u < v ? v : u;
      f64 ratio = small / large, d = small * ratio + large, along = turned ? y : x, across = turned ? x : y;
      o[k].re = (across * ratio + along) / d;
      f64 down = turned ? along * ratio - across : across - along * ratio;
      o[k].im = down / d;
      bool known = (x - x == 0) & (y - y == 0) & (re - re == 0) & (im - im == 0);
      bool usual = (most > 1e-140) & (most < 1e140) & (((top > 1e-140) & (top < 1e140)) | (top == 0));
      all &= served[k - from] = known & usual & ((fabs(ratio) > 2.2250738585072014e-308) | (small == 0));
    }
    if (!all) for (i32 k = from; k < to; k++) if (!served[k - from]) o[k] = any_div(a[k], b[k]);
  }
}
