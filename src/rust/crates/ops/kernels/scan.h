// Scans: running sums, products, maxima and minima.
//
// A state has `add(x)` for one element, `merge(later)` for the state of a later part, and `value(status)`. R keeps
// running sums and products of doubles in 80 bits; here they are two doubles, which hold more digits.
#pragma once
#include "reduce.h"

// As in base R, the first missing value, NA or NaN, stays.
VG_FN f64 keep_first(f64 r, f64 a) { return a == a ? r : a; }

// ---- sums ---------------------------------------------------------------------------------------
// WIDE sums have the range of base R's. The others are the same as long as they are finite. A sum that overflows stays
// infinite, and the scan is done again with WIDE sums (scan.cuh).
template <class T, bool WIDE> struct RunningSum;
#ifdef VG_DEVICE
template <class T> using CumSum = RunningSum<T, false>;
#else
template <class T> using CumSum = RunningSum<T, true>;
#endif
// Sums of fewer than 2^64 elements below this size do not overflow.
enum : u32 { LARGE_SIZE = (1023u + 900u) << 20 };
VG_FN bool is_finite(f64 x) { return x - x == 0.0; }
VG_FN bool is_large(f64 x) { return size_of(x) >= LARGE_SIZE; }
VG_FN bool is_finite_and_large(f64 x) { return size_of(x) - LARGE_SIZE < 0x7FF00000u - LARGE_SIZE; }
VG_FN bool is_finite_and_large(c128 x) { return is_finite_and_large(x.re) || is_finite_and_large(x.im); }

