// Math functions beyond C's library as R means them: signs, logarithms to a base, functions of
// multiples of pi, rounding to digits.
//
// C's own (sqrt, exp, sin ...) have overloads for float in NVRTC, and on the host from the C++
// library's <math.h>, which the line below makes sure of.
#pragma once
#include "arith.h"

#ifndef VG_DEVICE
static_assert(sizeof(exp(1.0f)) == 4 && sizeof(atan2(1.0f, 1.0f)) == 4 && sizeof(fabs(1.0f)) == 4,
              "<math.h> must declare overloads for float");
#endif

// As checked(), for two operands, and with R's choice between NA and NaN.
template <class T> VG_FN T checked2(T y, T a, T b, u32& w) {
  if (a != a || b != b) return nan_of(a, b);
  w |= (u32)(y != y);
  return y;
}

template <class T> VG_FN T sign_of(T a) { return a != a ? a : (T)((a > 0) - (a < 0)); }

// R takes bases 2 and 10 from their own functions.
template <class T> VG_FN T log_base(T x, T base) {
  return base == 10 ? log10(x) : base == 2 ? log2(x) : log(x) / log(base);
}
// a real number as a complex one of z's class
VG_FN c64 complex_like(c64, f64 re) { c64 r = {(f32)re, 0}; return r; }
VG_FN c128 complex_like(c128, f64 re) { c128 r = {re, 0}; return r; }

// ---- sin(pi x) and its like -------------------------------------------------------------------------
// Reduced by an exact fmod, exact at multiples of a quarter; between them R multiplies by pi in
// double and so loses the digits next to a zero, and we with it, to agree. float has digits to spare.
#define VG_PI 3.141592653589793238462643383280
VG_FN f64 sin_of_pi_times(f64 x) { return sin(VG_PI * x); }
VG_FN f64 cos_of_pi_times(f64 x) { return cos(VG_PI * x); }
VG_FN f64 tan_of_pi_times(f64 x) { return tan(VG_PI * x); }
#ifdef VG_DEVICE
VG_FN f32 sin_of_pi_times(f32 x) { return sinpif(x); }
VG_FN f32 cos_of_pi_times(f32 x) { return cospif(x); }
VG_FN f32 tan_of_pi_times(f32 x) { return sinpif(x) / cospif(x); }
#else
VG_FN f32 sin_of_pi_times(f32 x) { return (f32)sin(VG_PI * (f64)x); }
VG_FN f32 cos_of_pi_times(f32 x) { return (f32)cos(VG_PI * (f64)x); }
VG_FN f32 tan_of_pi_times(f32 x) { return (f32)tan(VG_PI * (f64)x); }
#endif
template <class T> VG_FN T sin_pi(T a) {
  T x = fmod(a, (T)2);
  x = x <= -1 ? x + 2 : x > 1 ? x - 2 : x;
  return x == 0 || x == 1 ? (T)0 : x == (T)0.5f ? (T)1 : x == (T)-0.5f ? (T)-1 : sin_of_pi_times(x);
}
template <class T> VG_FN T cos_pi(T a) {
  T x = fmod(fabs(a), (T)2);
  return x == (T)0.5f || x == (T)1.5f ? (T)0 : x == 1 ? (T)-1 : x == 0 ? (T)1 : cos_of_pi_times(x);
}
template <class T> VG_FN T tan_pi(T a) {
  T x = fmod(a, (T)1);
  x = x <= (T)-0.5f ? x + 1 : x > (T)0.5f ? x - 1 : x;
  return x == 0 ? (T)0 : x == (T)0.5f ? (T)nan_f32() : x == (T)0.25f ? (T)1 : x == (T)-0.25f ? (T)-1
         : tan_of_pi_times(x);
}

// ---- powers of ten -------------------------------------------------------------------------------------
VG_TABLE f64 POWERS_OF_TEN[16] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7,
                                  1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
VG_TABLE f64 POWERS_OF_TEN_16[20] = {1e0, 1e16, 1e32, 1e48, 1e64, 1e80, 1e96, 1e112, 1e128, 1e144,
                                     1e160, 1e176, 1e192, 1e208, 1e224, 1e240, 1e256, 1e272, 1e288, 1e304};
// 10^d for d in 0 ... 308, exact to 22
VG_FN f64 power_of_ten(i32 d) { return POWERS_OF_TEN[d & 15] * POWERS_OF_TEN_16[d >> 4]; }

// floor(log10(x)) for a positive number, by comparing instead of a logarithm's last bit
VG_FN i32 floor_log10(f64 x) {
  i32 shift = 0;
  if (x < 1e-280) { x *= 1e100; x *= 1e100; shift = -200; }
  i32 e = (i32)(bits_of(x) >> 52) - 1023;
  // 78913 / 2^18 is log10(2), so d is the answer or one less
  i32 d = (e * 78913) >> 18;
  bool next = d + 1 > 308 ? false : d + 1 >= 0 ? x >= power_of_ten(d + 1) : x * power_of_ten(-(d + 1)) >= 1.0;
  return d + (i32)next + shift;
}

// ---- rounding to digits ------------------------------------------------------------------------------------
// R >= 4.0: of the two decimal numbers with `digits` digits that lie around x, the nearer one; of
// two equally near ones the even. (?Round; M. Maechler, "Rounding to Decimal Digits in Binary", 2020.)
VG_FN f64 round_digits(f64 x, f64 digits) {
  if (x != x || digits != digits) return nan_of(x, digits);
  if (x - x != 0 || x == 0 || digits > 323) return x;
  if (digits < -308) return 0.0;
  i32 d = (i32)floor(digits + 0.5);
  if (d == 0) return nearbyint(x);
  f64 a = fabs(x);
  // with 15 digits before the cut x is its own rounding
  if (d > 0 && d + floor_log10(a) + 1 > 15) return x;
  // 10^d beyond the range is applied in two steps
  f64 p = power_of_ten(d < 0 ? -d : d > 308 ? 308 : d), rest = d > 308 ? power_of_ten(d - 308) : 1.0;
  f64 scaled = d > 0 ? (a * p) * rest : a / p, down = floor(scaled), up = ceil(scaled);
  f64 low = d > 0 ? (down / p) / rest : down * p, high = d > 0 ? (up / p) / rest : up * p;
  f64 to_low = a - low, to_high = high - a;
  bool odd = fmod(down, 2.0) == 1.0, raise = to_high < to_low || (odd && to_high == to_low);
  f64 r = raise ? high : low;
  return x < 0 ? -r : r;
}
VG_FN f32 round_digits(f32 x, f32 digits) { return (f32)round_digits((f64)x, (f64)digits); }

VG_FN f64 signif_digits(f64 x, f64 digits) {
  if (x != x || digits != digits) return nan_of(x, digits);
  if (x - x != 0 || x == 0) return x;
  if (digits > 22) return x;
  f64 rounded = nearbyint(digits);
  i32 d = rounded < 1 ? 1 : (i32)rounded;
  f64 a = fabs(x), r;
  i32 e = d - 1 - floor_log10(a);
  if (e > 0) {
    // 10^e beyond the range is applied in two steps
    f64 rest = e > 308 ? power_of_ten(e - 308) : 1.0, p = power_of_ten(e > 308 ? 308 : e);
    r = (nearbyint((a * p) * rest) / p) / rest;
  } else {
    f64 p = power_of_ten(-e);
    r = nearbyint(a / p) * p;
  }
  return x < 0 ? -r : r;
}
VG_FN f32 signif_digits(f32 x, f32 digits) { return (f32)signif_digits((f64)x, (f64)digits); }
