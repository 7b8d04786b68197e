// Reductions: accumulators that both devices combine in a fixed tree.
//
// An accumulator has `add(x, na_rm)` for one element, `merge(other)` for a later part of the same sequence, and
// `finish(status)`, which returns the result. R adds in 80 bits, so float64 sums are compensated (two doubles) and
// reach beyond the largest double. Float32 and narrower types are added in float64.
#pragma once
#include "prelude.h"
#include "double_double.h"

// bits of the status word
#define STATUS_EMPTY 1u     // no element was left to reduce
#define STATUS_OVERFLOW 2u  // an integer sum does not fit

// ---- compensated sums ---------------------------------------------------------------------------
// Sum2 of Ogita, Rump and Oishi 2005: the errors of hi accumulate in lo. All addends are finite.
VG_FN void add_up(dd& s, f64 x) { dd t = two_sum(s.hi, x); s.hi = t.hi; s.lo += t.lo; }
VG_FN void add_up(dd& s, dd x) { dd t = two_sum(s.hi, x.hi); s.hi = t.hi; s.lo += t.lo + x.lo; }
VG_FN f64 total(dd s) { return s.hi + s.lo; }

// ---- missing values in one accumulator ---------------------------------------------------------
// R: any NA gives NA; else any NaN gives NaN. (It adds on the x87, which keeps the NaN with the larger payload.)
// 0 nothing, 1 NaN, 2 NA.
VG_FN u32 missing_of(f64 x) { return x == x ? 0u : is_na_payload(x) ? 2u : 1u; }
VG_FN u32 missing_of(f32 x) { return x == x ? 0u : 1u; }
VG_FN f64 missing_value(u32 seen) { return seen == 2u ? na_f64() : nan_f64(); }