// A compensated sum. NA, NaN and infinities are in hi.
VG_FN f64 total_or_not_finite(dd s) { return is_finite(s.hi) ? total(s) : s.hi; }
template <> struct RunningSum<f64, false> {
  typedef RunningSum A;
  dd s;
  VG_FN A start() { A a; a.s.hi = a.s.lo = 0; return a; }
  VG_FN void add(A& a, f64 x) {
    dd t = two_sum(a.s.hi, x);
    a.s.hi = keep_first(t.hi, a.s.hi); a.s.lo += t.lo;
  }
  VG_FN void merge(A& a, const A& b) {
    dd t = two_sum(a.s.hi, b.s.hi);
    a.s.hi = keep_first(t.hi, a.s.hi); a.s.lo += t.lo + b.s.lo;
  }
  VG_FN f64 value(const A& a, u32&) { return total_or_not_finite(a.s); }
  VG_FN bool is_large(const A& a) { return ::is_large(a.s.hi); }
  VG_FN bool is_finite(const A& a) { return ::is_finite(a.s.hi) && ::is_finite(a.s.lo); }
};
// Missing and infinite elements are noted in `seen`, not added. A sum that would overflow is kept scaled by 2^-64 until
// it is back in the range of doubles. Calls keep the code, which seldom runs, small.
template <> struct RunningSum<f64, true> {
  typedef RunningSum A;
  dd s;
  u32 seen, scaled;
  VG_FN A start() { A a; a.s.hi = a.s.lo = 0; a.seen = a.scaled = 0; return a; }
  VG_FN bool cancels(u32 seen) { return (seen & (SEEN_INF | SEEN_MINUS_INF)) == (SEEN_INF | SEEN_MINUS_INF); }
  // The flags of two consecutive parts, combined.
  VG_FN u32 then(u32 first, u32 next) {
    if ((first & (SEEN_NA | SEEN_NAN)) || cancels(first)) return first;
    // Inf - Inf is NaN, which takes precedence over what else the later part has seen.
    return cancels(first | next) ? SEEN_INF | SEEN_MINUS_INF : first | next;
  }
  VG_FN dd times(dd s, f64 scale) { s.hi *= scale; s.lo *= scale; return s; }
  // The state of one element.
  VG_FN A of(f64 x) {
    A a = start();
    if (is_finite(x)) { a.s.hi = x; return a; }
    Sum<f64> b = Sum<f64>::start();
    Sum<f64>::note(b, x);
    a.seen = b.usual & SEEN_ANY;
    return a;
  }
  VG_FN void add(A& a, f64 x) { a = called_merge(a, of(x)); }
  VG_FN void merge(A& a, const A& b) { a = called_merge(a, b); }
  VG_FN f64 value(const A& a, u32&) { return called_value(a); }
  VG_CALL A called_merge(A a, A b) {
    a.seen = then(a.seen, b.seen);
    if ((a.scaled | b.scaled) == 0u) {
      const dd t = two_sum(a.s.hi, b.s.hi);
      dd sum;
      sum.hi = t.hi; sum.lo = a.s.lo + (t.lo + b.s.lo);
      if (is_finite(sum.hi) && is_finite(sum.lo)) { a.s = sum; return a; }
    }
    const f64 scaling = Sum<f64>::scaling();
    if (a.scaled == 0u) a.s = times(a.s, scaling);
    if (b.scaled == 0u) b.s = times(b.s, scaling);
    add_up(a.s, b.s);
    a.scaled = (u32)(size_of(a.s.hi) >= LARGE_SIZE);
    if (a.scaled == 0u) a.s = times(a.s, 1.0 / scaling);
    return a;
  }
  VG_CALL f64 called_value(A a) {
    Sum<f64> b;
    b.s = a.s;
    b.usual = a.seen | (a.scaled ? 0u : (u32)HUGE_SIZE);
    return Sum<f64>::result(b, total(a.s));
  }
};
template <bool WIDE> struct RunningSum<f32, WIDE> {
  typedef RunningSum A;
  f64 s;
  VG_FN A start() { A a; a.s = 0; return a; }
  VG_FN void add(A& a, f32 x) { a.s += (f64)x; }
  VG_FN void merge(A& a, const A& b) { a.s += b.s; }
  VG_FN f32 value(const A& a, u32&) { return (f32)a.s; }
};
template <bool WIDE> struct RunningSum<c128, WIDE> {
  typedef RunningSum A;
  typedef RunningSum<f64, WIDE> Part;
  Part re, im;
  VG_FN A start() { A a; a.re = a.im = Part::start(); return a; }
  VG_FN void add(A& a, c128 x) { Part::add(a.re, x.re); Part::add(a.im, x.im); }
  VG_FN void merge(A& a, const A& b) { Part::merge(a.re, b.re); Part::merge(a.im, b.im); }
  VG_FN c128 value(const A& a, u32& w) {
    c128 r; r.re = Part::value(a.re, w); r.im = Part::value(a.im, w); return r;
  }
  VG_FN bool is_large(const A& a) { return Part::is_large(a.re) || Part::is_large(a.im); }
  VG_FN bool is_finite(const A& a) { return Part::is_finite(a.re) && Part::is_finite(a.im); }
};
// From the first NA on, all sums are NA. A sum that does not fit is NA too, and sets a status bit; the caller makes the
// sums behind it NA.
template <bool WIDE> struct RunningSum<i32, WIDE> {
  typedef RunningSum A;
  Sum<i32> s;
  VG_FN A start() { A a; a.s = Sum<i32>::start(); return a; }
  VG_FN void add(A& a, i32 x) { Sum<i32>::add(a.s, x, false); }
  VG_FN void merge(A& a, const A& b) { Sum<i32>::merge(a.s, b.s); }
  VG_FN i32 value(const A& a, u32& w) {
    if (a.s.na) return NA_I32;
    if (a.s.s > 2147483647ll || a.s.s < -2147483647ll) { w |= STATUS_OVERFLOW; return NA_I32; }
    return (i32)a.s.s;
  }
};
template <bool WIDE> struct RunningSum<i64, WIDE> {
  typedef RunningSum A;
  Sum<i64> s;
  VG_FN A start() { A a; a.s = Sum<i64>::start(); return a; }
  VG_FN void add(A& a, i64 x) { Sum<i64>::add(a.s, x, false); }
  VG_FN void merge(A& a, const A& b) { Sum<i64>::merge(a.s, b.s); }
  VG_FN i64 value(const A& a, u32& w) {
    i64 sum = Sum<i64>::finish(a.s, w);
    if (sum == NA_I64 && !a.s.na) w |= STATUS_OVERFLOW;
    return sum;
  }
};

