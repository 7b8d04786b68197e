// Operators: integer arithmetic with NA, %% and %/%, powers, comparison, logic, selection.
//
// Written without branches, so that g++ -O3 -fno-math-errno -fno-trapping-math vectorises them. If both operands are
// NaN, the result has the payload of the operand that R returns.
#pragma once
#include "prelude.h"

// The result of R's functions of two numbers if either is NaN: NA if either is NA, else NaN.
VG_FN f64 nan_of(f64 a, f64 b) { return is_na_payload(a) || is_na_payload(b) ? na_f64() : nan_f64(); }
VG_FN f32 nan_of(f32, f32) { return nan_f32(); }

// If both operands are NaN, R's + and * keep the first, as the GPU does. On the host the compiler may swap operands.
#ifdef VG_DEVICE
template <class T> VG_FN T first_nan(T y, T) { return y; }
#else
template <class T> VG_FN T first_nan(T y, T a) { return a != a ? a : y; }
#endif

// The GPU subtracts by adding the negated second operand, whose NaN would win.
#ifdef VG_DEVICE
VG_FN f64 difference(f64 a, f64 b) { f64 y = a - b; return a != a ? a : y; }
#else
VG_FN f64 difference(f64 a, f64 b) { return a - b; }
#endif

// The GPU's division keeps either NaN, depending on the compiler.
#ifdef VG_DEVICE
template <class T> VG_FN T r_div(T a, T b) { T y = a / b; return a != a ? a : b != b ? b : y; }
#else
template <class T> VG_FN T r_div(T a, T b) { return a / b; }
#endif

// ---- integers: an NA operand, or a result that does not fit, gives NA ---------------------------
// Overflow sets bit 1 of w for int32, bit 2 for int64. The smallest value is NA, so a result equal to it overflows too.
template <class T> VG_FN T int_result(T y, bool lost, T a, T b, u32& w) {
  bool na = (a == na_of(a)) | (b == na_of(b)), over = (lost | (y == na_of(a))) & !na;
  w |= (u32)over << (sizeof(T) == 8);
  return (na | over) ? na_of(a) : y;
}
VG_FN i32 int_add(i32 a, i32 b, u32& w) {
  i32 y = (i32)((u32)a + (u32)b);
  return int_result(y, ((a ^ y) & (b ^ y)) < 0, a, b, w);
}
VG_FN i64 int_add(i64 a, i64 b, u32& w) {
  i64 y = (i64)((u64)a + (u64)b);
  return int_result(y, ((a ^ y) & (b ^ y)) < 0, a, b, w);
}
VG_FN i32 int_sub(i32 a, i32 b, u32& w) {
  i32 y = (i32)((u32)a - (u32)b);
  return int_result(y, ((a ^ b) & (a ^ y)) < 0, a, b, w);
}
VG_FN i64 int_sub(i64 a, i64 b, u32& w) {
  i64 y = (i64)((u64)a - (u64)b);
  return int_result(y, ((a ^ b) & (a ^ y)) < 0, a, b, w);
}
VG_FN i32 int_mul(i32 a, i32 b, u32& w) {
  i64 y = (i64)a * (i64)b;
  return int_result((i32)y, y != (i64)(i32)y, a, b, w);
}
VG_FN i64 int_mul(i64 a, i64 b, u32& w) {
  i64 y = (i64)((u64)a * (u64)b);
#ifdef VG_DEVICE
  bool lost = __mul64hi(a, b) != (y >> 63);
#else
  bool lost = (i64)(((__int128)a * b) >> 64) != (y >> 63);
#endif
  return int_result(y, lost, a, b, w);
}
// Notes the overflow of a group's sum: the sum is NA though no element is. `least` is the minimum, NA if an element is.
VG_FN i64 checked_sum(i64 sum, i64 least, u32& w) {
  w |= (u32)((sum == NA_I64) & (least != NA_I64)) << 1;
  return sum;
}
// NA is its own negative in two's complement.
template <class T> VG_FN T int_neg(T a) { return a == na_of(a) ? a : -a; }
VG_FN i64 int_sign(i64 a) { return a == NA_I64 ? a : (i64)((a > 0) - (a < 0)); }
template <class T> VG_FN T int_abs(T a) { return a == na_of(a) ? a : a < 0 ? -a : a; }