// ---- sum -------------------------------------------------------------------------------------------
template <class T> struct Sum;
// The high word of a double without its sign: larger for a larger number, and largest for Inf and NaN.
VG_FN u32 size_of(f64 x) { return (u32)(bits_of(x) >> 32) & 0x7FFFFFFFu; }
// Elements of 2^960 and more are huge: fewer than 2^63 smaller ones have a finite sum. From the first huge element on
// everything is scaled by 2^-64. Missing and infinite elements are noted in flags, not added.
enum : u32 { SEEN_NAN = 1, SEEN_NA = 2, SEEN_INF = 4, SEEN_MINUS_INF = 8, SEEN_ANY = 15 };
enum : u32 { HUGE_SIZE = (1023u + 960u) << 20 };
template <> struct Sum<f64> {
  typedef f64 value; dd s;
  u32 usual;  // larger sizes go to `admit`: HUGE_SIZE, or 0 once all is scaled; the low bits are SEEN_ flags
  VG_FN Sum start() { Sum a; a.s.hi = 0; a.s.lo = 0; a.usual = HUGE_SIZE; return a; }
  VG_FN void add(Sum& a, f64 x, bool narm) {
    if (size_of(x) >= a.usual) admit(a, x, narm);
    else add_up(a.s, x);
  }
  VG_FN void merge(Sum& a, const Sum& other) {
    Sum b = other;
    if ((a.usual ^ b.usual) > SEEN_ANY) {
      // Two calls: selecting one of the two by reference would put both in memory.
      if (a.usual > b.usual) scale(a); else scale(b);
    }
    add_up(a.s, b.s);
    a.usual |= b.usual;
  }
  VG_FN f64 finish(const Sum& a, u32&) { return result(a, total(a.s)); }

  VG_FN f64 scaling() { return f64_of_bits((u64)(1023 - 64) << 52); }
  VG_FN void scale(Sum& a) { a.s.hi *= scaling(); a.s.lo *= scaling(); a.usual &= SEEN_ANY; }
  VG_FN void note(Sum& a, f64 x) {
    a.usual |= x == x ? x > 0 ? SEEN_INF : SEEN_MINUS_INF : is_na_payload(x) ? SEEN_NA : SEEN_NAN;
  }
  VG_FN void admit(Sum& a, f64 x, bool narm) {
    if (x - x != 0.0) {
      if (x == x || !narm) note(a, x);
      return;
    }
    if (a.usual >= HUGE_SIZE) scale(a);
    add_up(a.s, x * scaling());
  }
  // The missing value or infinity that was seen, or else a number computed from the sums
  VG_FN f64 result(const Sum& a, f64 number) {
    if (a.usual == HUGE_SIZE) return number;
    if (a.usual & SEEN_NA) return na_f64();
    const u32 infinite = a.usual & (SEEN_INF | SEEN_MINUS_INF);
    if ((a.usual & SEEN_NAN) || infinite == (SEEN_INF | SEEN_MINUS_INF)) return nan_f64();
    const f64 inf = f64_of_bits(0x7FF0000000000000ull);
    if (infinite) return infinite == SEEN_INF ? inf : -inf;
    return a.usual >= HUGE_SIZE ? number : number / scaling();
  }
};
template <> struct Sum<f32> {
  typedef f64 value; f64 s;
  VG_FN Sum start() { Sum a; a.s = 0; return a; }
  VG_FN void add(Sum& a, f32 x, bool narm) { if (!(narm && x != x)) a.s += (f64)x; }
  VG_FN void merge(Sum& a, const Sum& b) { a.s += b.s; }
  VG_FN f64 finish(const Sum& a, u32&) { return a.s; }
};
template <> struct Sum<i32> {
  typedef i64 value; i64 s; u32 na;
  VG_FN Sum start() { Sum a; a.s = 0; a.na = 0; return a; }
  VG_FN void add(Sum& a, i32 x, bool narm) {
    bool m = x == NA_I32;
    a.s += m ? 0 : (i64)x;
    a.na |= (u32)(m && !narm);
  }
  VG_FN void merge(Sum& a, const Sum& b) { a.s += b.s; a.na |= b.na; }
  VG_FN i64 finish(const Sum& a, u32&) { return a.na ? NA_I64 : a.s; }
};
// High and low halves are summed separately, so that the sum of 2^31 elements cannot wrap unnoticed.
template <> struct Sum<i64> {
  typedef i64 value; i64 high, low; u32 na;
  VG_FN Sum start() { Sum a; a.high = 0; a.low = 0; a.na = 0; return a; }
  VG_FN void add(Sum& a, i64 x, bool narm) {
    bool m = x == NA_I64;
    a.high += m ? 0 : (x >> 32);
    a.low += m ? 0 : (x & 0xFFFFFFFFll);
    a.na |= (u32)(m && !narm);
  }
  VG_FN void merge(Sum& a, const Sum& b) { a.high += b.high; a.low += b.low; a.na |= b.na; }
  VG_FN i64 finish(const Sum& a, u32& status) {
    if (a.na) return NA_I64;
    i64 high = a.high + (a.low >> 32), low = a.low & 0xFFFFFFFFll;
    if (high > 2147483647ll || high < -2147483648ll) { status |= STATUS_OVERFLOW; return NA_I64; }
    return (i64)(((u64)high << 32) | (u64)low);
  }
};
template <> struct Sum<c128> {
  typedef c128 value; Sum<f64> re, im;
  VG_FN Sum start() { Sum a; a.re = a.im = Sum<f64>::start(); return a; }
  VG_FN void add(Sum& a, c128 x, bool narm) {
    if (narm && (x.re != x.re || x.im != x.im)) return;
    Sum<f64>::add(a.re, x.re, false); Sum<f64>::add(a.im, x.im, false);
  }
  VG_FN void merge(Sum& a, const Sum& b) { Sum<f64>::merge(a.re, b.re); Sum<f64>::merge(a.im, b.im); }
  VG_FN c128 finish(const Sum& a, u32& w) {
    c128 r; r.re = Sum<f64>::finish(a.re, w); r.im = Sum<f64>::finish(a.im, w); return r;
  }
};

