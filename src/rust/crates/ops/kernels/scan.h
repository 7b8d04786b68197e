// Scans: running sums, products, maxima and minima.
//
// A state has `add(x)` for one element, `merge(later)` for the state of what follows, and `value(status)`. R keeps
// running sums and products of doubles in 80 bits; here they are two doubles, which hold more digits.
#pragma once
#include "reduce.h"

// As in base R the first that is missing stays, NA or NaN.
VG_FN f64 keep_first(f64 r, f64 a) { return a == a ? r : a; }

// ---- sums ---------------------------------------------------------------------------------------
template <class T> struct CumSum;
#ifdef VG_DEVICE
// Compensated sums; what is missing is in hi. One that passes the largest double stays infinite: the scaled form below
// takes 1.2 times as long, for registers and calls that are never used.
VG_FN f64 total_or_not_finite(dd s) { return s.hi - s.hi == 0.0 ? total(s) : s.hi; }
template <> struct CumSum<f64> {
  dd s;
  VG_FN CumSum start() { CumSum a; a.s.hi = a.s.lo = 0; return a; }
  VG_FN void add(CumSum& a, f64 x) {
    dd t = two_sum(a.s.hi, x);
    a.s.hi = keep_first(t.hi, a.s.hi); a.s.lo += t.lo;
  }
  VG_FN void merge(CumSum& a, const CumSum& b) {
    dd t = two_sum(a.s.hi, b.s.hi);
    a.s.hi = keep_first(t.hi, a.s.hi); a.s.lo += t.lo + b.s.lo;
  }
  VG_FN f64 value(const CumSum& a, u32&) { return total_or_not_finite(a.s); }
};
#else
// The same sums, which reach as far as base R's.
template <> struct CumSum<f64> {
  Sum<f64> s;
  VG_FN CumSum start() { CumSum a; a.s = Sum<f64>::start(); return a; }
  VG_FN bool cancels(u32 seen) { return (seen & (SEEN_INF | SEEN_MINUS_INF)) == (SEEN_INF | SEEN_MINUS_INF); }
  // What is seen of one part and then of another.
  VG_FN u32 seen(u32 first, u32 then) {
    if ((first & (SEEN_NA | SEEN_NAN)) || cancels(first)) return first;
    // Inf - Inf is NaN, and comes before what else the other part has seen
    return cancels(first | then) ? SEEN_INF | SEEN_MINUS_INF : first | then;
  }
  VG_FN void add(CumSum& a, f64 x) {
    if (x - x != 0.0) {
      Sum<f64> b = Sum<f64>::start();
      Sum<f64>::note(b, x);
      a.s.usual = (a.s.usual & ~(u32)SEEN_ANY) | seen(a.s.usual & SEEN_ANY, b.usual & SEEN_ANY);
    } else Sum<f64>::add(a.s, x, false);
  }
  VG_FN void merge(CumSum& a, const CumSum& b) {
    const u32 both = seen(a.s.usual & SEEN_ANY, b.s.usual & SEEN_ANY);
    Sum<f64>::merge(a.s, b.s);
    a.s.usual = (a.s.usual & ~(u32)SEEN_ANY) | both;
  }
  VG_FN f64 value(const CumSum& a, u32& w) { return Sum<f64>::finish(a.s, w); }
};
#endif
template <> struct CumSum<f32> {
  f64 s;
  VG_FN CumSum start() { CumSum a; a.s = 0; return a; }
  VG_FN void add(CumSum& a, f32 x) { a.s += (f64)x; }
  VG_FN void merge(CumSum& a, const CumSum& b) { a.s += b.s; }
  VG_FN f32 value(const CumSum& a, u32&) { return (f32)a.s; }
};
template <> struct CumSum<c128> {
  CumSum<f64> re, im;
  VG_FN CumSum start() { CumSum a; a.re = a.im = CumSum<f64>::start(); return a; }
  VG_FN void add(CumSum& a, c128 x) { CumSum<f64>::add(a.re, x.re); CumSum<f64>::add(a.im, x.im); }
  VG_FN void merge(CumSum& a, const CumSum& b) { CumSum<f64>::merge(a.re, b.re); CumSum<f64>::merge(a.im, b.im); }
  VG_FN c128 value(const CumSum& a, u32& w) {
    c128 r; r.re = CumSum<f64>::value(a.re, w); r.im = CumSum<f64>::value(a.im, w); return r;
  }
};
// From the first NA on, all are NA. A sum that does not fit is NA too, and says so; that what follows it is NA is the
// caller's matter.
template <> struct CumSum<i32> {
  Sum<i32> s;
  VG_FN CumSum start() { CumSum a; a.s = Sum<i32>::start(); return a; }
  VG_FN void add(CumSum& a, i32 x) { Sum<i32>::add(a.s, x, false); }
  VG_FN void merge(CumSum& a, const CumSum& b) { Sum<i32>::merge(a.s, b.s); }
  VG_FN i32 value(const CumSum& a, u32& w) {
    if (a.s.na) return NA_I32;
    if (a.s.s > 2147483647ll || a.s.s < -2147483647ll) { w |= STATUS_OVERFLOW; return NA_I32; }
    return (i32)a.s.s;
  }
};
template <> struct CumSum<i64> {
  Sum<i64> s;
  VG_FN CumSum start() { CumSum a; a.s = Sum<i64>::start(); return a; }
  VG_FN void add(CumSum& a, i64 x) { Sum<i64>::add(a.s, x, false); }
  VG_FN void merge(CumSum& a, const CumSum& b) { Sum<i64>::merge(a.s, b.s); }
  VG_FN i64 value(const CumSum& a, u32& w) {
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
// base R's own is in doubles
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
// Chosen, not added: of NA + NaN compilers may keep either, base R keeps the first.
VG_FN f64 extreme(f64 m, f64 x, bool wins) { return m == m && (wins || x != x) ? x : m; }
VG_FN f32 extreme(f32 m, f32 x, bool wins) { return m == m && (wins || x != x) ? x : m; }
// floats carry what is missing in the value itself
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
