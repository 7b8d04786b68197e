// Adds many elements to the accumulators of reduce.h on the cpu device: in SIMD lanes, where elements need not wait for
// each other, and with one check for missing values a block instead of one an element.
//
// Only the cpu device is compiled with this (build.rs). Results do not depend on the target that the compiler generates
// code for.
#pragma once
#include "scan.h"

// ---- any accumulator ------------------------------------------------------------------------------
// Elements that follow each other, into one. Eight accumulators take them in turn.
template <class A, class T> VG_FN void fold_each(A& a, const T* __restrict x, i64 i, i32 n, bool narm) {
  A lane[8];
  i32 k = 0;
  for (int l = 0; l < 8; l++) lane[l] = A::start();
  for (; k + 8 <= n; k += 8) for (int l = 0; l < 8; l++) accumulate(lane[l], x[k + l], i + k + l, narm);
  for (int l = 0; k < n; k++, l++) accumulate(lane[l], x[k], i + k, narm);
  for (int l = 0; l < 8; l++) A::merge(a, lane[l]);
}
template <class A, class T> VG_FN void fold(A& a, const T* x, i64 i, i32 n, bool narm) { fold_each(a, x, i, n, narm); }

// `rows` rows of `inner` elements, the first at place i of its group: element k of a row into accumulator k.
template <class A, class T>
VG_FN void fold_rows_each(A* __restrict a, const T* __restrict x, i64 i, i32 rows, i32 inner, bool narm) {
  for (i32 r = 0; r < rows; r++) for (i32 k = 0; k < inner; k++) accumulate(a[k], x[(i64)r * inner + k], i + r, narm);
}
template <class A, class T> VG_FN void fold_rows(A* a, const T* x, i64 i, i32 rows, i32 inner, bool narm) {
  fold_rows_each(a, x, i, rows, inner, narm);
}

// `n` groups of `length` elements that follow each other, each to its value.
template <class A, class T> VG_FN typename A::value value_of(const T* __restrict x, i32 length, bool narm, u32& w) {
  A a = A::start();
  for (i32 l = 0; l < length; l++) accumulate(a, x[l], l, narm);
  return A::finish(a, w);
}
template <class A, class T> struct Groups {
  VG_FN void values(typename A::value* o, const T* x, i32 length, i32 n, bool narm, u32& w) {
    for (i32 g = 0; g < n; g++) o[g] = value_of<A>(x + (i64)g * length, length, narm, w);
  }
};

// Elements into the accumulators of their codes, which are 1 to `groups`; others are passed over.
template <class A, class T> VG_FN void fold_coded(A* a, const T* x, const i32* codes, i32 n, i32 groups, bool narm) {
  for (i32 k = 0; k < n; k++) {
    const u32 g = (u32)codes[k] - 1u;
    if (g < (u32)groups) accumulate(a[g], x[k], k, narm);
  }
}

// ---- sums of doubles --------------------------------------------------------------------------------
// Compensated sums, as of `add_up`, in lanes. A block
// that is not finite is added element by element, so that what is missing is seen and Inf stays Inf.
typedef f64 f64x4 __attribute__((vector_size(32)));
VG_FN f64x4 load_4(const f64* x) { f64x4 v; memcpy(&v, x, 32); return v; }
VG_FN void add_4(f64x4& hi, f64x4& lo, f64x4 x) {
  f64x4 s = hi + x, t = s - hi;
  lo += (hi - (s - t)) + (x - t);
  hi = s;
}
VG_FN bool is_settled(dd a) { return (a.hi - a.hi) + (a.lo - a.lo) == 0.0; }
VG_FN dd normal(dd a) { return quick_two_sum(a.hi, a.lo); }