// ---- product: a double-double mantissa in [1, 2) and an exponent, as R's 80 bits reach 2^±16384 ------
struct Scaled { dd m; i64 e; };
VG_FN void scaled_normalize(Scaled& x) {
  u64 b = bits_of(x.m.hi);
  i32 e = (i32)((b >> 52) & 0x7FF);
  if (e == 0 || e == 0x7FF) {
    if (e == 0 && x.m.hi != 0.0) {  // subnormal: bring it up first
      x.m.hi *= 18014398509481984.0; x.m.lo *= 18014398509481984.0; x.e -= 54;
      b = bits_of(x.m.hi); e = (i32)((b >> 52) & 0x7FF);
    } else return;
  }
  f64 scale = f64_of_bits(e < 2046 ? (u64)(2046 - e) << 52 : 1ull << 51);  // 2^(1023 - e), of which 2^-1023 is subnormal
  x.m.hi *= scale; x.m.lo *= scale; x.e += e - 1023;
}
VG_FN Scaled scaled(f64 x) { Scaled r; r.m.hi = x; r.m.lo = 0; r.e = 0; scaled_normalize(r); return r; }
VG_FN Scaled scaled_multiply(Scaled a, Scaled b) {
  Scaled r; r.m = dd_multiply(a.m, b.m); r.e = a.e + b.e;
  scaled_normalize(r);
  return r;
}
VG_FN f64 scaled_value(Scaled a) {
  f64 m = a.m.hi + a.m.lo;
  i64 e = a.e;
  if (m == 0.0) return m;
  while (e > 1000) { m *= f64_of_bits((u64)(1023 + 1000) << 52); e -= 1000; if (m - m != 0.0) return m; }
  while (e < -1000) { m *= f64_of_bits((u64)(1023 - 1000) << 52); e += 1000; if (m == 0.0) return m; }
  return m * f64_of_bits((u64)(1023 + e) << 52);
}
template <class T> struct Product {
  typedef f64 value; Scaled p; u32 na;
  VG_FN Product start() { Product a; a.p = scaled(1.0); a.na = 0; return a; }
  VG_FN void add(Product& a, f64 x, bool narm) {
    if (narm && x != x) return;
    a.p = scaled_multiply(a.p, scaled(x));
    a.na |= (u32)is_na_payload(x);
  }
  VG_FN void merge(Product& a, const Product& b) { a.p = scaled_multiply(a.p, b.p); a.na |= b.na; }
  VG_FN f64 finish(const Product& a, u32&) { return a.na ? na_f64() : scaled_value(a.p); }
};
// The same for a complex number: its larger part is in [1, 2).
struct ScaledComplex { dd re, im; i64 e; };
VG_FN dd dd_times(dd a, f64 power_of_two) { a.hi *= power_of_two; a.lo *= power_of_two; return a; }
VG_FN void scaled_normalize(ScaledComplex& x) {
  for (i32 turn = 0; turn < 2; turn++) {  // a subnormal number is brought up first
    f64 largest = fmax(fabs(x.re.hi), fabs(x.im.hi));
    i32 e = (i32)(bits_of(largest) >> 52);
    if (largest == 0 || e == 0x7FF) return;
    f64 factor = e == 0 ? 18014398509481984.0 : f64_of_bits(e < 2046 ? (u64)(2046 - e) << 52 : 1ull << 51);
    x.re = dd_times(x.re, factor); x.im = dd_times(x.im, factor);
    x.e += e == 0 ? -54 : e - 1023;
    if (e != 0) return;
  }
}
// -a, hidden from the optimiser: GCC 12 turns a vector (ab - cd, ad + bc) into a fused vfmaddsub even with contraction
// off, unless it cannot see the subtraction.
VG_FN f64 opposite(f64 a) {
  a = -a;
#if !defined(VG_DEVICE) && defined(__GNUC__) && defined(__x86_64__)
  __asm__("" : "+x"(a));
#endif
  return a;
}
VG_FN dd dd_opposite(dd a) { dd r; r.hi = opposite(a.hi); r.lo = opposite(a.lo); return r; }
VG_CALL ScaledComplex scaled_multiply(const ScaledComplex& a, const ScaledComplex& b) {
  ScaledComplex r;
  r.re = dd_add(dd_multiply(a.re, b.re), dd_opposite(dd_multiply(a.im, b.im)));
  r.im = dd_add(dd_multiply(a.re, b.im), dd_multiply(a.im, b.re));
  r.e = a.e + b.e;
  scaled_normalize(r);
  return r;
}
VG_FN ScaledComplex scaled(c128 x) {
  ScaledComplex r; r.re.hi = x.re; r.im.hi = x.im; r.re.lo = r.im.lo = 0; r.e = 0;
  scaled_normalize(r);
  return r;
}
template <> struct Product<c128> {
  typedef c128 value; ScaledComplex p;
  VG_FN Product start() { c128 one; one.re = 1; one.im = 0; Product a; a.p = scaled(one); return a; }
  VG_FN void add(Product& a, c128 x, bool narm) {
    if (narm && (x.re != x.re || x.im != x.im)) return;
    a.p = scaled_multiply(a.p, scaled(x));
  }
  VG_FN void merge(Product& a, const Product& b) { a.p = scaled_multiply(a.p, b.p); }
  VG_FN c128 finish(const Product& a, u32&) {
    Scaled re, im; re.m = a.p.re; im.m = a.p.im; re.e = im.e = a.p.e;
    c128 r; r.re = scaled_value(re); r.im = scaled_value(im); return r;
  }
};

