// Reduces short groups of adjacent elements in the order of tree.rs, on the cpu device: many groups per block, each a
// tile of at most 128 lanes (tree.h has the longer ones).
#pragma once
#include "tree.h"

namespace {

// Reduces a group of `length` adjacent elements, of which the first is at position `first` of a row of at most 128
// `lanes`.
template <class A, class T> VG_FN A short_group(const T* __restrict x, i32 first, i32 length, i32 lanes, bool narm) {
  A lane[128];
  const i32 places = first + length;
  i32 used = 4;
  while (used < lanes && used < places) used *= 2;
  for (i32 l = 0; l < used; l++) lane[l] = A::start();
  for (i32 place = first; place < places;) {
    const T* own = x + (place - first);
    if (ADDS_ALL<A> && place % (4 * lanes) == 0 && places - place >= 4 * lanes) {
      for (i32 l = 0; l < lanes; l++) {
        const T four[4] = {own[l], own[l + lanes], own[l + 2 * lanes], own[l + 3 * lanes]};
        if (!add_all(lane[l], four)) for (i32 r = 0; r < 4; r++) accumulate(lane[l], four[r], 0, narm);
      }
      place += 4 * lanes;
      continue;
    }
    const i32 at = place % lanes, count = lanes - at < places - place ? lanes - at : places - place;
    for (i32 k = 0; k < count; k++) accumulate(lane[at + k], own[k], 0, narm);
    place += count;
  }
  for (i32 by = 1; by < used; by *= 2) for (i32 l = 0; l < used; l += 2 * by) A::merge(lane[l], lane[l + by]);
  return lane[0];
}
// Sums of short groups, with the four lanes of a pack in one register. Elements are doubles, those of a group from
// `start` to `end`. Packs begin at multiples of four, and memory in front and behind can be read.
VG_FN f64x4 masked(f64x4 v, i64 first, i64 end) {
  const i64x4 place = {0, 1, 2, 3};
  i64x4 bits;
  memcpy(&bits, &v, 32);
  bits &= (place >= first) & (place < end);
  memcpy(&v, &bits, 32);
  return v;
}
template <bool EXACTLY> VG_FN void add_pack(f64x4& hi, f64x4& lo, f64x4 v) {
  if (EXACTLY) add_4(hi, lo, v); else hi += v;
}
template <bool EXACTLY> VG_FN dd merged(dd a, dd b) {
  if (EXACTLY) add_up(a, b); else a.hi += b.hi;
  return a;
}
// Sums packs c, c + step, ... of a group.
template <bool EXACTLY>
VG_FN void sum_packs(f64x4& hi, f64x4& lo, i64x4& any, const f64* x, i32 start, i32 end, i32 c, i32 step) {
  const i32 first = start / 4, last = (end + 3) / 4;
  hi = lo = f64x4{};
  for (i32 q = first + c; q < last; q += step) {
    f64x4 v = load_4(x + 4 * q);
    if (q == first || q == last - 1) v = masked(v, start - 4 * q, end - 4 * q);
    if (EXACTLY) any |= beyond_4(v, HUGE_SIZE);
    add_pack<EXACTLY>(hi, lo, v);
  }
}
template <bool EXACTLY> VG_FN dd merged_lanes(f64x4 hi, f64x4 lo) {
  return merged<EXACTLY>(merged<EXACTLY>(dd{hi[0], lo[0]}, dd{hi[1], lo[1]}),
                         merged<EXACTLY>(dd{hi[2], lo[2]}, dd{hi[3], lo[3]}));
}
template <bool EXACTLY> VG_FN dd short_sum(i64x4& any, const f64* x, i32 start, i32 end, i32 lanes) {
  f64x4 hi, lo;
  if (lanes == 4) {
    sum_packs<EXACTLY>(hi, lo, any, x, start, end, 0, 1);
    return merged_lanes<EXACTLY>(hi, lo);
  }
  dd part[32];
  const i32 packs = (end + 3) / 4 - start / 4;
  i32 used = 1;
  while (4 * used < lanes && used < packs) used *= 2;
  for (i32 c = 0; c < used; c++) {
    sum_packs<EXACTLY>(hi, lo, any, x, start, end, c, used);
    part[c] = merged_lanes<EXACTLY>(hi, lo);
  }
  for (i32 by = 1; by < used; by *= 2)
    for (i32 c = 0; c < used; c += 2 * by) part[c] = merged<EXACTLY>(part[c], part[c + by]);
  return part[0];
}
// Sums four groups of one row each, merged in SIMD lanes.
template <bool EXACTLY>
VG_FN void four_sums(dd* out, i64x4& any, const f64* x, i32 start, i32 length) {
  f64x4 hi[4], lo[4];
  for (int g = 0; g < 4; g++, start += length) sum_packs<EXACTLY>(hi[g], lo[g], any, x, start, start + length, 0, 1);
  f64x4 h[4], l[4];
  for (int k = 0; k < 4; k++) {
    h[k] = f64x4{hi[0][k], hi[1][k], hi[2][k], hi[3][k]};
    l[k] = f64x4{lo[0][k], lo[1][k], lo[2][k], lo[3][k]};
  }
  const auto merge = [&](int a, int b) {
    const f64x4 s = h[a] + h[b], t = s - h[a];
    if (EXACTLY) l[a] += ((h[a] - (s - t)) + (h[b] - t)) + l[b];
    h[a] = s;
  };
  merge(0, 1); merge(2, 3); merge(0, 2);
  for (int g = 0; g < 4; g++) out[g] = dd{h[0][g], l[0][g]};
}
// The sums of n groups; false if an element is not usual.
template <class T> VG_FN bool short_sums(dd* out, const T* __restrict x, i32 first, i32 length, i32 n, i32 lanes) {
  constexpr bool EXACTLY = sizeof(T) == 8;
  f64 place[MOST + 16];
  for (int k = 0; k < 8; k++) place[k] = 0;
  f64* __restrict y = place + 4 + first;
  const i32 all = n * length;
  for (i32 k = 0; k < all; k++) y[k] = (f64)x[k];
  for (i32 k = all; k < all + 4; k++) y[k] = 0;
  i64x4 any = {};
  i32 g = 0;
  if (lanes == 4) for (; g + 4 <= n; g += 4) four_sums<EXACTLY>(out + g, any, place, 4 + first + g * length, length);
  for (; g < n; g++) {
    const i32 start = 4 + first + g * length;
    out[g] = short_sum<EXACTLY>(any, place, start, start + length, lanes);
  }
  return !any_beyond(any);
}
template <class T> VG_FN bool none_missing(const T* __restrict x, i32 n) {
  u32 missing = 0;
  for (i32 k = 0; k < n; k++) missing |= (u32)!is_known(x[k]);
  return !missing;
}
// Makes the accumulator of `n` elements with this sum.
VG_FN void set_sum(Sum<f64>& a, dd s, i32) { a.s = s; }
VG_FN void set_sum(Sum<f32>& a, dd s, i32) { a.s = s.hi; }
template <class T> VG_FN void set_sum(Mean<T>& a, dd s, i32 n) { set_sum(a.s, s, n); a.n = n; }
template <class A, class T>
VG_FN bool values_of_sums(f64* o, const T* x, i32 first, i32 length, i32 n, i32 lanes, bool narm, u32& w) {
  if (narm && !none_missing(x, n * length)) return false;
  dd sums[MOST];
  if (!short_sums(sums, x, first, length, n, lanes)) return false;
  A a = A::start();
  for (i32 g = 0; g < n; g++) { set_sum(a, sums[g], length); o[g] = A::finish(a, w); }
  return true;
}

// The values of `n` consecutive groups, of which the first begins at position `first`; false if they were not computed.
template <class A, class T> struct Short {
  VG_FN bool values(typename A::value*, const T*, i32, i32, i32, i32, bool, u32&) { return false; }
};
template <class T> struct Short<Sum<T>, T> {
  VG_FN bool values(f64* o, const T* x, i32 first, i32 length, i32 n, i32 lanes, bool narm, u32& w) {
    return values_of_sums<Sum<T>>(o, x, first, length, n, lanes, narm, w);
  }
};
template <class T> struct Short<Mean<T>, T> {
  VG_FN bool values(f64* o, const T* x, i32 first, i32 length, i32 n, i32 lanes, bool narm, u32& w) {
    return values_of_sums<Mean<T>>(o, x, first, length, n, lanes, narm, w);
  }
};
template <> struct Short<Sum<c128>, c128> {
  VG_FN bool values(c128*, const c128*, i32, i32, i32, i32, bool, u32&) { return false; }
};
template <> struct Short<Mean<c128>, c128> {
  VG_FN bool values(c128*, const c128*, i32, i32, i32, i32, bool, u32&) { return false; }
};
template <class T> struct Short<Var<T>, T> {
  VG_FN bool values(f64* o, const T* x, i32 first, i32 length, i32 n, i32 lanes, bool narm, u32& w) {
    if (lanes == 4) return false;
    Row<Var<T>, T> two[2];
    Var<T> a;
    for (i32 g = 0; g < n; g++, x += length) {
      const i32 from = (i32)((first + (i64)g * length) % 4);
      i32 used = 4;
      while (used < lanes && used < from + length) used *= 2;
      for (int special = 0; special < 2; special++) {
        two[0].start(used, special != 0);
        walk<Var<T>>(two[0], from, x, length, lanes, true, narm);
        if (collapse(two, &a, used, 1, special != 0)) break;
      }
      o[g] = Var<T>::finish(a, w);
    }
    return true;
  }
};
template <class A, class T>
VG_FN void short_groups(typename A::value* o, const T* x, i32 first, i32 length, i32 n, i32 lanes, bool narm, u32& w) {
  if (Short<A, T>::values(o, x, first, length, n, lanes, narm, w)) return;
  for (i32 g = 0; g < n; g++) {
    const i32 from = (i32)((first + (i64)g * length) % 4);
    o[g] = A::finish(short_group<A>(x + (i64)g * length, from, length, lanes, narm), w);
  }
}
}  // namespace
