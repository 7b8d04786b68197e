// Adds many elements to those accumulators of reduce.h whose results do not depend on the order of additions, on the
// cpu device: in SIMD lanes, and with one check for missing values per block instead of per element. `tree.h` has the
// accumulators whose results depend on the order.
//
// Only build.rs includes this file, for the cpu device. Results do not depend on the target that the compiler generates
// code for.
#pragma once
#include "scan.h"

// ---- any accumulator ------------------------------------------------------------------------------
// Adds consecutive elements to one accumulator, by way of eight accumulators that take them in turn.
template <class A, class T> VG_FN void fold_each(A& a, const T* __restrict x, i64 i, i32 n, bool narm) {
  A lane[8];
  i32 k = 0;
  for (int l = 0; l < 8; l++) lane[l] = A::start();
  for (; k + 8 <= n; k += 8) for (int l = 0; l < 8; l++) accumulate(lane[l], x[k + l], i + k + l, narm);
  for (int l = 0; k < n; k++, l++) accumulate(lane[l], x[k], i + k, narm);
  for (int l = 0; l < 8; l++) A::merge(a, lane[l]);
}
template <class A, class T> VG_FN void fold(A& a, const T* x, i64 i, i32 n, bool narm) { fold_each(a, x, i, n, narm); }

// Adds `rows` rows of `inner` elements, of which the first is at position i of its group: element k of a row to
// accumulator k.
template <class A, class T>
VG_FN void fold_rows(A* __restrict a, const T* __restrict x, i64 i, i32 rows, i32 inner, bool narm) {
  for (i32 r = 0; r < rows; r++) for (i32 k = 0; k < inner; k++) accumulate(a[k], x[(i64)r * inner + k], i + r, narm);
}

// The values of `n` consecutive groups of `length` elements.
template <class A, class T>
VG_FN void fold_short(typename A::value* o, const T* __restrict x, i32 length, i32 n, bool narm, u32& w) {
  for (i32 g = 0; g < n; g++, x += length) {
    A a = A::start();
    for (i32 l = 0; l < length; l++) accumulate(a, x[l], l, narm);
    o[g] = A::finish(a, w);
  }
}

// Reduces elements `from` to `to` of segments that begin at `offsets`, of which `m` end here. Values of the segments go
// to `o`, except for the first one, which may have begun earlier: its accumulator goes to ends[0]. The part of the
// segment that does not end goes to ends[1].
template <class A, class T, class I>
VG_FN void fold_segments(typename A::value* o, A* ends, const T* __restrict x, const I* offsets, i32 m, i64 from,
                         i64 to, bool narm) {
  u32 w = 0;
  for (i32 s = 0; s <= m; s++) {
    const i64 end = s == m ? to : (i64)offsets[s + 1];
    Quick<A> q = Quick<A>::start();
    for (i64 e = from; e < end; e++) Quick<A>::add(q, x[e], e - from, narm);
    A a = Quick<A>::get(q);
    if (!Quick<A>::is_usual(q)) {
      a = A::start();
      for (i64 e = from; e < end; e++) accumulate(a, x[e], e - from, narm);
    }
    from = end;
    if (s == m) ends[1] = a; else if (s == 0) ends[0] = a; else o[s] = A::finish(a, w);
  }
}

// Adds a chunk's elements to the accumulators of their codes, which are 1 to `groups`; other codes are skipped.
// Accumulators that round add in the order of a warp (grouped.cuh): in rows of 32, whose elements with equal codes are
// merged pairwise first. `stamps` has room for a number per code.
template <class A, class T>
VG_FN void fold_coded(A* a, i64* stamps, const T* x, const i32* codes, i32 n, i32 groups, bool narm) {
  if (!ORDERED<A>) {
    for (i32 k = 0; k < n; k++) {
      const u32 g = (u32)codes[k] - 1u;
      if (g < (u32)groups) accumulate(a[g], x[k], k, narm);
    }
    return;
  }
  // The position at which a code first occurs in the row where it was last seen
  for (i32 g = 0; g < groups; g++) stamps[g] = -1;
  for (i32 row = 0; row < n; row += 32) {
    const i32 lanes = n - row < 32 ? n - row : 32;
    u8 alike[32][32], count[32];
    bool repeated = false;
    for (i32 l = 0; l < lanes; l++) {
      count[l] = 0;
      const u32 g = (u32)codes[row + l] - 1u;
      if (g >= (u32)groups) continue;
      if (stamps[g] < row) stamps[g] = row + l; else repeated = true;
      const i32 first = (i32)(stamps[g] - row);
      alike[first][count[first]++] = (u8)l;
    }
    for (i32 l = 0; l < lanes; l++) {
      if (count[l] == 0) continue;
      const u32 g = (u32)codes[row + l] - 1u;
      if (!repeated) { accumulate(a[g], x[row + l], 0, narm); continue; }
      A part[32];
      const i32 m = count[l];
      for (i32 k = 0; k < m; k++) {
        part[k] = A::start();
        accumulate(part[k], x[row + alike[l][k]], 0, narm);
      }
      for (i32 by = 1; by < m; by *= 2) for (i32 k = 0; k + by < m; k += 2 * by) A::merge(part[k], part[k + by]);
      A::merge(a[g], part[0]);
    }
  }
}

// ---- sums of integers ------------------------------------------------------------------------------
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

// ---- extremes -----------------------------------------------------------------------------------------
// A block with a missing value is folded again, element by element.
template <class T> struct Wide;
template <> struct Wide<f64> { typedef f64 type __attribute__((vector_size(32))); };
template <> struct Wide<f32> { typedef f32 type __attribute__((vector_size(32))); };
template <> struct Wide<i64> { typedef i64 type __attribute__((vector_size(32))); };
template <> struct Wide<i32> { typedef i32 type __attribute__((vector_size(32))); };
// Which lanes are missing: integers are compared with NA, floats with themselves.
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
// The position is searched only if the extreme is new.
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
    bits |= (u32)x[k] & 0x7FFFFFFFu;  // 0 for NA, too
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
// Running values of a block, which continue from the state. Returns status bits.
template <class A, class T> VG_FN u32 scan_block(A& state, T* __restrict o, const T* __restrict x, i32 n) {
  A a = state;
  u32 w = 0;
  for (i32 k = 0; k < n; k++) { A::add(a, x[k]); o[k] = A::value(a, w); }
  state = a;
  return w;
}
// A new extreme is rare, so a predicted branch costs less than a selection each time. A missing value stays.
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