// ---- min, max -------------------------------------------------------------------------------------
template <class T> struct Limit;
// lint: wide
template <> struct Limit<i32> { VG_FN i32 top() { return 2147483647; } VG_FN i32 bottom() { return NA_I32; } VG_FN u32 missing(i32 x) { return x == NA_I32 ? 2u : 0u; } VG_FN i32 value(u32) { return NA_I32; } };
template <> struct Limit<i64> { VG_FN i64 top() { return 0x7FFFFFFFFFFFFFFFll; } VG_FN i64 bottom() { return NA_I64; } VG_FN u32 missing(i64 x) { return x == NA_I64 ? 2u : 0u; } VG_FN i64 value(u32) { return NA_I64; } };
template <> struct Limit<f32> { VG_FN f32 top() { return f32_of_bits(0x7F800000u); } VG_FN f32 bottom() { return -top(); } VG_FN u32 missing(f32 x) { return missing_of(x); } VG_FN f32 value(u32) { return nan_f32(); } };
template <> struct Limit<f64> { VG_FN f64 top() { return f64_of_bits(0x7FF0000000000000ull); } VG_FN f64 bottom() { return -top(); } VG_FN u32 missing(f64 x) { return missing_of(x); } VG_FN f64 value(u32 seen) { return missing_value(seen); } };
// lint: end

template <class T> struct Min {
  typedef T value; T m; u32 seen, any;
  VG_FN Min start() { Min a; a.m = Limit<T>::top(); a.seen = 0; a.any = 0; return a; }
  VG_FN void add(Min& a, T x, bool narm) {
    u32 k = Limit<T>::missing(x);
    a.m = (k == 0 && x < a.m) ? x : a.m;
    a.any |= (u32)(k == 0 || !narm);
    k = narm ? 0 : k;
    a.seen = k > a.seen ? k : a.seen;
  }
  VG_FN void merge(Min& a, const Min& b) {
    a.m = b.m < a.m ? b.m : a.m; a.seen = b.seen > a.seen ? b.seen : a.seen; a.any |= b.any;
  }
  VG_FN T finish(const Min& a, u32& status) {
    if (!a.any) status |= STATUS_EMPTY;
    return a.seen ? Limit<T>::value(a.seen) : a.m;
  }
};
template <class T> struct Max {
  typedef T value; T m; u32 seen, any;
  VG_FN Max start() { Max a; a.m = Limit<T>::bottom(); a.seen = 0; a.any = 0; return a; }
  VG_FN void add(Max& a, T x, bool narm) {
    u32 k = Limit<T>::missing(x);
    a.m = (k == 0 && x > a.m) ? x : a.m;
    a.any |= (u32)(k == 0 || !narm);
    k = narm ? 0 : k;
    a.seen = k > a.seen ? k : a.seen;
  }
  VG_FN void merge(Max& a, const Max& b) {
    a.m = b.m > a.m ? b.m : a.m; a.seen = b.seen > a.seen ? b.seen : a.seen; a.any |= b.any;
  }
  VG_FN T finish(const Max& a, u32& status) {
    if (!a.any) status |= STATUS_EMPTY;
    return a.seen ? Limit<T>::value(a.seen) : a.m;
  }
};
template <class T> struct Pair { T first, second; };
template <class T> struct Range {
  typedef Pair<T> value; Min<T> low; Max<T> high;
  VG_FN Range start() { Range a; a.low = Min<T>::start(); a.high = Max<T>::start(); return a; }
  VG_FN void add(Range& a, T x, bool narm) { Min<T>::add(a.low, x, narm); Max<T>::add(a.high, x, narm); }
  VG_FN void merge(Range& a, const Range& b) { Min<T>::merge(a.low, b.low); Max<T>::merge(a.high, b.high); }
  VG_FN value finish(const Range& a, u32& status) {
    value r; r.first = Min<T>::finish(a.low, status); r.second = Max<T>::finish(a.high, status); return r;
  }
};

