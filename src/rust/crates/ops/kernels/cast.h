// Casts between register classes. Bits set in w: 1 "NAs introduced by coercion to integer range",
// 2 "imaginary parts discarded in coercion", 4 "out-of-range values treated as 0 in coercion to raw",
// 8 "integer precision lost while converting to double".
#pragma once
#include "arith.h"

// The real part; NA if either part is NaN, as in R.
VG_FN f32 real_of(c64 z, u32& w) {
  if (is_na(z)) return nan_f32();
  w |= (u32)(z.im != 0) << 1;
  return z.re;
}
VG_FN f64 real_of(c128 z, u32& w) {
  if (is_na(z)) return na_f64();
  w |= (u32)(z.im != 0) << 1;
  return z.re;
}

// Truncates to an integer in -limit ... limit; outside that range it is NA. The cast itself is applied only to values
// that fit, since C leaves the rest undefined and the devices differ.
VG_FN i32 int_of(i32 x, i32 limit, u32& w) {
  bool na = x == NA_I32, out = ((x > limit) | (x < -limit)) & !na;
  w |= (u32)out;
  return (na | out) ? NA_I32 : x;
}
VG_FN i32 int_of(i64 x, i32 limit, u32& w) {
  bool na = x == NA_I64, out = ((x > (i64)limit) | (x < -(i64)limit)) & !na;
  w |= (u32)out;
  return (na | out) ? NA_I32 : (i32)x;
}
VG_FN i32 int_of(f64 x, i32 limit, u32& w) {
  f64 end = (f64)limit + 1.0;
  bool fits = (x > -end) & (x < end);
  w |= (u32)(!fits & (x == x));
  i32 y = (i32)(fits ? x : 0.0);
  return fits ? y : NA_I32;
}
VG_FN i32 int_of(f32 x, i32 limit, u32& w) { return int_of((f64)x, limit, w); }

VG_FN i64 long_of(i32 x) { return x == NA_I32 ? NA_I64 : (i64)x; }
VG_FN i64 long_of(f64 x, u32& w) {
  bool fits = (x > -9223372036854775808.0) & (x < 9223372036854775808.0);
  w |= (u32)(!fits & (x == x));
  i64 y = (i64)(fits ? x : 0.0);
  return fits ? y : NA_I64;
}

// R's raw has no NA: values that do not fit become 0.
VG_FN i32 raw_of(i32 x, u32& w) {
  bool out = (x < 0) | (x > 255);
  w |= (u32)out << 2;
  return out ? 0 : x;
}
VG_FN i32 raw_of(i64 x, u32& w) {
  bool out = (x < 0) | (x > 255);
  w |= (u32)out << 2;
  return out ? 0 : (i32)x;
}
VG_FN i32 raw_of(f64 x, u32& w) {
  bool fits = (x > -1.0) & (x < 256.0);
  w |= (u32)!fits << 2;
  return (i32)(fits ? x : 0.0);
}
VG_FN i32 raw_of(f32 x, u32& w) { return raw_of((f64)x, w); }

template <class T> VG_FN i32 bool_of(T x) { return is_na(x) ? NA_I32 : (i32)(x != 0); }
VG_FN i32 bool_of(c64 z) { return is_na(z) ? NA_I32 : (i32)((z.re != 0) | (z.im != 0)); }
VG_FN i32 bool_of(c128 z) { return is_na(z) ? NA_I32 : (i32)((z.re != 0) | (z.im != 0)); }

VG_FN f64 double_of(i32 x) { return x == NA_I32 ? na_f64() : (f64)x; }
VG_FN f64 double_of(i64 x) { return x == NA_I64 ? na_f64() : (f64)x; }
// Notes that the conversion rounds. The largest i64 round to 2^63, which is no i64.
VG_FN f64 double_of(i64 x, u32& w) {
  f64 y = double_of(x);
  bool fits = y < 9223372036854775808.0;
  w |= (u32)((x != NA_I64) & (!fits | ((i64)(fits ? y : 0.0) != x))) << 3;
  return y;
}
VG_FN f64 double_of(f32 x) { return (f64)x; }
VG_FN f64 double_of(f64 x) { return x; }

VG_FN f32 float_of(i32 x) { return x == NA_I32 ? nan_f32() : (f32)x; }
VG_FN f32 float_of(i64 x) { return x == NA_I64 ? nan_f32() : (f32)x; }
VG_FN f32 float_of(f32 x) { return x; }
VG_FN f32 float_of(f64 x) { return (f32)x; }

// Rounds to odd what float cannot hold, so that the later rounding to half is the only one. (Integers beyond 2^53 are
// converted to double first: halves have 11 bits or fewer, so nothing is lost.)
VG_FN f32 float_to_odd(f32 x) { return x; }
template <class T> VG_FN f32 float_to_odd(T x) { return f32_to_odd(double_of(x)); }
template <class T> VG_FN f32 half_of(T x) { return f32_of_f16(f16_of_f32(float_to_odd(x))); }
template <class T> VG_FN f32 bhalf_of(T x) { return f32_of_bf16(bf16_of_f32(float_to_odd(x))); }

template <class T> VG_FN c64 complex64_of(T x) { c64 z = {float_of(x), 0}; return z; }
VG_FN c64 complex64_of(c64 x) { return x; }
VG_FN c64 complex64_of(c128 x) { c64 z = {(f32)x.re, (f32)x.im}; return z; }
template <class T> VG_FN c128 complex128_of(T x) { c128 z = {double_of(x), 0}; return z; }
VG_FN c128 complex128_of(c64 x) { c128 z = {(f64)x.re, (f64)x.im}; return z; }
VG_FN c128 complex128_of(c128 x) { return x; }