// Remainder with the divisor's sign, and the quotient rounded down. Division by 0 gives NA.
template <class T> VG_FN T int_mod(T a, T b) {
  bool na = (a == na_of(a)) | (b == na_of(b)) | (b == 0);
  T d = na ? (T)1 : b, n = na ? (T)0 : a, r = n % d;
  r += ((r != 0) & ((r ^ d) < 0)) ? d : (T)0;
  return na ? na_of(a) : r;
}
template <class T> VG_FN T int_intdiv(T a, T b) {
  bool na = (a == na_of(a)) | (b == na_of(b)) | (b == 0);
  T d = na ? (T)1 : b, n = na ? (T)0 : a, q = n / d, r = n % d;
  q -= (T)((r != 0) & ((r ^ d) < 0));
  return na ? na_of(a) : q;
}

#define VG_BITWISE(name, expression) \
  VG_FN i32 name(i32 a, i32 b) { return ((a == NA_I32) | (b == NA_I32)) ? NA_I32 : (i32)(expression); }
VG_BITWISE(bit_and, a & b)
VG_BITWISE(bit_or, a | b)
VG_BITWISE(bit_xor, a ^ b)
#undef VG_BITWISE
VG_FN i32 bit_not(i32 a) { return a == NA_I32 ? a : ~a; }

// ---- %% and %/% of doubles --------------------------------------------------------------------------
// R subtracts in 80-bit long double, whose significand has 64 bits, and its results show that rounding. Here pairs hi +
// lo of doubles represent such numbers, so that both devices agree with R.
struct f64_pair { f64 hi, lo; };

