// Scans whose bits depend on the order of additions, on the cpu device: tile by tile in the order of scan.cuh, whose
// names for the parts of a tile are used here. A tile is the elements of 256 threads, 128 bytes each. A thread's
// elements are added in sequence; the threads of a warp are merged in steps of 1, 2, 4, 8 and 16, and so are the warps.
// The tiles before a tile count by the totals of its group of 32, of the groups of its 1024, and one total of all
// complete 1024s. Parts without elements change no bits and are left out.
#pragma once
#include "scan.h"
#include "tree.h"

// This header is compiled for several instruction sets. The anonymous namespace keeps the linker from merging them.
namespace {

enum { LANES = 32, WARPS = 8, GROUP = 32 };
// Elements per thread
template <class T> constexpr i32 each_of() { return 128 / (i32)sizeof(T); }

// The state that is carried from tile to tile
template <class A> struct Scan {
  A tiles[GROUP], groups[GROUP];  // totals of this group's tiles, and of this thousand's groups
  A thousands;                    // total of all before
  i64 tile;                       // number of tiles so far
  bool is_absorbed;               // whether all further values follow from `value` in plain doubles
  f64 value;
  void start() { thousands = A::start(); tile = 0; is_absorbed = false; value = 0.0; }
};

// Inclusive scan over the first `n` lanes.
template <class A> VG_FN void up_to(A* a, i32 n) {
  for (i32 by = 1; by < n; by *= 2) for (i32 lane = n - 1; lane >= by; lane--) {
    A before = a[lane - by];
    A::merge(before, a[lane]);
    a[lane] = before;
  }
}
// Merges all of them, as the last of 32 lanes does: neighbours first, then pairs, and so on.
template <class A> VG_FN A all_of(const A* totals, i32 n) {
  if (n == 0) return A::start();
  A a[GROUP];
  for (i32 k = 0; k < n; k++) a[k] = totals[k];
  for (i32 width = 1; width < n; width *= 2)
    for (i32 k = 0; k + width < n; k += 2 * width) A::merge(a[k], a[k + width]);
  return a[0];
}
// Returns the prefix of the next tile, whose total is `total`, and records that total.
template <class A> VG_FN A before_tile(Scan<A>& s, const A& total) {
  const i32 tile = (i32)(s.tile % GROUP), group = (i32)(s.tile / GROUP % GROUP);
  const A in_group = all_of(s.tiles, tile);
  A all = s.thousands;
  A::merge(all, all_of(s.groups, group));
  s.tiles[tile] = total;
  if (tile == GROUP - 1) {
    A of_group = in_group;
    A::merge(of_group, total);
    s.groups[group] = of_group;
    if (group == GROUP - 1) {
      s.thousands = all;
      A::merge(s.thousands, of_group);
    }
  }
  s.tile++;
  A::merge(all, in_group);
  return all;
}
// Replaces the warps' totals in `parts` by their prefixes.
template <class A> VG_FN void before_warps(Scan<A>& s, A* parts, i32 warps) {
  up_to(parts, warps);
  const A start = before_tile(s, parts[warps - 1]);
  for (i32 w = warps - 1; w > 0; w--) {
    A before = start;
    A::merge(before, parts[w - 1]);
    parts[w] = before;
  }
  parts[0] = start;
}

// ---- warps in SIMD form -------------------------------------------------------------------------------
// The states of a warp's threads as arrays of numbers, valid as long as all elements are usual:
//   neutral()         an element that changes no state
//   takes(x, n)       whether `n` elements are usual
//   is_usual(a)       whether a state is
//   start(), get(k)   empties all; returns one of them
//   go_on(before)     each becomes `before` merged with the threads before it
//   add(x)            adds x[k] to state k
//   values(o)         the value of each
//   up_to()           inclusive scan over the threads
// The bits are those of the state's own functions.
template <class A> struct Warp;

// Running sums of doubles. Elements and previous sums must be so small that a tile cannot overflow.
template <> struct Warp<CumSum<f64>> {
  typedef CumSum<f64> A;
  f64 hi[LANES], lo[LANES];
  static f64 neutral() { return 0.0; }
  static bool takes(const f64* x, i32 n) { return all_below(x, n, HUGE_SIZE); }
  static bool is_usual(const A& a) { return (a.seen | a.scaled) == 0u && size_of(a.s.hi) < HUGE_SIZE; }
  void start() { for (i32 k = 0; k < LANES; k++) hi[k] = lo[k] = 0.0; }
  A get(i32 k) const { A a = A::start(); a.s.hi = hi[k]; a.s.lo = lo[k]; return a; }
  void add(const f64* __restrict x) {
    for (i32 k = 0; k < LANES; k++) {
      const dd t = two_sum(hi[k], x[k]);
      hi[k] = t.hi;
      lo[k] += t.lo;
    }
  }
  void values(f64* __restrict o) const { for (i32 k = 0; k < LANES; k++) o[k] = hi[k] + lo[k]; }
  void up_to() {
    f64 h[LANES], l[LANES];
    for (i32 by = 1; by < LANES; by *= 2) {
      memcpy(h, hi, sizeof h);
      memcpy(l, lo, sizeof l);
      for (i32 k = by; k < LANES; k++) {
        const dd t = two_sum(h[k - by], h[k]);
        hi[k] = t.hi;
        lo[k] = l[k - by] + (t.lo + l[k]);
      }
    }
  }
  void go_on(const A& before) {
    f64 h[LANES], l[LANES];
    memcpy(h, hi, sizeof h);
    memcpy(l, lo, sizeof l);
    for (i32 k = 1; k < LANES; k++) {
      const dd t = two_sum(before.s.hi, h[k - 1]);
      hi[k] = t.hi;
      lo[k] = before.s.lo + (t.lo + l[k - 1]);
    }
    hi[0] = before.s.hi; lo[0] = before.s.lo;
  }
};
template <> struct Warp<CumSum<f32>> {
  typedef CumSum<f32> A;
  f64 s[LANES];
  static f32 neutral() { return 0.0f; }
  static bool takes(const f32*, i32) { return true; }
  static bool is_usual(const A&) { return true; }
  void start() { for (i32 k = 0; k < LANES; k++) s[k] = 0.0; }
  A get(i32 k) const { A a; a.s = s[k]; return a; }
  void add(const f32* __restrict x) { for (i32 k = 0; k < LANES; k++) s[k] += (f64)x[k]; }
  void values(f32* __restrict o) const { for (i32 k = 0; k < LANES; k++) o[k] = (f32)s[k]; }
  void up_to() {
    f64 before[LANES];
    for (i32 by = 1; by < LANES; by *= 2) {
      memcpy(before, s, sizeof s);
      for (i32 k = by; k < LANES; k++) s[k] = before[k - by] + before[k];
    }
  }
  void go_on(const A& before) {
    for (i32 k = LANES - 1; k > 0; k--) s[k] = before.s + s[k - 1];
    s[0] = before.s;
  }
};
template <> struct Warp<CumSum<c128>> {
  typedef CumSum<c128> A;
  Warp<CumSum<f64>> re, im;
  static c128 neutral() { c128 zero; zero.re = zero.im = 0.0; return zero; }
  static bool takes(const c128* x, i32 n) { return all_below(&x->re, 2 * n, HUGE_SIZE); }
  static bool is_usual(const A& a) {
    return Warp<CumSum<f64>>::is_usual(a.re) && Warp<CumSum<f64>>::is_usual(a.im);
  }
  void start() { re.start(); im.start(); }
  A get(i32 k) const { A a; a.re = re.get(k); a.im = im.get(k); return a; }
  void add(const c128* __restrict x) {
    f64 r[LANES], i[LANES];
    for (i32 k = 0; k < LANES; k++) { r[k] = x[k].re; i[k] = x[k].im; }
    re.add(r);
    im.add(i);
  }
  void values(c128* __restrict o) const {
    for (i32 k = 0; k < LANES; k++) { o[k].re = re.hi[k] + re.lo[k]; o[k].im = im.hi[k] + im.lo[k]; }
  }
  void up_to() { re.up_to(); im.up_to(); }
  void go_on(const A& before) { re.go_on(before.re); im.go_on(before.im); }
};
// Running products of doubles that are normal numbers (tree.h).
template <class T, class A> struct ProductWarp {
  f64 hi[LANES], lo[LANES];
  i64 e[LANES];
  static T neutral() { return (T)1; }
  static bool is_usual(const Scaled& p) { return are_normal(&p.m.hi, 1); }
  void start() { for (i32 k = 0; k < LANES; k++) { hi[k] = 1.0; lo[k] = 0.0; e[k] = 0; } }
  Scaled of(i32 k) const { Scaled p; p.m.hi = hi[k]; p.m.lo = lo[k]; p.e = e[k]; return p; }
  void put(i32 k, const Scaled& p) { hi[k] = p.m.hi; lo[k] = p.m.lo; e[k] = p.e; }
  void add(const T* __restrict x) {
    for (i32 k = 0; k < LANES; k++) {
      const u64 bits = bits_of((f64)x[k]);
      const f64 m = f64_of_bits((bits & 0x800FFFFFFFFFFFFFull) | 1023ull << 52);
      // normal_product() for a factor whose low part is 0
      const dd p = two_product(hi[k], m), r = quick_two_sum(p.hi, p.lo + lo[k] * m);
      const u64 more = (bits_of(r.hi) >> 52) & 0x7FFu;
      const f64 scale = f64_of_bits((2046 - more) << 52);
      hi[k] = r.hi * scale; lo[k] = r.lo * scale; e[k] += (i64)(((bits >> 52) & 0x7FFu) + more) - 2046;
    }
  }
  void values(T* __restrict o) const {
    i64 far = 0;
    for (i32 k = 0; k < LANES; k++) far |= (i64)((e[k] > 1000) | (e[k] < -1000));
    if (far) for (i32 k = 0; k < LANES; k++) o[k] = (T)scaled_value(of(k));
    else for (i32 k = 0; k < LANES; k++) o[k] = (T)((hi[k] + lo[k]) * f64_of_bits((u64)(1023 + e[k]) << 52));
  }
  void up_to() {
    for (i32 by = 1; by < LANES; by *= 2) {
      const ProductWarp was = *this;
      for (i32 k = by; k < LANES; k++) put(k, normal_product(was.of(k - by), was.hi[k], was.lo[k], was.e[k]));
    }
  }
  void go_on(const Scaled& before) {
    const ProductWarp was = *this;
    for (i32 k = 1; k < LANES; k++) put(k, normal_product(before, was.hi[k - 1], was.lo[k - 1], was.e[k - 1]));
    put(0, before);
  }
};
template <> struct Warp<CumProd<f64>> : ProductWarp<f64, CumProd<f64>> {
  typedef CumProd<f64> A;
  static bool takes(const f64* x, i32 n) { return are_normal(x, n); }
  static bool is_usual(const A& a) { return ProductWarp::is_usual(a.p); }
  A get(i32 k) const { A a; a.p = of(k); return a; }
  void go_on(const A& before) { ProductWarp::go_on(before.p); }
};
template <> struct Warp<CumProd<f32>> : ProductWarp<f32, CumProd<f32>> {
  typedef CumProd<f32> A;
  static bool takes(const f32* x, i32 n) {
    u32 others = 0;
    for (i32 k = 0; k < n; k++) others |= (u32)(!(fabs((f64)x[k]) <= 3.5e38) | (x[k] == 0.0f));
    return others == 0;
  }
  static bool is_usual(const A& a) { return ProductWarp::is_usual(a.p.p); }
  A get(i32 k) const { A a; a.p.p = of(k); return a; }
  void go_on(const A& before) { ProductWarp::go_on(before.p.p); }
};

typedef f32 f32x4 __attribute__((vector_size(16)));
template <class T> struct VectorOf;
template <> struct VectorOf<f64> { typedef f64x4 type; };
template <> struct VectorOf<f32> { typedef f32x4 type; };
template <class V> VG_FN void transpose(V& x, V& y, V& z, V& t) {
  const V a = {x[0], y[0], x[2], y[2]}, b = {x[1], y[1], x[3], y[3]};
  const V c = {z[0], t[0], z[2], t[2]}, d = {z[1], t[1], z[3], t[3]};
  x = V{a[0], a[1], c[0], c[1]}; y = V{b[0], b[1], d[0], d[1]};
  z = V{a[2], a[3], c[2], c[3]}; t = V{b[2], b[3], d[2], d[3]};
}
// Transposes a block of 4 x 4, whose rows are `from_next` and `to_next` elements apart.
template <class T> VG_FN void transpose_4(T* __restrict to, i32 to_next, const T* __restrict from, i32 from_next) {
  typename VectorOf<T>::type x, y, z, t;
  memcpy(&x, from, sizeof x); memcpy(&y, from + from_next, sizeof y);
  memcpy(&z, from + 2 * from_next, sizeof z); memcpy(&t, from + 3 * from_next, sizeof t);
  transpose(x, y, z, t);
  memcpy(to, &x, sizeof x); memcpy(to + to_next, &y, sizeof y);
  memcpy(to + 2 * to_next, &z, sizeof z); memcpy(to + 3 * to_next, &t, sizeof t);
}
// Puts element e of all threads side by side; turn_back() puts them back.
template <class T> VG_FN void turn(T (*__restrict to)[LANES], const T* __restrict x) {
  constexpr i32 each = each_of<T>();
  for (i32 lane = 0; lane < LANES; lane += 4)
    for (i32 e = 0; e < each; e += 4) transpose_4(&to[e][lane], LANES, x + lane * each + e, each);
}
template <class T> VG_FN void turn_back(T* __restrict o, const T (*__restrict from)[LANES]) {
  constexpr i32 each = each_of<T>();
  for (i32 lane = 0; lane < LANES; lane += 4)
    for (i32 e = 0; e < each; e += 4) transpose_4(o + lane * each + e, each, &from[e][lane], LANES);
}
// Complex numbers need no vectors: each is as wide as two doubles.
VG_FN void turn(c128 (*__restrict to)[LANES], const c128* __restrict x) {
  for (i32 lane = 0; lane < LANES; lane++) for (i32 e = 0; e < each_of<c128>(); e++) to[e][lane] = *x++;
}
VG_FN void turn_back(c128* __restrict o, const c128 (*__restrict from)[LANES]) {
  for (i32 lane = 0; lane < LANES; lane++) for (i32 e = 0; e < each_of<c128>(); e++) *o++ = from[e][lane];
}
// Loads the elements of a warp, padded if there are only `n`.
template <class T> VG_FN void load_warp(T (*y)[LANES], const T* x, i32 n, T neutral) {
  constexpr i32 most = LANES * each_of<T>();
  if (n >= most) { turn(y, x); return; }
  T padded[most];
  for (i32 k = 0; k < most; k++) padded[k] = k < n ? x[k] : neutral;
  turn(y, padded);
}

// Whether the totals of all tiles so far are usual.
template <class A> VG_FN bool is_usual(const Scan<A>& s) {
  const i32 tiles = (i32)(s.tile % GROUP), groups = (i32)(s.tile / GROUP % GROUP);
  bool usual = Warp<A>::is_usual(s.thousands);
  for (i32 k = 0; k < tiles; k++) usual &= Warp<A>::is_usual(s.tiles[k]);
  for (i32 k = 0; k < groups; k++) usual &= Warp<A>::is_usual(s.groups[k]);
  return usual;
}
// Scans a tile by warps. False, with nothing done, if its elements or the previous totals are not usual.
template <class A, class T> VG_FN bool in_warps(Scan<A>& s, T* o, const T* x, i32 n) {
  typedef Warp<A> W;
  constexpr i32 each = each_of<T>(), most = LANES * each;
  if (!is_usual(s) || !W::takes(x, n)) return false;
  const i32 warps = (n + most - 1) / most;
  T y[each][LANES];
  W own[WARPS];
  A parts[WARPS];
  for (i32 w = 0; w < warps; w++) {
    load_warp(y, x + w * most, n - w * most, W::neutral());
    own[w].start();
    for (i32 e = 0; e < each; e++) own[w].add(y[e]);
    own[w].up_to();
    parts[w] = own[w].get(LANES - 1);
  }
  before_warps(s, parts, warps);
  for (i32 w = 0; w < warps; w++) {
    const i32 rest = n - w * most;
    load_warp(y, x + w * most, rest, W::neutral());
    own[w].go_on(parts[w]);
    for (i32 e = 0; e < each; e++) { own[w].add(y[e]); own[w].values(y[e]); }
    if (rest >= most) { turn_back(o + w * most, y); continue; }
    T padded[most];
    turn_back(padded, y);
    memcpy(o + w * most, padded, sizeof(T) * (size_t)rest);
  }
  return true;
}
// Complex products have no SIMD form.
VG_FN bool in_warps(Scan<CumProd<c128>>&, c128*, const c128*, i32) { return false; }

// ---- absorbing values ---------------------------------------------------------------------------------
// Zeros, infinities and missing values combine with all later factors or terms as plain doubles do.
VG_FN bool absorbs(const CumSum<f64>& a) { return a.seen != 0u; }
VG_FN bool absorbs(const CumProd<f64>& a) { return a.p.m.hi == 0.0 || a.p.m.hi - a.p.m.hi != 0.0; }
VG_FN bool absorbs(const CumProd<f32>& a) { return absorbs(a.p); }
template <class A> VG_FN bool absorbs(const A&) { return false; }
template <class T> VG_FN f64 next_value(const Scan<CumSum<T>>&, f64 value, T x) { return value + (f64)x; }
template <class T> VG_FN f64 next_value(const Scan<CumProd<T>>&, f64 value, T x) { return value * (f64)x; }
VG_FN f64 as_double(f64 x) { return x; }
VG_FN f64 as_double(f32 x) { return (f64)x; }
VG_FN f64 as_double(c128) { return 0.0; }
template <class A, class T> VG_FN void go_on(Scan<A>& s, T* o, const T* x, i32 n) {
  f64 value = s.value;
  for (i32 k = 0; k < n; k++) {
    value = keep_first(next_value(s, value, x[k]), value);
    o[k] = (T)value;
  }
  s.value = value;
}
template <class A> VG_FN void go_on(Scan<A>&, c128*, const c128*, i32) {}

// ---- tiles --------------------------------------------------------------------------------------------
// The running values of the next `n` elements: a tile, or the rest at the end. Returns status bits.
template <class A, class T> VG_FN u32 scan_tile(Scan<A>& s, T* o, const T* x, i32 n) {
  if (s.is_absorbed) { go_on(s, o, x, n); return 0; }
  if (in_warps(s, o, x, n)) return 0;
  constexpr i32 each = each_of<T>();
  const i32 threads = (n + each - 1) / each, warps = (threads + LANES - 1) / LANES;
  A own[WARPS * LANES], parts[WARPS];
  for (i32 t = 0; t < threads; t++) {
    own[t] = A::start();
    for (i32 k = t * each; k < (t + 1) * each && k < n; k++) A::add(own[t], x[k]);
  }
  for (i32 w = 0; w < warps; w++) {
    const i32 lanes = threads - w * LANES < LANES ? threads - w * LANES : LANES;
    up_to(own + w * LANES, lanes);
    parts[w] = own[w * LANES + lanes - 1];
  }
  before_warps(s, parts, warps);
  u32 w = 0;
  for (i32 t = 0; t < threads; t++) {
    A a = parts[t / LANES];
    if (t % LANES > 0) A::merge(a, own[t - 1]);
    for (i32 k = t * each; k < (t + 1) * each && k < n; k++) { A::add(a, x[k]); o[k] = A::value(a, w); }
    if (t == threads - 1 && absorbs(a)) { s.is_absorbed = true; s.value = as_double(o[n - 1]); }
  }
  return w;
}

}  // namespace