// Sums of n doubles; with PARTS = 2 of those at even and at odd places. False where one is not finite.
template <int PARTS, bool KNOWN> VG_FN bool quick_sums(dd* out, const f64* __restrict x, i32 n) {
  f64x4 hi[4] = {}, lo[4] = {}, none = {};
  i32 k = 0;
  for (; k + 16 <= n; k += 16) {
    for (int j = 0; j < 4; j++) {
      f64x4 v = load_4(x + k + 4 * j);
      add_4(hi[j], lo[j], KNOWN ? (v == v ? v : none) : v);
    }
  }
  for (; k < n; k += 4) {
    f64x4 v = none;
    if (k + 4 <= n) v = load_4(x + k); else memcpy(&v, x + k, 8 * (size_t)(n - k));
    add_4(hi[0], lo[0], KNOWN ? (v == v ? v : none) : v);
  }
  for (int j = 1; j < 4; j++) { add_4(hi[0], lo[0], hi[j]); lo[0] += lo[j]; }
  bool settled = true;
  for (int p = 0; p < PARTS; p++) {
    dd s = {hi[0][p], lo[0][p]};
    for (int l = p + PARTS; l < 4; l += PARTS) add_up(s, dd{hi[0][l], lo[0][l]});
    settled &= is_settled(s);
    out[p] = normal(s);
  }
  return settled;
}
VG_FN i64 count_known(const f64* x, i32 n) {
  i64 count = 0;
  for (i32 k = 0; k < n; k++) count += x[k] == x[k];
  return count;
}

VG_FN bool quick_sum(dd& s, const f64* x, i32 n, bool narm) {
  return narm ? quick_sums<1, true>(&s, x, n) : quick_sums<1, false>(&s, x, n);
}
VG_FN void fold(Sum<f64>& a, const f64* x, i64 i, i32 n, bool narm) {
  dd s;
  if (quick_sum(s, x, n, narm)) a.s = dd_add(a.s, s);
  else fold_each(a, x, i, n, narm);
}
VG_FN void fold(Mean<f64>& a, const f64* x, i64 i, i32 n, bool narm) {
  fold(a.s, x, i, n, narm);
  a.n += narm ? count_known(x, n) : n;
}
VG_FN void fold(Sum<i32>& a, const i32* __restrict x, i64, i32 n, bool narm) {
  i64 s = 0;
  i32 missing = 0;
  for (i32 k = 0; k < n; k++) {
    s += x[k] == NA_I32 ? 0 : x[k];
    missing |= x[k] == NA_I32;
  }
  a.s += s;
  a.na |= (u32)missing & !narm;
}
VG_FN void fold(Sum<c128>& a, const c128* x, i64 i, i32 n, bool narm) {
  dd s[2];
  if (quick_sums<2, false>(s, (const f64*)x, 2 * n)) { a.re = dd_add(a.re, s[0]); a.im = dd_add(a.im, s[1]); }
  else fold_each(a, x, i, n, narm);
}
VG_FN void fold(Mean<c128>& a, const c128* x, i64 i, i32 n, bool narm) {
  dd s[2];
  if (quick_sums<2, false>(s, (const f64*)x, 2 * n)) {
    a.s.re = dd_add(a.s.re, s[0]); a.s.im = dd_add(a.s.im, s[1]);
    a.n += n;
  } else fold_each(a, x, i, n, narm);
}

// What a sum is part of.
VG_FN Sum<f64>& sum_in(Sum<f64>& a) { return a; }
VG_FN Sum<f64>& sum_in(Mean<f64>& a) { return a.s; }
VG_FN void count_in(Sum<f64>&, i64) {}
VG_FN void count_in(Mean<f64>& a, i64 n) { a.n += n; }