// ---- any, all: three-valued -------------------------------------------------------------------------
template <class T> struct Any {
  typedef i32 value; u32 yes, na;
  VG_FN Any start() { Any a; a.yes = a.na = 0; return a; }
  VG_FN void add(Any& a, T x, bool narm) { a.yes |= (u32)(x != NA_I32 && x != 0); a.na |= (u32)(x == NA_I32 && !narm); }
  VG_FN void merge(Any& a, const Any& b) { a.yes |= b.yes; a.na |= b.na; }
  VG_FN i32 finish(const Any& a, u32&) { return a.yes ? 1 : a.na ? NA_I32 : 0; }
};
template <class T> struct All {
  typedef i32 value; u32 no, na;
  VG_FN All start() { All a; a.no = a.na = 0; return a; }
  VG_FN void add(All& a, T x, bool narm) { a.no |= (u32)(x == 0); a.na |= (u32)(x == NA_I32 && !narm); }
  VG_FN void merge(All& a, const All& b) { a.no |= b.no; a.na |= b.na; }
  VG_FN i32 finish(const All& a, u32&) { return a.no ? 0 : a.na ? NA_I32 : 1; }
};

// ---- mean, var: moments -----------------------------------------------------------------------------
VG_FN f64 quotient(const Sum<f64>& s, i64 n) { return Sum<f64>::result(s, dd_divide(s.s, (f64)n)); }
VG_FN f64 quotient(const Sum<f32>& s, i64 n) { return s.s / (f64)n; }
template <class T> struct Mean {
  typedef f64 value; Sum<T> s; i64 n;
  VG_FN Mean start() { Mean a; a.s = Sum<T>::start(); a.n = 0; return a; }
  VG_FN void add(Mean& a, T x, bool narm) { Sum<T>::add(a.s, x, narm); a.n += !(narm && x != x); }
  VG_FN void merge(Mean& a, const Mean& b) { Sum<T>::merge(a.s, b.s); a.n += b.n; }
  VG_FN f64 finish(const Mean& a, u32&) { return a.n ? quotient(a.s, a.n) : nan_f64(); }
};
template <> struct Mean<c128> {
  typedef c128 value; Sum<c128> s; i64 n;
  VG_FN Mean start() { Mean a; a.s = Sum<c128>::start(); a.n = 0; return a; }
  VG_FN void add(Mean& a, c128 x, bool narm) {
    Sum<c128>::add(a.s, x, narm); a.n += !(narm && (x.re != x.re || x.im != x.im));
  }
  VG_FN void merge(Mean& a, const Mean& b) { Sum<c128>::merge(a.s, b.s); a.n += b.n; }
  VG_FN c128 finish(const Mean& a, u32&) {
    c128 r; r.re = quotient(a.s.re, a.n); r.im = quotient(a.s.im, a.n); return r;
  }
};

