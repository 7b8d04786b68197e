// R's math functions beyond C's library: signs, logarithms to a base, functions of multiples of pi, rounding to digits.
//
// C's own functions (sqrt, exp, sin ...) have overloads for float in NVRTC. On the host these come from the C++
// library's <math.h>, which is included below for that reason.
#pragma once
#include "arith.h"

#ifndef VG_DEVICE
static_assert(sizeof(exp(1.0f)) == 4 && sizeof(atan2(1.0f, 1.0f)) == 4 && sizeof(fabs(1.0f)) == 4,
              "<math.h> must declare overloads for float");
#endif

// Like checked(), for two operands, and with R's choice between NA and NaN.
template <class T> VG_FN T checked2(T y, T a, T b, u32& w) {
  if (a != a || b != b) return nan_of(a, b);
  w |= (u32)(y != y);
  return y;
}

template <class T> VG_FN T sign_of(T a) { return a != a ? a : (T)((a > 0) - (a < 0)); }

// R computes logarithms to bases 2 and 10 by log2() and log10().
template <class T> VG_FN T log_base(T x, T base) {
  return base == 10 ? exact_log10(x) : base == 2 ? exact_log2(x) : log(x) / log(base);
}
// a real number as a complex one of z's class
VG_FN c64 complex_like(c64, f64 re) { c64 r = {(f32)re, 0}; return r; }
VG_FN c128 complex_like(c128, f64 re) { c128 r = {re, 0}; return r; }

// ---- sin(pi x) and related functions ---------------------------------------------------------------------
// The distance to the nearest integer is exact; an exact reflection then brings it into 0 ... 1/4, where multiplication
// by pi loses no digits that matter. The zeros of sin_pi have the sign of its operand, as in C23. R uses libm's sinpi
// and cospi if libm has them (glibc 2.41), and otherwise sin(pi * fmod(x, 2)), which loses all digits next to the
// zeros; this version agrees with libm's to 1 ulp.
#define VG_PI 3.141592653589793238462643383280
template <class T> VG_FN bool is_odd(T whole) { return 2 * floor((T)0.5f * whole) != whole; }
template <class T> VG_FN T sin_pi(T a) {
  T n = rint(a), x = a - n, y = fabs(x);
  if (y == 0) return a * 0;
  T s = y > (T)0.25f ? cos((T)VG_PI * ((T)0.5f - y)) : sin((T)VG_PI * y);
  return (x < 0) != is_odd(n) ? -s : s;
}
template <class T> VG_FN T cos_pi(T a) {
  T n = rint(a), y = fabs(a - n);
  T c = y > (T)0.25f ? sin((T)VG_PI * ((T)0.5f - y)) : cos((T)VG_PI * y);
  return is_odd(n) ? -c : c;
}
// All versions of R multiply by pi in double here. For float the result is computed with digits to spare.
VG_FN f64 tan_of_pi_times(f64 x) { return tan(VG_PI * x); }
#ifdef VG_DEVICE
VG_FN f32 tan_of_pi_times(f32 x) { return sinpif(x) / cospif(x); }
#else
VG_FN f32 tan_of_pi_times(f32 x) { return (f32)tan(VG_PI * (f64)x); }
#endif
template <class T> VG_FN T tan_pi(T a) {
  T x = a - trunc(a);
  x = x <= (T)-0.5f ? x + 1 : x > (T)0.5f ? x - 1 : x;
  return x == 0 ? (T)0 : x == (T)0.5f ? (T)nan_f32() : x == (T)0.25f ? (T)1 : x == (T)-0.25f ? (T)-1
         : tan_of_pi_times(x);
}

// ---- rounding to digits ------------------------------------------------------------------------------------
// 10^d by repeated squaring: exact up to 10^22, and beyond it with the same errors as R's.
VG_FN f64 power_of_ten(i32 d) {
  f64 power = 1.0, square = 10.0;
  for (i32 n = d < 0 ? -d : d; n; n >>= 1, square *= square)
    if (n & 1) power *= square;
  return d < 0 ? 1.0 / power : power;
}
// floor(log2(x)) of a positive number
VG_FN i32 binary_exponent(f64 x) {
  if (x < 2.2250738585072014e-308) return (i32)(bits_of(x * 18014398509481984.0) >> 52) - 1023 - 54;
  return (i32)(bits_of(x) >> 52) - 1023;
}

// R >= 4.0: the nearer of the two decimal numbers with `digits` digits on either side of x; on a tie the even one.
// (?Round; M. Maechler, "Rounding to Decimal Digits in Binary", 2020.)
VG_FN f64 round_digits(f64 x, f64 digits) {
  if (x != x || digits != digits) return nan_of(x, digits);
  if (x - x != 0 || x == 0 || digits > 323) return x;
  if (digits < -308) return 0.0;
  i32 d = (i32)floor(digits + 0.5);
  if (d == 0) return nearbyint(x);
  f64 a = fabs(x);
  // If more than 15 digits would be kept, x is unchanged. This is R's estimate of log10(x), for the same decisions.
  if ((f64)d + 0.30102999566398119521 * (0.5 + (f64)binary_exponent(a)) > 15.0) return x;
  // 10^d beyond the range is applied in two steps
  f64 p = power_of_ten(d > 308 ? 308 : d), rest = power_of_ten(d > 308 ? d - 308 : 0);
  f64 scaled = (a * p) * rest, down = floor(scaled);
  f64 low = (down / p) / rest, high = (ceil(scaled) / p) / rest;
  f64 to_low = a - low, to_high = high - a;
  bool odd = fmod(down, 2.0) == 1.0, raise = to_high < to_low || (odd && to_high == to_low);
  f64 r = raise ? high : low;
  return x < 0 ? -r : r;
}
VG_FN f32 round_digits(f32 x, f32 digits) { return (f32)round_digits((f64)x, (f64)digits); }

// Scales x to a whole number of `digits` digits, rounds half to even, and scales back. (Beyond 1e306 and below 1e-306 R
// takes other steps, whose last bits differ.)
VG_FN f64 signif_digits(f64 x, f64 digits) {
  if (x != x || digits != digits) return nan_of(x, digits);
  if (x - x != 0 || x == 0 || digits > 22) return x;
  f64 rounded = floor(digits + 0.5), a = fabs(x), r;
  i32 d = rounded < 1 ? 1 : (i32)rounded, e = d - 1 - (i32)floor(log10(a));
  if (e > 0) {
    // 10^e beyond the range is applied in two steps
    f64 p = power_of_ten(e > 308 ? 308 : e), rest = power_of_ten(e > 308 ? e - 308 : 0);
    r = (nearbyint((a * p) * rest) / p) / rest;
  } else {
    f64 p = power_of_ten(-e);
    r = nearbyint(a / p) * p;
    if (r - r != 0) r = floor(a / p) * p;  // R never rounds up to Inf
  }
  return x < 0 ? -r : r;
}
VG_FN f32 signif_digits(f32 x, f32 digits) { return (f32)signif_digits((f64)x, (f64)digits); }