VG_FN void store_sums(f64* o, Sum<f64>, f64x4 hi, f64x4 lo, i32, u32&) {
  f64x4 s = hi + lo;
  memcpy(o, &s, 32);
}
VG_FN void store_sums(f64* o, Mean<f64> a, f64x4 hi, f64x4 lo, i32 length, u32& w) {
  a.n = length;
  for (int k = 0; k < 4; k++) {
    a.s.s = dd{hi[k], lo[k]};
    o[k] = Mean<f64>::finish(a, w);
  }
}
// Eight groups side by side. Their first elements are the sums so far, without errors; 0 is added, which makes 0 of -0.
template <class A> VG_FN void values_of_sums(f64* o, const f64* x, i32 length, i32 n, bool narm, u32& w) {
  i32 g = 0;
  i64 d = length;
  for (; g + 8 <= n; g += 8) {
    const f64* p = x + g * d;
    f64x4 none = {}, lo[2] = {}, hi[2] = {{p[0], p[d], p[2 * d], p[3 * d]}, {p[4 * d], p[5 * d], p[6 * d], p[7 * d]}};
    for (int j = 0; j < 2; j++) hi[j] += none;
    for (i32 l = 1; l < length; l++) {
      p++;
      f64x4 u = {p[0], p[d], p[2 * d], p[3 * d]}, v = {p[4 * d], p[5 * d], p[6 * d], p[7 * d]};
      add_4(hi[0], lo[0], u);
      add_4(hi[1], lo[1], v);
    }
    f64x4 unsettled = ((hi[0] - hi[0]) + (lo[0] - lo[0])) + ((hi[1] - hi[1]) + (lo[1] - lo[1]));
    if ((unsettled[0] + unsettled[1]) + (unsettled[2] + unsettled[3]) == 0.0) {
      for (int j = 0; j < 2; j++) {
        f64x4 s = hi[j] + lo[j];
        store_sums(o + g + 4 * j, A::start(), s, lo[j] - (s - hi[j]), length, w);
      }
    } else for (int k = 0; k < 8; k++) o[g + k] = value_of<A>(x + (g + k) * d, length, narm, w);
  }
  for (; g < n; g++) o[g] = value_of<A>(x + g * d, length, narm, w);
}
template <> struct Groups<Sum<f64>, f64> {
  VG_FN void values(f64* o, const f64* x, i32 length, i32 n, bool narm, u32& w) {
      values_of_sums<Sum<f64>>(o, x, length, n, narm, w); }
};
template <> struct Groups<Mean<f64>, f64> {
  VG_FN void values(f64* o, const f64* x, i32 length, i32 n, bool narm, u32& w) {
      values_of_sums<Mean<f64>>(o, x, length, n, narm, w); }
};

// By code. What is not finite is for the accumulator; where it has come to a sum, or the sum has overflowed, there is
// no rest.
template <class A> VG_FN void sum_coded(A* __restrict a, const f64* __restrict x, const i32* __restrict codes, i32 n,
    i32 groups, bool narm) {
  for (i32 k = 0; k < n; k++) {
    const u32 g = (u32)codes[k] - 1u;
    if (g >= (u32)groups) continue;
    if (x[k] - x[k] == 0) {
      dd& to = sum_in(a[g]).s;
      to = dd_add(to, x[k]);
      count_in(a[g], 1);
    } else accumulate(a[g], x[k], k, narm);
  }
  for (i32 g = 0; g < groups; g++) {
    dd& s = sum_in(a[g]).s;
    if (s.hi - s.hi != 0) s.lo = 0;
  }
}
VG_FN void fold_coded(Sum<f64>* a, const f64* x, const i32* codes, i32 n, i32 groups, bool narm) {
    sum_coded(a, x, codes, n, groups, narm); }
VG_FN void fold_coded(Mean<f64>* a, const f64* x, const i32* codes, i32 n, i32 groups, bool narm) {
    sum_coded(a, x, codes, n, groups, narm); }

// Lanes beside each other take as many whole rows as there is room for.
template <class A> VG_FN void sum_rows(A* a, const f64* __restrict x, i64 i, i32 rows, i32 inner, bool narm) {
  enum { MOST_COLUMNS = 128 };
  if (rows < 8 || inner > MOST_COLUMNS) { fold_rows_each(a, x, i, rows, inner, narm); return; }
  f64 hi[MOST_COLUMNS] = {}, lo[MOST_COLUMNS] = {};
  i32 lanes = inner * (inner < 16 ? 16 / inner : 1), n = rows * inner;
  for (i32 e = 0; e < n; e += lanes) {
    const f64* __restrict v = x + e;
    i32 most = n - e < lanes ? n - e : lanes;
    for (i32 l = 0; l < most; l++) {
      f64 s = hi[l] + v[l], t = s - hi[l];
      lo[l] += (hi[l] - (s - t)) + (v[l] - t);
      hi[l] = s;
    }
  }
  for (i32 k = 0; k < inner; k++) {
    dd s = {hi[k], lo[k]};
    for (i32 l = k + inner; l < lanes; l += inner) add_up(s, dd{hi[l], lo[l]});
    if (is_settled(s)) {
      sum_in(a[k]).s = dd_add(sum_in(a[k]).s, normal(s));
      count_in(a[k], rows);
    } else for (i32 r = 0; r < rows; r++) accumulate(a[k], x[r * inner + k], i + r, narm);
  }
}
VG_FN void fold_rows(Sum<f64>* a, const f64* x, i64 i, i32 rows, i32 inner, bool narm) {
    sum_rows(a, x, i, rows, inner, narm); }