// Sums of x - p and (x - p)^2 about a pivot p, the first value of the part: accurate enough for one pass over the data.
// Sums are compensated; merging moves b to a's pivot, in double-double. The differences are rounded. Since p is one of
// the values, its distance from their mean is at most the root of the sum of squares, so rounding changes the variance
// by 2^-52 of its value if errors cancel, and by sqrt(n) times that at worst.
// From the first value beyond 2^480 on, everything is scaled by 2^-600, since squares would overflow (they fit base R's
// 80 bits). Values that the scaling turns into 0 do not matter next to such a value. If a value is missing the variance
// is NA, for NaN too, as in base R.
VG_FN f64 huge_scale() { return f64_of_bits((u64)(1023 - 600) << 52); }
template <class T> struct Var {
  typedef f64 value; f64 pivot; dd s, q; i64 n;
  u32 usual;  // values of smaller size_of() take the fast path; 0 before the first value and once all is scaled
  u32 missing;
  VG_FN Var start() {
    Var a; a.pivot = 0; a.s.hi = a.s.lo = a.q.hi = a.q.lo = 0; a.n = 0; a.usual = 0; a.missing = 0; return a;
  }
  VG_FN u32 limit() { return (1023u + 480u) << 20; }
  VG_FN void begin(Var& a, f64 pivot) { a.pivot = pivot; a.usual = limit(); }
  VG_FN bool is_huge(f64 x) {
    f64 size = x < 0 ? -x : x;
    return size > f64_of_bits((u64)(1023 + 480) << 52) && x - x == 0.0;
  }
  VG_FN void scale(Var& a) {
    f64 by = huge_scale();
    a.pivot *= by;
    a.s.hi *= by; a.s.lo *= by;
    a.q.hi = a.q.hi * by * by; a.q.lo = a.q.lo * by * by;
    a.usual = 0;
  }
  // The slow path: the first value, one that is missing, infinite or huge, or any once all is scaled. False if the
  // value is to be skipped.
  VG_FN bool admit(Var& a, f64& x, bool narm) {
    if (x != x) {
      if (narm) return false;
      a.missing = 1;
    }
    const bool is_first = a.n == 0;
    if (is_first) begin(a, x - x == 0.0 ? x : 0.0);
    if (a.usual && is_huge(x)) scale(a);
    if (!a.usual) x *= huge_scale();
    return true;
  }
  VG_FN void add(Var& a, T v, bool narm) {
    f64 x = (f64)v;
    if (size_of(x) >= a.usual && !admit(a, x, narm)) return;
    a.n += 1;
    const f64 d = x - a.pivot;
    add_up(a.s, d);
    add_up(a.q, two_product(d, d));
  }
  // Adds four values of the fast path without a branch. Their squares are first added among themselves, in halves, with
  // rounding errors of at most four times 2^-53 of the sum.
  VG_FN void add_four(dd& s, dd& q, f64 a, f64 b, f64 c, f64 d) {
    add_up(s, a); add_up(s, b); add_up(s, c); add_up(s, d);
    add_up(q, (a * a + c * c) + (b * b + d * d));
  }
  VG_FN bool add_all(Var& a, const T (&v)[4]) {
    u32 greatest = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const u32 size = size_of((f64)v[k]);
      greatest = size > greatest ? size : greatest;
    }
    if (greatest >= a.usual) return false;
    const f64 p = a.pivot;
    add_four(a.s, a.q, (f64)v[0] - p, (f64)v[1] - p, (f64)v[2] - p, (f64)v[3] - p);
    a.n += 4;
    return true;
  }
  // Both have a pivot, and either both are scaled or neither is.
  VG_FN void merge_usual(Var& a, const Var& b) {
    // b's sums about a's pivot, from those about its own: with g between the pivots s + n g, and q + g (2 s + n g)
    const dd g = two_sum(b.pivot, -a.pivot), n = {(f64)b.n, 0}, shift = dd_multiply(n, g);
    dd both = {2 * b.s.hi, 2 * b.s.lo};
    add_up(both, shift);
    add_up(a.q, b.q); add_up(a.q, dd_multiply(g, both));
    add_up(a.s, b.s); add_up(a.s, shift);
    a.n += b.n;
  }
  VG_FN void merge(Var& a, const Var& other) {
    Var b = other;
    if (b.n == 0) return;
    if (a.n == 0) { a = b; return; }
    if (a.usual != b.usual) { if (a.usual) scale(a); else scale(b); }
    merge_usual(a, b);
    a.missing |= b.missing;
  }
  VG_FN f64 finish(const Var& a, u32&) {
    if (a.n < 2 || a.missing) return na_f64();
    // q - s^2 / n, the quotient in two parts
    dd square = dd_multiply(a.s, a.s), c;
    c.hi = square.hi / (f64)a.n;
    dd back = two_product(c.hi, (f64)a.n);
    c.lo = (((square.hi - back.hi) - back.lo) + square.lo) / (f64)a.n;
    c.hi = -c.hi; c.lo = -c.lo;
    dd r = dd_add(a.q, c);
    f64 v = dd_divide(r, (f64)(a.n - 1));
    if (!a.usual) v = v / huge_scale() / huge_scale();
    return v < 0 ? 0 : v;
  }
};