// ---- products -----------------------------------------------------------------------------------
template <class T> struct CumProd;
VG_CALL Scaled called_multiply(Scaled a, Scaled b) { return scaled_multiply(a, b); }
VG_CALL f64 called_value(Scaled a) { return scaled_value(a); }
template <> struct CumProd<f64> {
  Scaled p;
  VG_FN CumProd start() { CumProd a; a.p = scaled(1.0); return a; }
  VG_FN void add(CumProd& a, f64 x) { CumProd b; b.p = scaled(x); merge(a, b); }
  VG_FN void merge(CumProd& a, const CumProd& b) {
    Scaled r = called_multiply(a.p, b.p);
    r.m.hi = keep_first(r.m.hi, a.p.m.hi);
    a.p = r;
  }
  VG_FN f64 value(const CumProd& a, u32&) { return called_value(a.p); }
};
template <> struct CumProd<f32> {
  CumProd<f64> p;
  VG_FN CumProd start() { CumProd a; a.p = CumProd<f64>::start(); return a; }
  VG_FN void add(CumProd& a, f32 x) { CumProd<f64>::add(a.p, (f64)x); }
  VG_FN void merge(CumProd& a, const CumProd& b) { CumProd<f64>::merge(a.p, b.p); }
  VG_FN f32 value(const CumProd& a, u32& w) { return (f32)CumProd<f64>::value(a.p, w); }
};
// Base R computes them in doubles, too.
template <> struct CumProd<c128> {
  c128 p;
  VG_FN CumProd start() { CumProd a; a.p.re = 1; a.p.im = 0; return a; }
  VG_FN void add(CumProd& a, c128 x) {
    const f64 re = a.p.re * x.re + opposite(a.p.im * x.im);
    a.p.im = a.p.re * x.im + a.p.im * x.re; a.p.re = re;
  }
  VG_FN void merge(CumProd& a, const CumProd& b) { add(a, b.p); }
  VG_FN c128 value(const CumProd& a, u32&) { return a.p; }
};

// ---- extremes: from the first missing value on, all are missing ------------------------------------
template <class T> VG_FN T extreme(T m, T x, bool wins) { return wins ? x : m; }
// Selected, not added: for NA + NaN compilers may keep either, and base R keeps the first.
VG_FN f64 extreme(f64 m, f64 x, bool wins) { return m == m && (wins || x != x) ? x : m; }
VG_FN f32 extreme(f32 m, f32 x, bool wins) { return m == m && (wins || x != x) ? x : m; }
// For floats the value itself is the missing one.
VG_FN i32 missing_from(i32 m, u32 na) { return na ? NA_I32 : m; }
VG_FN i64 missing_from(i64 m, u32 na) { return na ? NA_I64 : m; }
VG_FN f32 missing_from(f32 m, u32) { return m; }
VG_FN f64 missing_from(f64 m, u32) { return m; }
template <class T> struct CumMax {
  T m; u32 na;
  VG_FN CumMax start() { CumMax a; a.m = Limit<T>::bottom(); a.na = 0; return a; }
  VG_FN void add(CumMax& a, T x) { a.na |= (u32)(Limit<T>::missing(x) == 2u); a.m = extreme(a.m, x, x > a.m); }
  VG_FN void merge(CumMax& a, const CumMax& b) { a.na |= b.na; a.m = extreme(a.m, b.m, b.m > a.m); }
  VG_FN T value(const CumMax& a, u32&) { return missing_from(a.m, a.na); }
};
template <class T> struct CumMin {
  T m; u32 na;
  VG_FN CumMin start() { CumMin a; a.m = Limit<T>::top(); a.na = 0; return a; }
  VG_FN void add(CumMin& a, T x) { a.na |= (u32)(Limit<T>::missing(x) == 2u); a.m = extreme(a.m, x, x < a.m); }
  VG_FN void merge(CumMin& a, const CumMin& b) { a.na |= b.na; a.m = extreme(a.m, b.m, b.m < a.m); }
  VG_FN T value(const CumMin& a, u32&) { return missing_from(a.m, a.na); }
};