VG_FN void fold_rows(Mean<f64>* a, const f64* x, i64 i, i32 rows, i32 inner, bool narm) {
    sum_rows(a, x, i, rows, inner, narm); }

// ---- moments of doubles ---------------------------------------------------------------------------------
// A block of numbers that are known and not huge goes by in lanes; what else there is, is for `Var::add`.
VG_FN bool is_plain_block(const f64* __restrict x, i32 n, bool narm) {
  f64 limit = f64_of_bits((u64)(1023 + 480) << 52);
  u32 bad = 0;
  for (i32 k = 0; k < n; k++) bad |= (u32)(!(x[k] <= limit && x[k] >= -limit) && !(narm && x[k] != x[k]));
  return bad == 0;
}
// hi * hi is two doubles, by Dekker's halves: what fma() gives, which the default target has not.
VG_FN void square_4(f64x4& p, f64x4& rest, f64x4 x) {
  f64x4 c = 134217729.0 * x, high = c - (c - x), low = x - high;
  p = x * x;
  rest = ((high * high - p) + 2.0 * (high * low)) + low * low;
}
template <bool KNOWN> VG_FN void quick_moments(dd& s, dd& q, const f64* __restrict x, i32 n, f64 pivot) {
  f64x4 sum[2] = {}, sum_rest[2] = {}, squares[2] = {}, squares_rest[2] = {}, from = {pivot, pivot, pivot, pivot};
  for (i32 k = 0; k < n; k += 8) for (int j = 0; j < 2; j++) {
    i32 at = k + 4 * j;
    f64x4 v = from, d, p, p_rest;
    if (at + 4 <= n) v = load_4(x + at); else if (at < n) memcpy(&v, x + at, 8 * (size_t)(n - at));
    if (KNOWN) v = v == v ? v : from;
    d = v - from;
    square_4(p, p_rest, d);
    add_4(sum[j], sum_rest[j], d);
    add_4(squares[j], squares_rest[j], p);
    squares_rest[j] += p_rest;
  }
  add_4(sum[0], sum_rest[0], sum[1]); sum_rest[0] += sum_rest[1];
  add_4(squares[0], squares_rest[0], squares[1]); squares_rest[0] += squares_rest[1];
  s.hi = s.lo = q.hi = q.lo = 0;
  for (int l = 0; l < 4; l++) {
    add_up(s, dd{sum[0][l], sum_rest[0][l]});
    add_up(q, dd{squares[0][l], squares_rest[0][l]});
  }
  s = normal(s); q = normal(q);
}
VG_FN void fold(Var<f64>& a, const f64* x, i64 i, i32 n, bool narm) {
  if (n < 32 || (a.n > 0 && !a.usual) || !is_plain_block(x, n, narm)) { fold_each(a, x, i, n, narm); return; }
  i64 known = narm ? count_known(x, n) : n;
  if (known == 0) return;
  if (a.n == 0) {
    i32 first = 0;
    while (x[first] != x[first]) first++;
    Var<f64>::begin(a, x[first]);
  }
  dd s, q;
  if (known < n) quick_moments<true>(s, q, x, n, a.pivot); else quick_moments<false>(s, q, x, n, a.pivot);
  a.s = dd_add(a.s, s);
  a.q = dd_add(a.q, q);
  a.n += known;
}

