// Reductions in the order of additions of tree.rs, on the cpu device. The accumulators of a tile are stored as arrays,
// one for each of their numbers, so that adjacent elements are added by SIMD instructions.
//
// Row<A, T> holds up to MOST accumulators A of elements T:
//   start(n, special)  empties the first n
//   add(at, x, n)      adds x[k] to accumulator at + k
//   add_four(x, step, n)       adds x[k], x[k + step], x[k + 2 step] and x[k + 3 step] to accumulator k (reduce.h:
// add_all)
//   is_right()         whether all elements were usual: finite and not huge. If not, the tile must be reduced again
//                      by a row that was started as special, which takes any elements
//   get(k)             an accumulator
//   halve(out, half, width)    merges pairs of rows of `width` into another Row
// The bits are those of A::add and A::merge, one element after the other.
#pragma once
#include "reduce.h"

enum { MOST = 1024 };

// This header is compiled for several instruction sets. The anonymous namespace keeps the linker from merging them.
namespace {

typedef f64 f64x4 __attribute__((vector_size(32)));
typedef i64 i64x4 __attribute__((vector_size(32)));
VG_FN f64x4 load_4(const f64* x) { f64x4 v; memcpy(&v, x, 32); return v; }
VG_FN void store_4(f64* x, f64x4 v) { memcpy(x, &v, 32); }
// add_up() in four lanes
VG_FN void add_4(f64x4& hi, f64x4& lo, f64x4 x) {
  const f64x4 s = hi + x, t = s - hi;
  lo += (hi - (s - t)) + (x - t);
  hi = s;
}
// Negative in a lane whose size (size_of) is at least `limit`.
VG_FN i64x4 beyond_4(f64x4 x, u32 limit) {
  i64x4 bits;
  memcpy(&bits, &x, 32);
  return (i64)limit * 0x100000000ll - 1 - (bits & 0x7FFFFFFFFFFFFFFFll);
}
VG_FN i64 beyond(f64 x, u32 limit) {
  return (i64)limit * 0x100000000ll - 1 - (i64)(bits_of(x) & 0x7FFFFFFFFFFFFFFFull);
}
VG_FN i64x4 load_beyonds(const i64* x) { i64x4 v; memcpy(&v, x, 32); return v; }
VG_FN void store_beyonds(i64* x, i64x4 v) { memcpy(x, &v, 32); }
VG_FN bool any_beyond(i64x4 a) { return ((a[0] | a[1]) | (a[2] | a[3])) < 0; }
VG_FN bool all_below(const f64* __restrict x, i32 n, u32 limit) {
  i64 any = 0;
  for (i32 k = 0; k < n; k++) any |= beyond(x[k], limit);
  return any >= 0;
}
// Of four pairs of adjacent numbers, the left ones and the right ones.
VG_FN void pairs_4(const f64* x, f64x4& left, f64x4& right) {
  const f64x4 a = load_4(x), b = load_4(x + 4);
  left = f64x4{a[0], a[2], b[0], b[2]};
  right = f64x4{a[1], a[3], b[1], b[3]};
}

template <class A, class T> struct Row {
  A a[MOST];
  void start(i32 n, bool) { for (i32 k = 0; k < n; k++) a[k] = A::start(); }
  void add(i32 at, const T* __restrict x, i32 n, bool narm) {
    for (i32 k = 0; k < n; k++) A::add(a[at + k], x[k], narm);
  }
  void add_four(const T* __restrict x, i32 step, i32 n, bool narm) {
    for (i32 r = 0; r < 4; r++) add(0, x + (i64)r * step, n, narm);
  }
  bool is_right() const { return true; }
  A get(i32 k) const { return a[k]; }
  void halve(Row& __restrict out, i32 half, i32 width) const {
    for (i32 j = 0; j < half; j++) for (i32 k = 0; k < width; k++) {
      A low = a[2 * j * width + k];
      A::merge(low, a[(2 * j + 1) * width + k]);
      out.a[j * width + k] = low;
    }
  }
};

// Calls each(left, right, result) for all positions of pairs of rows of `width` numbers.
template <class F> VG_FN void in_pairs(i32 half, i32 width, F each) {
  if (width == 1) for (i32 k = 0; k < half; k++) each(2 * k, 2 * k + 1, k);
  else for (i32 j = 0; j < half; j++) for (i32 k = 0; k < width; k++) {
    const i32 left = 2 * j * width + k;
    each(left, left + width, j * width + k);
  }
}

// The operations of a row by A::add and A::merge themselves, for elements that are not usual.
template <class R, class T> VG_FN void add_each(R& row, i32 at, const T* x, i32 n, bool narm) {
  for (i32 k = 0; k < n; k++) {
    typename R::A a = row.get(at + k);
    R::A::add(a, x[k], narm);
    row.put(at + k, a);
  }
}
template <class R> VG_FN void halve_each(const R& row, R& out, i32 half, i32 width) {
  in_pairs(half, width, [&](i32 a, i32 b, i32 to) {
    typename R::A low = row.get(a);
    R::A::merge(low, row.get(b));
    out.put(to, low);
  });
}

// ---- sums ---------------------------------------------------------------------------------------
template <> struct Row<Sum<f64>, f64> {
  typedef Sum<f64> A;
  f64 hi[MOST], lo[MOST];
  u32 usual[MOST];  // used if special
  i64 beyonds[4];  // negative if an element was not usual
  bool special;
  void start(i32 n, bool is_special) {
    memset(hi, 0, 8 * (size_t)n);
    memset(lo, 0, 8 * (size_t)n);
    memset(beyonds, 0, sizeof beyonds);
    special = is_special;
    if (special) for (i32 k = 0; k < n; k++) usual[k] = HUGE_SIZE;
  }
  A get(i32 k) const {
    A a;
    a.s.hi = hi[k]; a.s.lo = lo[k]; a.usual = special ? usual[k] : HUGE_SIZE;
    return a;
  }
  void put(i32 k, const A& a) { hi[k] = a.s.hi; lo[k] = a.s.lo; usual[k] = a.usual; }
  bool is_right() const { return !any_beyond(load_beyonds(beyonds)); }
  void add_usual(i32 at, const f64* __restrict x, i32 n) {
    f64 *__restrict h = hi + at, *__restrict l = lo + at;
    i64x4 any = load_beyonds(beyonds);
    i32 k = 0;
    for (; k + 4 <= n; k += 4) {
      f64x4 a = load_4(h + k), b = load_4(l + k);
      const f64x4 v = load_4(x + k);
      any |= beyond_4(v, HUGE_SIZE);
      add_4(a, b, v);
      store_4(h + k, a); store_4(l + k, b);
    }
    for (; k < n; k++) {
      any[0] |= beyond(x[k], HUGE_SIZE);
      const dd t = two_sum(h[k], x[k]);
      h[k] = t.hi;
      l[k] += t.lo;
    }
    store_beyonds(beyonds, any);
  }
  void add(i32 at, const f64* __restrict x, i32 n, bool narm) {
    if (!special) { add_usual(at, x, n); return; }
    // 0 in place of missing elements leaves the sums as they are
    f64 known[MOST];
    u32 missing = 0, huge = 0;
    for (i32 k = 0; k < n; k++) {
      known[k] = x[k] == x[k] ? x[k] : 0.0;
      missing |= (u32)(x[k] != x[k]);
      huge |= (u32)((size_of(known[k]) >= HUGE_SIZE) | (usual[at + k] < HUGE_SIZE));
    }
    if (!huge && (narm || !missing)) { add_usual(at, known, n); return; }
    add_each(*this, at, x, n, narm);
  }
  void add_four(const f64* __restrict x, i32 step, i32 n, bool narm) {
    if (special || n % 4 != 0) {
      for (i32 r = 0; r < 4; r++) add(0, x + (i64)r * step, n, narm);
      return;
    }
    const f64 *__restrict y = x + step, *__restrict z = y + step, *__restrict v = z + step;
    f64 *__restrict h = hi, *__restrict l = lo;
    i64x4 any = load_beyonds(beyonds);
    for (i32 k = 0; k < n; k += 4) {
      const f64x4 e[4] = {load_4(x + k), load_4(y + k), load_4(z + k), load_4(v + k)};
      f64x4 a = load_4(h + k), b = load_4(l + k);
      for (int r = 0; r < 4; r++) { any |= beyond_4(e[r], HUGE_SIZE); add_4(a, b, e[r]); }
      store_4(h + k, a); store_4(l + k, b);
    }
    store_beyonds(beyonds, any);
  }
  void halve(Row& __restrict out, i32 half, i32 width) const {
    out.special = special;
    if (special) {
      halve_each(*this, out, half, width);
      return;
    }
    const f64 *__restrict h = hi, *__restrict l = lo;
    f64 *__restrict to_h = out.hi, *__restrict to_l = out.lo;
    if (width == 1 && half % 4 == 0) {
      for (i32 k = 0; k < half; k += 4) {
        f64x4 a, b, c, d;
        pairs_4(h + 2 * k, a, b);
        pairs_4(l + 2 * k, c, d);
        const f64x4 s = a + b, t = s - a;
        store_4(to_h + k, s);
        store_4(to_l + k, c + (((a - (s - t)) + (b - t)) + d));
      }
    } else in_pairs(half, width, [&](i32 a, i32 b, i32 to) {
      const dd t = two_sum(h[a], h[b]);
      to_h[to] = t.hi;
      to_l[to] = l[a] + (t.lo + l[b]);
    });
  }
};
template <> struct Row<Sum<f32>, f32> {
  typedef Sum<f32> A;
  f64 s[MOST];
  void start(i32 n, bool) { memset(s, 0, 8 * (size_t)n); }
  A get(i32 k) const { A a; a.s = s[k]; return a; }
  bool is_right() const { return true; }
  void add(i32 at, const f32* __restrict x, i32 n, bool narm) {
    f64* __restrict sums = s + at;
    if (narm) for (i32 k = 0; k < n; k++) sums[k] += x[k] == x[k] ? (f64)x[k] : 0.0;
    else for (i32 k = 0; k < n; k++) sums[k] += (f64)x[k];
  }
  void add_four(const f32* __restrict x, i32 step, i32 n, bool narm) {
    if (narm) {
      for (i32 r = 0; r < 4; r++) add(0, x + (i64)r * step, n, narm);
      return;
    }
    const f32 *__restrict y = x + step, *__restrict z = y + step, *__restrict v = z + step;
    f64* __restrict sums = s;
    for (i32 k = 0; k < n; k++) sums[k] = (((sums[k] + (f64)x[k]) + (f64)y[k]) + (f64)z[k]) + (f64)v[k];
  }
  void halve(Row& __restrict out, i32 half, i32 width) const {
    const f64* __restrict from = s;
    f64* __restrict to_s = out.s;
    if (width == 1 && half % 4 == 0) for (i32 k = 0; k < half; k += 4) {
      f64x4 a, b;
      pairs_4(from + 2 * k, a, b);
      store_4(to_s + k, a + b);
    }
    else in_pairs(half, width, [&](i32 a, i32 b, i32 to) { to_s[to] = from[a] + from[b]; });
  }
};

// Each part has a row of its own. If one part is to be skipped as missing, so is the other (Sum<c128>).
template <> struct Row<Sum<c128>, c128> {
  typedef Sum<c128> A;
  Row<Sum<f64>, f64> re, im;
  void start(i32 n, bool special) { re.start(n, special); im.start(n, special); }
  A get(i32 k) const { A a; a.re = re.get(k); a.im = im.get(k); return a; }
  bool is_right() const { return re.is_right() && im.is_right(); }
  void add(i32 at, const c128* __restrict x, i32 n, bool narm) {
    f64 a[MOST], b[MOST];
    for (i32 k = 0; k < n; k++) {
      const bool skip = narm && (x[k].re != x[k].re || x[k].im != x[k].im);
      a[k] = skip ? nan_f64() : x[k].re;
      b[k] = skip ? nan_f64() : x[k].im;
    }
    re.add(at, a, n, narm);
    im.add(at, b, n, narm);
  }
  void add_four(const c128* x, i32 step, i32 n, bool narm) {
    for (i32 r = 0; r < 4; r++) add(0, x + (i64)r * step, n, narm);
  }
  void halve(Row& __restrict out, i32 half, i32 width) const {
    re.halve(out.re, half, width);
    im.halve(out.im, half, width);
  }
};

// ---- means ----------------------------------------------------------------------------------------
VG_FN bool is_known(f32 x) { return x == x; }
VG_FN bool is_known(f64 x) { return x == x; }
VG_FN bool is_known(c128 x) { return x.re == x.re && x.im == x.im; }
template <class T> struct Row<Mean<T>, T> {
  typedef Mean<T> A;
  Row<Sum<T>, T> sums;
  i32 counts[MOST];
  void start(i32 n, bool special) { sums.start(n, special); memset(counts, 0, 4 * (size_t)n); }
  A get(i32 k) const { A a; a.s = sums.get(k); a.n = counts[k]; return a; }
  bool is_right() const { return sums.is_right(); }
  void count(i32 at, const T* __restrict x, i32 n, bool narm) {
    i32* __restrict c = counts + at;
    if (narm) for (i32 k = 0; k < n; k++) c[k] += is_known(x[k]);
    else for (i32 k = 0; k < n; k++) c[k] += 1;
  }
  void add(i32 at, const T* __restrict x, i32 n, bool narm) {
    sums.add(at, x, n, narm);
    count(at, x, n, narm);
  }
  void add_four(const T* x, i32 step, i32 n, bool narm) {
    sums.add_four(x, step, n, narm);
    if (narm) for (i32 r = 0; r < 4; r++) count(0, x + (i64)r * step, n, narm);
    else for (i32 k = 0; k < n; k++) counts[k] += 4;
  }
  void halve(Row& __restrict out, i32 half, i32 width) const {
    sums.halve(out.sums, half, width);
    const i32* __restrict c = counts;
    i32* __restrict to_c = out.counts;
    in_pairs(half, width, [&](i32 a, i32 b, i32 to) { to_c[to] = c[a] + c[b]; });
  }
};

// ---- products --------------------------------------------------------------------------------------
// For normal numbers: scaled_multiply() without a branch.
VG_FN bool are_normal(const f64* __restrict x, i32 n) {
  u32 others = 0;
  for (i32 k = 0; k < n; k++) others |= (u32)(((u32)(bits_of(x[k]) >> 52) & 0x7FFu) - 1u >= 2046u);
  return others == 0;
}
VG_FN Scaled normal_product(Scaled a, f64 hi, f64 lo, i64 e) {
  const dd p = two_product(a.m.hi, hi);
  const f64 rest = p.lo + (a.m.hi * lo + a.m.lo * hi);
  const dd m = quick_two_sum(p.hi, rest);
  const i64 more = (i64)((bits_of(m.hi) >> 52) & 0x7FFu);
  const f64 scale = f64_of_bits((u64)(2046 - more) << 52);
  Scaled r;
  r.m.hi = m.hi * scale; r.m.lo = m.lo * scale; r.e = a.e + e + more - 1023;
  return r;
}
template <> struct Row<Product<f64>, f64> {
  typedef Product<f64> A;
  f64 hi[MOST], lo[MOST];
  i64 e[MOST];
  u32 na[MOST];
  bool plain;  // whether all elements so far are normal numbers
  void start(i32 n, bool) {
    for (i32 k = 0; k < n; k++) { hi[k] = 1.0; lo[k] = 0.0; e[k] = 0; na[k] = 0; }
    plain = true;
  }
  bool is_right() const { return true; }
  A get(i32 k) const { A a; a.p.m.hi = hi[k]; a.p.m.lo = lo[k]; a.p.e = e[k]; a.na = na[k]; return a; }
  void put(i32 k, const A& a) { hi[k] = a.p.m.hi; lo[k] = a.p.m.lo; e[k] = a.p.e; na[k] = a.na; }
  void add(i32 at, const f64* __restrict x, i32 n, bool narm) {
    if (plain && are_normal(x, n)) {
      f64 *__restrict h = hi + at, *__restrict l = lo + at;
      i64* __restrict own = e + at;
      for (i32 k = 0; k < n; k++) {
        const u64 bits = bits_of(x[k]);
        Scaled a;
        a.m.hi = h[k]; a.m.lo = l[k]; a.e = own[k];
        a = normal_product(a, f64_of_bits((bits & 0x800FFFFFFFFFFFFFull) | 1023ull << 52), 0.0,
                           (i64)((bits >> 52) & 0x7FFu) - 1023);
        h[k] = a.m.hi; l[k] = a.m.lo; own[k] = a.e;
      }
      return;
    }
    plain = false;
    add_each(*this, at, x, n, narm);
  }
  void add_four(const f64* x, i32 step, i32 n, bool narm) {
    for (i32 r = 0; r < 4; r++) add(0, x + (i64)r * step, n, narm);
  }
  void halve(Row& __restrict out, i32 half, i32 width) const {
    out.plain = plain;
    in_pairs(half, width, [&](i32 a, i32 b, i32 to) {
      A low = get(a);
      if (plain) low.p = normal_product(low.p, hi[b], lo[b], e[b]);
      else A::merge(low, get(b));
      out.put(to, low);
    });
  }
};

// ---- moments ----------------------------------------------------------------------------------------
template <> struct Row<Var<f64>, f64> {
  typedef Var<f64> A;
  f64 pivot[MOST], s_hi[MOST], s_lo[MOST], q_hi[MOST], q_lo[MOST], count[MOST];
  u32 usual[MOST], missing[MOST];  // used if special
  i64 beyonds[4];  // negative if an element was not usual
  bool special;
  i32 begun;  // how many accumulators, from the first on, have a pivot
  void start(i32 n, bool is_special) {
    for (i32 k = 0; k < n; k++) pivot[k] = s_hi[k] = s_lo[k] = q_hi[k] = q_lo[k] = count[k] = 0;
    special = is_special;
    begun = 0;
    memset(beyonds, 0, sizeof beyonds);
    if (special) for (i32 k = 0; k < n; k++) usual[k] = missing[k] = 0;
  }
  A get(i32 k) const {
    A a;
    a.pivot = pivot[k]; a.s.hi = s_hi[k]; a.s.lo = s_lo[k]; a.q.hi = q_hi[k]; a.q.lo = q_lo[k]; a.n = (i64)count[k];
    a.usual = special ? usual[k] : a.n > 0 ? A::limit() : 0;
    a.missing = special ? missing[k] : 0;
    return a;
  }
  void put(i32 k, const A& a) {
    pivot[k] = a.pivot; s_hi[k] = a.s.hi; s_lo[k] = a.s.lo; q_hi[k] = a.q.hi; q_lo[k] = a.q.lo;
    count[k] = (f64)a.n; usual[k] = a.usual; missing[k] = a.missing;
  }
  bool is_right() const { return !any_beyond(load_beyonds(beyonds)); }
  void add(i32 at, const f64* __restrict x, i32 n, bool narm) {
    if (special) {
      add_each(*this, at, x, n, narm);
      return;
    }
    f64 *__restrict p = pivot + at, *__restrict c = count + at;
    f64 *__restrict sh = s_hi + at, *__restrict sl = s_lo + at, *__restrict qh = q_hi + at, *__restrict ql = q_lo + at;
    i64 any = 0;
    for (i32 k = 0; k < n; k++) any |= beyond(x[k], A::limit());
    beyonds[0] |= any;
    for (i32 k = 0; k < n; k++) {
      const f64 own = c[k] == 0 ? x[k] : p[k], d = x[k] - own;
      p[k] = own;
      const dd square = two_product(d, d), t = two_sum(sh[k], d), u = two_sum(qh[k], square.hi);
      sh[k] = t.hi; sl[k] += t.lo;
      qh[k] = u.hi; ql[k] += u.lo + square.lo;
      c[k] += 1;
    }
    if (at <= begun && at + n > begun) begun = at + n;
  }
  void add_four(const f64* __restrict x, i32 step, i32 n, bool narm) {
    if (special) {
      for (i32 k = 0; k < n; k++) {
        const f64 four[4] = {x[k], x[k + step], x[k + 2 * step], x[k + 3 * step]};
        A a = get(k);
        if (!A::add_all(a, four)) for (i32 r = 0; r < 4; r++) A::add(a, four[r], narm);
        put(k, a);
      }
      return;
    }
    if (begun < n || n % 4 != 0) {
      // the first element becomes the pivot
      for (i32 r = 0; r < 4; r++) add(0, x + (i64)r * step, n, narm);
      return;
    }
    const f64 *__restrict y = x + step, *__restrict z = y + step, *__restrict v = z + step;
    i64x4 any = load_beyonds(beyonds);
    for (i32 k = 0; k < n; k += 4) {
      const f64x4 p = load_4(pivot + k);
      f64x4 d[4] = {load_4(x + k), load_4(y + k), load_4(z + k), load_4(v + k)};
      f64x4 sh = load_4(s_hi + k), sl = load_4(s_lo + k), qh = load_4(q_hi + k), ql = load_4(q_lo + k);
      for (int r = 0; r < 4; r++) { any |= beyond_4(d[r], A::limit()); d[r] -= p; add_4(sh, sl, d[r]); }
      add_4(qh, ql, (d[0] * d[0] + d[2] * d[2]) + (d[1] * d[1] + d[3] * d[3]));
      store_4(s_hi + k, sh); store_4(s_lo + k, sl); store_4(q_hi + k, qh); store_4(q_lo + k, ql);
      store_4(count + k, load_4(count + k) + 4.0);
    }
    store_beyonds(beyonds, any);
  }
  // merge_usual() for finite products; an empty accumulator changes nothing
  VG_FN dd multiplied(dd a, dd b) {
    dd p = two_product(a.hi, b.hi);
    p.lo += a.hi * b.lo + a.lo * b.hi;
    return quick_two_sum(p.hi, p.lo);
  }
  void halve(Row& __restrict out, i32 half, i32 width) const {
    out.special = special;
    if (special) {
      halve_each(*this, out, half, width);
      return;
    }
    const f64* from[6] = {pivot, s_hi, s_lo, q_hi, q_lo, count};
    f64* to[6] = {out.pivot, out.s_hi, out.s_lo, out.q_hi, out.q_lo, out.count};
    if (width > 1) {
      for (i32 j = 0; j < half; j++) {
        const f64 *left[6], *right[6];
        f64* o[6];
        for (int f = 0; f < 6; f++) {
          left[f] = from[f] + 2 * j * width;
          right[f] = left[f] + width;
          o[f] = to[f] + j * width;
        }
        merge_run(left[0], left[1], left[2], left[3], left[4], left[5], right[0], right[1], right[2], right[3], right[4],
                  right[5], o[0], o[1], o[2], o[3], o[4], o[5], width);
      }
      return;
    }
    // separate adjacent accumulators into left and right ones
    enum { RUN = 64 };
    f64 even[6][RUN], odd[6][RUN];
    for (i32 k = 0; k < half; k += RUN) {
      const i32 n = half - k < RUN ? half - k : RUN;
      const f64 *left[6], *right[6];
      f64* o[6];
      for (int f = 0; f < 6; f++) {
        const f64* x = from[f] + 2 * k;
        i32 i = 0;
        for (; i + 4 <= n; i += 4) {
          f64x4 a, b;
          pairs_4(x + 2 * i, a, b);
          store_4(even[f] + i, a); store_4(odd[f] + i, b);
        }
        for (; i < n; i++) { even[f][i] = x[2 * i]; odd[f][i] = x[2 * i + 1]; }
        left[f] = even[f]; right[f] = odd[f]; o[f] = to[f] + k;
      }
      merge_run(left[0], left[1], left[2], left[3], left[4], left[5], right[0], right[1], right[2], right[3], right[4],
                right[5], o[0], o[1], o[2], o[3], o[4], o[5], n);
    }
  }
  // A function of its own, since compilers honour `restrict` for parameters only.
  static __attribute__((noinline)) void merge_run(
      const f64* __restrict lp, const f64* __restrict lsh, const f64* __restrict lsl, const f64* __restrict lqh,
      const f64* __restrict lql, const f64* __restrict lc, const f64* __restrict rp, const f64* __restrict rsh,
      const f64* __restrict rsl, const f64* __restrict rqh, const f64* __restrict rql, const f64* __restrict rc,
      f64* __restrict op, f64* __restrict osh, f64* __restrict osl, f64* __restrict oqh, f64* __restrict oql,
      f64* __restrict oc, i32 n) {
    for (i32 k = 0; k < n; k++) {
      const dd g = two_sum(rp[k], -lp[k]), c = {rc[k], 0}, shift = multiplied(c, g);
      const dd rs = {rsh[k], rsl[k]}, rq = {rqh[k], rql[k]};
      dd both = {2 * rs.hi, 2 * rs.lo}, s = {lsh[k], lsl[k]}, q = {lqh[k], lql[k]};
      add_up(both, shift);
      add_up(q, rq); add_up(q, multiplied(g, both));
      add_up(s, rs); add_up(s, shift);
      const bool no_right = rc[k] == 0, no_left = lc[k] == 0;
      op[k] = no_left ? rp[k] : lp[k];
      osh[k] = no_right ? lsh[k] : no_left ? rs.hi : s.hi;
      osl[k] = no_right ? lsl[k] : no_left ? rs.lo : s.lo;
      oqh[k] = no_right ? lqh[k] : no_left ? rq.hi : q.hi;
      oql[k] = no_right ? lql[k] : no_left ? rq.lo : q.lo;
      oc[k] = lc[k] + rc[k];
    }
  }
};
template <> struct Row<Var<f32>, f32> {
  typedef Var<f32> A;
  f64 pivot[MOST], s[MOST], q[MOST], count[MOST];
  bool special;
  void start(i32 n, bool is_special) {
    for (i32 k = 0; k < n; k++) pivot[k] = s[k] = q[k] = count[k] = 0;
    special = is_special;
    total = 0;
  }
  A get(i32 k) const { A a; a.pivot = pivot[k]; a.s = s[k]; a.q = q[k]; a.n = (i64)count[k]; return a; }
  void put(i32 k, const A& a) { pivot[k] = a.pivot; s[k] = a.s; q[k] = a.q; count[k] = (f64)a.n; }
  f64 total;  // NaN once an element is not finite
  bool is_right() const { return special || total == 0; }
  void add(i32 at, const f32* __restrict x, i32 n, bool narm) {
    if (special) {
      add_each(*this, at, x, n, narm);
      return;
    }
    f64 *__restrict p = pivot + at, *__restrict sums = s + at, *__restrict squares = q + at, *__restrict c = count + at;
    u32 any = 0;
    for (i32 k = 0; k < n; k++) any |= (u32)((bits_of(x[k]) & 0x7F800000u) == 0x7F800000u);
    if (any) total = nan_f64();
    for (i32 k = 0; k < n; k++) {
      const f64 v = (f64)x[k], own = c[k] == 0 ? v : p[k], d = v - own;
      p[k] = own;
      sums[k] += d;
      squares[k] += d * d;
      c[k] += 1;
    }
  }
  void add_four(const f32* x, i32 step, i32 n, bool narm) {
    for (i32 r = 0; r < 4; r++) add(0, x + (i64)r * step, n, narm);
  }
  void halve(Row& __restrict out, i32 half, i32 width) const {
    out.special = special;
    if (special) {
      halve_each(*this, out, half, width);
      return;
    }
    const f64 *__restrict p = pivot, *__restrict sums = s, *__restrict squares = q, *__restrict c = count;
    f64 *__restrict o_p = out.pivot, *__restrict o_s = out.s, *__restrict o_q = out.q, *__restrict o_c = out.count;
    in_pairs(half, width, [&](i32 a, i32 b, i32 to) {
      const f64 g = p[b] - p[a], n = c[b];
      const bool left = n == 0, right = c[a] == 0 && !left;
      const f64 both = squares[a] + squares[b];
      const f64 sum = sums[a] + (sums[b] + n * g), square = both + (2 * g * sums[b] + n * g * g);
      o_p[to] = right ? p[b] : p[a];
      o_s[to] = left ? sums[a] : right ? sums[b] : sum;
      o_q[to] = left ? squares[a] : right ? squares[b] : square;
      o_c[to] = c[a] + c[b];
    });
  }
};

// ---- tiles ------------------------------------------------------------------------------------------
// Adds elements of a tile, from position `place` on, in rows of `lanes`.
template <class A, class R, class T>
VG_FN void walk(R& row, i64 place, const T* x, i32 n, i32 lanes, bool fours, bool narm) {
  while (n > 0) {
    const i32 at = (i32)(place % lanes);
    i32 count;
    if ((fours || !ADDS_ALL<A>) && at == 0 && place % (4 * (i64)lanes) == 0 && n >= 4 * lanes) {
      row.add_four(x, lanes, lanes, narm);
      count = 4 * lanes;
    } else {
      count = lanes - at < n ? lanes - at : n;
      row.add(at, x, count, narm);
    }
    x += count; place += count; n -= count;
  }
}
// Merges `lanes` rows of `width`, where `lanes` is a power of two, and stores the result. False if the tile must be
// reduced again by a special row.
template <class A, class R> VG_FN bool collapse(R* two, A* out, i32 lanes, i32 width, bool special) {
  if (!special && !two[0].is_right()) return false;
  i32 from = 0;
  for (; lanes > 1; lanes /= 2, from = 1 - from) two[from].halve(two[1 - from], lanes / 2, width);
  for (i32 k = 0; k < width; k++) out[k] = two[from].get(k);
  return true;
}

}  // namespace