VG_FN f64_pair exact_sum(f64 a, f64 b) {  // Knuth, TAOCP 2, 4.2.2
  f64 s = a + b, t = s - a;
  f64_pair r = {s, (a - (s - t)) + (b - t)};
  return r;
}
VG_FN f64_pair exact_product(f64 a, f64 b) {
  f64 p = a * b;
#ifdef VG_DEVICE
  f64_pair r = {p, __fma_rn(a, b, -p)};
#else  // Dekker (1971): halves of 26 bits, whose products are exact
  f64 c = 134217729.0 * a, ah = c - (c - a), al = a - ah;
  f64 d = 134217729.0 * b, bh = d - (d - b), bl = b - bh;
  f64_pair r = {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
#endif
  return r;
}
// Rounds hi + lo to 64 significant bits, to nearest even.
VG_FN f64_pair round_to_64(f64_pair x) {
  if (x.hi == 0 || x.lo == 0) return x;
  u64 b = bits_of(x.hi);
  f64 unit = f64_of_bits(b & 0x7FF0000000000000ull) * 1.0842021724855044e-19;  // 2^-63
  // Just below a power of two the spacing is half as wide.
  if ((b << 12) == 0 && (x.hi < 0) != (x.lo < 0)) unit *= 0.5;
  // 1.5 * 2^52: adding it and subtracting it again rounds to a multiple of `unit`.
  f64 wall = unit * 6755399441055744.0;
  x.lo = (x.lo + wall) - wall;
  return x;
}
// a - q * b, with each step rounded to 64 bits
VG_FN f64_pair subtract_multiple(f64_pair a, f64 q, f64 b) {
  f64_pair p = round_to_64(exact_product(q, b)), s = exact_sum(a.hi, -p.hi);
  return round_to_64(exact_sum(s.hi, s.lo + (a.lo - p.lo)));
}
// floor(r / b) with a 64-bit quotient: one within 2^-65 below 1 rounds to 1, and an underflow to 0 keeps its sign.
VG_FN f64 floor_quotient(f64_pair r, f64 b) {
  f64 q = floor(r.hi / b);
  if (q == 0 && r.hi != 0 && (r.hi < 0) != (b < 0)) return -1.0;
  if (r.hi == b && r.lo != 0 && (r.lo < 0) != (b < 0) && fabs(r.lo) > fabs(b) * 2.710505431213761e-20) return 0.0;
  return q;
}
// A power of two for scaling, so that products do not overflow and the halves of products do not underflow.
VG_FN f64 safe_scale(f64 a, f64 b) {
  if (fabs(a) > 1e280) return 3.8725919148493183e-121;  // 2^-400
  if (fabs(b) < 1e-250) return 1.3407807929942597e154;  // 2^512
  return 1.0;
}

// Sets bit 1 of w if the quotient has more digits than 64 bits hold (R's limit is 1 / LDBL_EPSILON).
VG_FN f64 r_mod(f64 a, f64 b, u32& w) {
  if (b == 0) return nan_f64();
  if (a != a || b != b) return nan_of(a, b);
  if (fabs(b) > 9223372036854775808.0 && fabs(a) <= fabs(b) && fabs(a) <= 1.7976931348623157e308)
    return fabs(a) == fabs(b) ? 0.0 : (a < 0 && b > 0) || (a > 0 && b < 0) ? a + b : a;
  f64 q = a / b;
  w |= (u32)((fabs(q) > 9223372036854775808.0) & (fabs(q) <= 1.7976931348623157e308));
  // The remainder's digits are lost. R warns and mostly gives 0.
  if (!(fabs(q) <= 1e280)) return q - q == 0 ? 0.0 : nan_f64();
  f64 scale = safe_scale(a, b);
  b *= scale;
  f64_pair r = {a * scale, 0.0};
  r = subtract_multiple(r, floor(q), b);
  r = subtract_multiple(r, floor_quotient(r, b), b);
  return (r.hi + r.lo) / scale;
}
VG_FN f32 r_mod(f32 a, f32 b, u32& w) { return (f32)r_mod((f64)a, (f64)b, w); }

VG_FN f64 r_intdiv(f64 a, f64 b) {
  f64 q = r_div(a, b);
  if (b == 0 || !(fabs(q) <= 1e280)) return q;
  if (fabs(q) < 1) return (a < 0 && b > 0) || (a > 0 && b < 0) ? -1.0 : 0.0;
  f64 scale = safe_scale(a, b), down = floor(q);
  b *= scale;
  f64_pair r = {a * scale, 0.0};
  return down + floor_quotient(subtract_multiple(r, down, b), b);
}
VG_FN f32 r_intdiv(f32 a, f32 b) { return (f32)r_intdiv((f64)a, (f64)b); }

// ---- powers ---------------------------------------------------------------------------------------
#ifdef VG_DEVICE
VG_FN f64 fused(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }
VG_FN f32 fused(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
// Multiplies (hi + lo) by (p + q), where lo and q are the rounding errors of hi and p.
template <class T> VG_FN void multiply_pair(T& hi, T& lo, T p, T q) {
  T product = hi * p, error = fused(hi, p, -product) + (hi * q + lo * p);
  hi = product + error;
  lo = error - (hi - product);
}
// x^n, correctly rounded but for about one result in 2^40, as glibc's pow() is. False near the ends of the range, where
// a rounding error would underflow.
template <class T> VG_FN bool whole_pow(T x, i32 n, T& out) {
  T hi = 1, lo = 0, p = x, q = 0;
#pragma unroll 1
  for (i32 left = n < 0 ? -n : n; left > 0; left >>= 1) {
    if (left & 1) multiply_pair(hi, lo, p, q);
    if (left > 1) multiply_pair(p, q, p, q);
  }
  if (!(fabs(hi) > (sizeof(T) == 8 ? (T)1e-300 : (T)1e-30)) || hi - hi != 0) return false;
  T r = 1 / hi;
  out = n > 0 ? hi : r + r * (fused(-r, hi, (T)1) - r * lo);
  return true;
}
// CUDA's pow(), log2() and log10() are off by an ulp even if the result is exact: its 3^1 is not 3, and its
// log2(2^-1014) is not -1014.
template <class T> VG_FN T finite_pow(T x, T y) {
  T r;
  if (y == (T)0.5) return sqrt(x);
  return fabs(y) <= 2048 && y == floor(y) && whole_pow(x, (i32)y, r) ? r : pow(x, y);
}
VG_FN bool is_power_of_two(f64 x) { return (bits_of(x) & 0xFFFFFFFFFFFFFull) == 0; }
VG_FN bool is_power_of_two(f32 x) { return (bits_of(x) & 0x7FFFFFu) == 0; }
template <class T> VG_FN T exact_log2(T x) { T r = log2(x); return is_power_of_two(x) ? rint(r) : r; }
template <class T> VG_FN T exact_log10(T x) {
  T r = log10(x), n = rint(r), power;
  // 2^-48 (2^-19) covers the error of r
  if (n == r || !(fabs(r - n) <= fabs(n) * (sizeof(T) == 8 ? (T)3.6e-15 : (T)1.9e-6))) return r;
  return whole_pow((T)10, (i32)n, power) && power == x ? n : r;
}
#else
template <class T> VG_FN T finite_pow(T x, T y) { return pow(x, y); }
template <class T> VG_FN T exact_log2(T x) { return log2(x); }
template <class T> VG_FN T exact_log10(T x) { return log10(x); }
#endif
// x^2 is x*x; 1^NA and NA^0 are 1; zeros lose their sign and Inf parities are R's, not C's.
template <class T> VG_FN T r_pow(T x, T y, u32& w) {
  if (y == 2) return x * x;
  if (x == 1 || y == 0) return (T)1;
  if (x != x || y != y) return y != y ? y : x;
  T infinite = (T)1 / (T)0.0f;
  if (x == 0) return y > 0 ? (T)0 : infinite;
  bool finite_x = x - x == 0, finite_y = y - y == 0;
  if (finite_x && finite_y) return finite_pow(x, y);
  if (!finite_x && x > 0) return y < 0 ? (T)0 : infinite;
  if (!finite_x && finite_y && y == floor(y)) {
    w |= (u32)(y > (T)18446744073709551616.0);  // R computes y %% 2, which warns if digits are lost
    return y < 0 ? (T)0 : y * (T)0.5f != floor(y * (T)0.5f) ? x : -x;
  }
  if (!finite_y && x >= 0) return (y > 0) == (x >= 1) ? infinite : (T)0;
  return (T)nan_f32();
}

// ---- comparison and logic ---------------------------------------------------------------------------
#define VG_COMPARE(name, op) \
  template <class T> VG_FN i32 name(T a, T b) { return (is_na(a) | is_na(b)) ? NA_I32 : (i32)(a op b); }
VG_COMPARE(cmp_eq, ==)
VG_COMPARE(cmp_ne, !=)
VG_COMPARE(cmp_lt, <)
VG_COMPARE(cmp_le, <=)
VG_COMPARE(cmp_gt, >)
VG_COMPARE(cmp_ge, >=)
#undef VG_COMPARE

// Operands are 0, 1 or NA.
VG_FN i32 logic_and(i32 a, i32 b) {
  return ((a == 0) | (b == 0)) ? 0 : ((a == NA_I32) | (b == NA_I32)) ? NA_I32 : 1;
}
VG_FN i32 logic_or(i32 a, i32 b) {
  return ((a == 1) | (b == 1)) ? 1 : ((a == NA_I32) | (b == NA_I32)) ? NA_I32 : 0;
}
VG_FN i32 logic_xor(i32 a, i32 b) { return ((a == NA_I32) | (b == NA_I32)) ? NA_I32 : a ^ b; }
VG_FN i32 logic_not(i32 a) { return a == NA_I32 ? a : (i32)(a == 0); }

template <class T> VG_FN T choose_by(i32 test, T yes, T no) {
  return test == NA_I32 ? na_of(yes) : test ? yes : no;
}

// ---- minimum and maximum ------------------------------------------------------------------------------
// If both are NaN, R keeps the second; if they are equal, the first.
template <class T> VG_FN T smaller(T a, T b) { return ((b != b) | (b < a)) ? b : a; }
template <class T> VG_FN T larger(T a, T b) { return ((b != b) | (b > a)) ? b : a; }
// NA is the smallest integer, so the minimum needs no test.
template <class T> VG_FN T int_smaller(T a, T b) { return b < a ? b : a; }
template <class T> VG_FN T int_larger(T a, T b) {
  return ((a == na_of(a)) | (b == na_of(b))) ? na_of(a) : b > a ? b : a;
}
// Variants for na.rm = TRUE
template <class T> VG_FN T smaller_known(T a, T b) { return ((a != a) | (b < a)) ? b : a; }
template <class T> VG_FN T larger_known(T a, T b) { return ((a != a) | (b > a)) ? b : a; }
template <class T> VG_FN T int_smaller_known(T a, T b) {
  return (a == na_of(a)) | ((b != na_of(b)) & (b < a)) ? b : a;
}
template <class T> VG_FN T int_larger_known(T a, T b) { return b > a ? b : a; }