// ---- products of doubles ------------------------------------------------------------------------------
// Where no factor is far from 1 (2^-120 ... 2^120) four of them go by before a lane's exponent must be taken out; the
// exponent is exact, so this gives the bits that one factor after the other gives.
VG_FN bool is_moderate(const f64* x, i32 n) {
  u32 bad = 0;
  for (i32 k = 0; k < n; k++) bad |= (u32)(((u32)(bits_of(x[k]) >> 52) & 0x7FFu) - 903u > 240u);
  return bad == 0;
}
VG_FN void fold(Product<f64>& a, const f64* __restrict x, i64 i, i32 n, bool narm) {
  if (n < 32 || !is_moderate(x, n)) { fold_each(a, x, i, n, narm); return; }
  f64 hi[8], lo[8];
  i64 e[8];
  for (int l = 0; l < 8; l++) { hi[l] = 1.0; lo[l] = 0.0; e[l] = 0; }
  i32 k = 0;
  for (; k + 32 <= n; k += 32) {
    for (int j = 0; j < 4; j++) for (int l = 0; l < 8; l++) {
      f64_pair p = exact_product(hi[l], x[k + 8 * j + l]);
      f64 rest = p.lo + lo[l] * x[k + 8 * j + l];
      hi[l] = p.hi + rest;
      lo[l] = rest - (hi[l] - p.hi);
    }
    for (int l = 0; l < 8; l++) {
      u64 exponent = (bits_of(hi[l]) >> 52) & 0x7FFu;
      f64 scale = f64_of_bits((2046u - exponent) << 52);
      hi[l] *= scale; lo[l] *= scale; e[l] += (i64)exponent - 1023;
    }
  }
  Product<f64> lane = Product<f64>::start();
  for (int l = 0; l < 8; l++) {
    lane.p.m.hi = hi[l]; lane.p.m.lo = lo[l]; lane.p.e = e[l];
    for (i32 j = k + l; j < n; j += 8) Product<f64>::add(lane, x[j], narm);
    Product<f64>::merge(a, lane);
  }
}

// ---- extremes -----------------------------------------------------------------------------------------
// A block where something is missing is looked at again, element by element.
template <class T> struct Wide;
template <> struct Wide<f64> { typedef f64x4 type; };
template <> struct Wide<f32> { typedef f32 type __attribute__((vector_size(32))); };
template <> struct Wide<i64> { typedef i64 type __attribute__((vector_size(32))); };
template <> struct Wide<i32> { typedef i32 type __attribute__((vector_size(32))); };
// As an integer is its own NA, so is a NaN no number: x == none(x), or x != x.
template <class V, class T> VG_FN auto missing_in(V v, T) -> decltype(v != v) { return v == (V{} + Limit<T>::bottom());
}
template <class V> VG_FN auto missing_in(V v, f64) -> decltype(v != v) { return v != v; }
template <class V> VG_FN auto missing_in(V v, f32) -> decltype(v != v) { return v != v; }

template <class T> VG_FN bool quick_range(T& low, T& high, const T* __restrict x, i32 n) {
  typedef typename Wide<T>::type V;
  enum { EACH = 32 / sizeof(T), LANES = 4 * EACH };
  if (n < LANES) return false;
  V bottom[4], top[4], v;
  memcpy(bottom, x, sizeof bottom);
  memcpy(top, x, sizeof top);
  auto missing = missing_in(bottom[0], x[0]);
  i32 k = 0;
  for (; k + LANES <= n; k += LANES) for (int j = 0; j < 4; j++) {
    memcpy(&v, x + k + j * EACH, sizeof v);
    bottom[j] = v < bottom[j] ? v : bottom[j];
    top[j] = v > top[j] ? v : top[j];
    missing |= missing_in(v, x[0]);
  }
  T least[LANES], most[LANES];
  memcpy(least, bottom, sizeof least);
  memcpy(most, top, sizeof most);
  low = least[0]; high = most[0];
  bool any = false;
  for (int l = 0; l < LANES; l++) {
    low = least[l] < low ? least[l] : low;
    high = most[l] > high ? most[l] : high;
    any |= missing[l % EACH] != 0;
  }
  for (; k < n; k++) {
    low = x[k] < low ? x[k] : low;
    high = x[k] > high ? x[k] : high;
    any |= is_na(x[k]);
  }
  return !any;
}
template <class T> VG_FN void fold(Min<T>& a, const T* x, i64 i, i32 n, bool narm) {
  T low, high;
  if (!quick_range(low, high, x, n)) { fold_each(a, x, i, n, narm); return; }
  a.m = low < a.m ? low : a.m;
  a.any = 1;
}
template <class T> VG_FN void fold(Max<T>& a, const T* x, i64 i, i32 n, bool narm) {
  T low, high;
  if (!quick_range(low, high, x, n)) { fold_each(a, x, i, n, narm); return; }
  a.m = high > a.m ? high : a.m;
  a.any = 1;
}
// The place is looked for only where the extreme is new.
template <class T> VG_FN i64 position_of(const T* __restrict x, T wanted) {
  i64 k = 0;
  while (x[k] != wanted) k++;
  return k;
}
template <class T, bool GREATEST> VG_FN void fold(Which<T, GREATEST>& a, const T* x, i64 i, i32 n, bool narm) {
  T low, high;
  if (!quick_range(low, high, x, n)) { fold_each(a, x, i, n, narm); return; }
  const T best = GREATEST ? high : low;
  if (replaces(best, a.m, a.at, Which<T, GREATEST>::is_better(best, a.m))) {
      a.m = best; a.at = i + position_of(x, best); }
}
template <class T> VG_FN void fold(Range<T>& a, const T* x, i64 i, i32 n, bool narm) {
  T low, high;
  if (!quick_range(low, high, x, n)) { fold_each(a, x, i, n, narm); return; }
  a.low.m = low < a.low.m ? low : a.low.m;
  a.high.m = high > a.high.m ? high : a.high.m;
  a.low.any = a.high.any = 1;
}