// Differences of float32 values from the pivot are exact in float64, and their squares nearly so. q is NaN if a value
// is missing, and infinite if a value is.
template <> struct Var<f32> {
  typedef f64 value; f64 pivot, s, q; i64 n;
  VG_FN Var start() { Var a; a.pivot = a.s = a.q = 0; a.n = 0; return a; }
  VG_FN void add(Var& a, f32 v, bool narm) {
    if (narm && v != v) return;
    if (a.n == 0) a.pivot = v - v == 0.0f ? (f64)v : 0.0;
    a.n += 1;
    f64 d = (f64)v - a.pivot;
    a.s += d; a.q += d * d;
  }
  VG_FN void merge(Var& a, const Var& b) {
    if (b.n == 0) return;
    if (a.n == 0) { a = b; return; }
    f64 g = b.pivot - a.pivot, n = (f64)b.n;
    a.q += b.q;
    // infinite sums cannot be moved to another pivot
    if (a.q - a.q == 0.0) a.q += 2 * g * b.s + n * g * g;
    a.s += b.s + n * g;
    a.n += b.n;
  }
  VG_FN f64 finish(const Var& a, u32&) {
    if (a.n < 2 || a.q != a.q) return na_f64();
    f64 v = (a.q - a.s * a.s / (f64)a.n) / (f64)(a.n - 1);
    return v < 0 ? 0 : v;
  }
};

// ---- which.max, which.min: position of the first one, from 0; -1 if there is none ---------------------------
// For floats m is NaN until there is a value; any element replaces it, another NaN too.
template <class T> VG_FN T unset(T last) { return last; }
VG_FN f32 unset(f32) { return nan_f32(); }
VG_FN f64 unset(f64) { return nan_f64(); }
template <class T> VG_FN bool replaces(T x, T, i64 at, bool better) {
  return Limit<T>::missing(x) == 0 && (at < 0 || better);
}
VG_FN bool replaces(f32, f32 m, i64, bool better) { return better || m != m; }
VG_FN bool replaces(f64, f64 m, i64, bool better) { return better || m != m; }
template <class T, bool GREATEST> struct Which {
  typedef i64 value; T m; i64 at;
  VG_FN Which start() { Which a; a.m = unset(GREATEST ? Limit<T>::bottom() : Limit<T>::top()); a.at = -1; return a; }
  VG_FN bool is_better(T x, T m) { return GREATEST ? x > m : x < m; }
  VG_FN bool is_there(const Which& a) { return a.at >= 0 && Limit<T>::missing(a.m) == 0; }
  VG_FN void add_at(Which& a, T x, i64 i) { if (replaces(x, a.m, a.at, is_better(x, a.m))) { a.m = x; a.at = i; } }
  VG_FN void merge(Which& a, const Which& b) {
    if (is_there(b) && (!is_there(a) || is_better(b.m, a.m) || (b.m == a.m && b.at < a.at))) a = b;
  }
  VG_FN i64 finish(const Which& a, u32&) { return is_there(a) ? a.at : -1; }
};
template <class T> using WhichMax = Which<T, true>;
template <class T> using WhichMin = Which<T, false>;

// One function for adding, whether the position matters or not.
template <class A, class T> VG_FN void accumulate(A& a, T x, i64, bool narm) { A::add(a, x, narm); }
template <class T, bool GREATEST> VG_FN void accumulate(Which<T, GREATEST>& a, T x, i64 i, bool) {
  Which<T, GREATEST>::add_at(a, x, i);
}
// Whether the order in which elements are added and parts are merged changes the result's bits. The second parameter of
// this and of the constants below is never given. It makes all their specialisations partial ones, since g++ 16 defines
// full specialisations in every object that includes them.
template <class A, class = void> constexpr bool ORDERED = false;
template <class T, class D> constexpr bool ORDERED<Product<T>, D> = true;
template <class T, class D> constexpr bool ORDERED<Mean<T>, D> = true;
template <class T, class D> constexpr bool ORDERED<Var<T>, D> = true;
template <class D> constexpr bool ORDERED<Sum<f32>, D> = true;
template <class D> constexpr bool ORDERED<Sum<f64>, D> = true;
template <class D> constexpr bool ORDERED<Sum<c128>, D> = true;
// A faster accumulator that is valid as long as all elements are finite and not huge. By default it is A itself. If
// `is_usual` is false, the elements must be added again, to A.
template <class A, class = void> constexpr bool QUICK = false;
template <class A> struct Quick {
  A a;
  VG_FN Quick start() { Quick q; q.a = A::start(); return q; }
  template <class T> VG_FN void add(Quick& q, T x, i64 i, bool narm) { accumulate(q.a, x, i, narm); }
  VG_FN bool is_usual(const Quick&) { return true; }
  VG_FN A get(const Quick& q) { return q.a; }
};
template <class D> constexpr bool QUICK<Sum<f64>, D> = true;
template <> struct Quick<Sum<f64>> {
  dd s; u32 greatest;
  VG_FN Quick start() { Quick q; q.s.hi = 0; q.s.lo = 0; q.greatest = 0; return q; }
  VG_FN void add(Quick& q, f64 x, i64, bool narm) {
    if (narm) x = x == x ? x : 0.0;  // 0 leaves a sum as it is
    const u32 size = size_of(x);
    q.greatest = size > q.greatest ? size : q.greatest;
    add_up(q.s, x);
  }
  VG_FN bool is_usual(const Quick& q) { return q.greatest < HUGE_SIZE; }
  VG_FN Sum<f64> get(const Quick& q) { Sum<f64> a = Sum<f64>::start(); a.s = q.s; return a; }
};
template <class D> constexpr bool QUICK<Mean<f64>, D> = true;
template <> struct Quick<Mean<f64>> {
  Quick<Sum<f64>> s; i64 n;
  VG_FN Quick start() { Quick q; q.s = Quick<Sum<f64>>::start(); q.n = 0; return q; }
  VG_FN void add(Quick& q, f64 x, i64 i, bool narm) { Quick<Sum<f64>>::add(q.s, x, i, narm); q.n += !(narm && x != x); }
  VG_FN bool is_usual(const Quick& q) { return Quick<Sum<f64>>::is_usual(q.s); }
  VG_FN Mean<f64> get(const Quick& q) { Mean<f64> a; a.s = Quick<Sum<f64>>::get(q.s); a.n = q.n; return a; }
};

// Adds several elements at once, for accumulators that have a faster way. False, with nothing added, if they must be
// added one by one.
template <class A, class = void> constexpr bool ADDS_ALL = false;
template <class D> constexpr bool ADDS_ALL<Var<f64>, D> = true;
template <class A, class T, int N> VG_FN bool add_all(A&, const T (&)[N]) { return false; }
VG_FN bool add_all(Var<f64>& a, const f64 (&x)[4]) { return Var<f64>::add_all(a, x); }
// Corrects the position of an accumulator whose elements were added with shifted positions.
template <class A> VG_FN void move_on(A&, i64) {}
template <class T, bool GREATEST> VG_FN void move_on(Which<T, GREATEST>& a, i64 by) { if (a.at >= 0) a.at += by; }