// ---- any, all ----------------------------------------------------------------------------------------
VG_FN void fold(Any<i32>& a, const i32* __restrict x, i64 i, i32 n, bool narm) {
  u32 bits = 0, missing = 0;
  for (i32 k = 0; k < n; k++) {
    bits |= (u32)x[k] & 0x7FFFFFFFu;  // 0 of NA too
    missing |= (u32)(x[k] == NA_I32);
  }
  a.yes |= (u32)(bits != 0);
  a.na |= missing & (u32)!narm;
}
VG_FN void fold(All<i32>& a, const i32* __restrict x, i64 i, i32 n, bool narm) {
  u32 no = 0, missing = 0;
  for (i32 k = 0; k < n; k++) {
    no |= (u32)(x[k] == 0);
    missing |= (u32)(x[k] == NA_I32);
  }
  a.no |= no;
  a.na |= missing & (u32)!narm;
}

// ---- scans ----------------------------------------------------------------------------------------------
// A block of running values, which goes on from the state; returns status bits.
template <class A, class T> VG_FN u32 scan_block(A& state, T* __restrict o, const T* __restrict x, i32 n) {
  A a = state;
  u32 w = 0;
  for (i32 k = 0; k < n; k++) { A::add(a, x[k]); o[k] = A::value(a, w); }
  state = a;
  return w;
}
// An extreme is rarely new: a branch that is foreseen costs less than to choose each time. What is missing stays.
template <class T, class BEATS> VG_FN void scan_extreme(T& m, T* __restrict o, const T* __restrict x, i32 n,
    BEATS beats) {
  i32 k = 0;
  if (m == m) for (; k < n; k++) {
    if (beats(x[k], m)) {
      m = x[k];
      if (m != m) break;
    }
    o[k] = m;
  }
  for (; k < n; k++) o[k] = m;
}
template <class T> VG_FN bool above(T x, T m) { return !(x <= m); }
template <class T> VG_FN bool below(T x, T m) { return !(x >= m); }
VG_FN u32 scan_block(CumMax<f64>& a, f64* o, const f64* x, i32 n) { scan_extreme(a.m, o, x, n, above<f64>); return 0; }
VG_FN u32 scan_block(CumMax<f32>& a, f32* o, const f32* x, i32 n) { scan_extreme(a.m, o, x, n, above<f32>); return 0; }
VG_FN u32 scan_block(CumMin<f64>& a, f64* o, const f64* x, i32 n) { scan_extreme(a.m, o, x, n, below<f64>); return 0; }
VG_FN u32 scan_block(CumMin<f32>& a, f32* o, const f32* x, i32 n) { scan_extreme(a.m, o, x, n, below<f32>); return 0; }
