// Wilcoxon's signed rank and rank sum statistics, with R's limits.
//
// A count of ranks is a coefficient of its generating function, the product of 1 + z^i or of (1 - z^(n + i)) / (1 -
// z^i): a contour integral around 0, by the trapezoidal rule (Abate and Whitt, Oper. Res. Letters 12, 1992; Trefethen
// and Weideman, SIAM Review 56, 2014), on the circle through the saddle point (Daniels, Ann. Math. Stat. 25, 1954), so
// that the smallest probabilities have as many digits as the others. The cpu device caches the table of counts for the
// most recent sizes if it is small.
#pragma once

// Products are divided by their moduli after this many factors.
#define RANK_BLOCK 16
struct RankTerm { f64 re, im; };
// Rotates (x, y) by the angle with sine `sine` and cosine 1 - `rest`. In this form rounding errors have no preferred
// direction.
VG_FN void turn_by(f64& x, f64& y, f64 sine, f64 rest) {
  f64 u = x - (rest * x + sine * y);
  y = y - (rest * y - sine * x);
  x = u;
}
// exp(-s i) from its predecessor, recomputed every sixteenth time, since errors would accumulate over all later factors
VG_FN f64 rank_power(f64 q, f64 r, f64 s, f64 i) { return ((i32)i & 15) == 0 ? exp(-s * i) : q * r; }
// The logarithm of the probability generating function at exp(-s), minus its first derivative by s, and its second
struct RankSums { f64 log, mean, variance; };

// Signed ranks: each of i = 1 ... n counts or not.
struct SignedRanks {
  f64 n;
  VG_MEMBER f64 total() const { return 0.5 * n * (n + 1); }
  VG_MEMBER f64 variance() const { return n * (n + 1) * (2 * n + 1) / 24; }
  VG_MEMBER RankSums sums(f64 s) const {
    RankSums out = {0, 0, 0};
    f64 r = exp(-s), q = 1, product = 1;
    for (f64 i = 1; i <= n; i += 1) {
      q = rank_power(q, r, s, i);
      f64 share = i * q / (1 + q);
      product *= 0.5 + 0.5 * q;
      out.mean += share;
      out.variance += share * i / (1 + q);
      if (product < 1e-200) { out.log += log(product); product = 1; }
      if (q < 1e-18) { out.log -= (n - i) * 0.693147180559945309417; break; }
    }
    out.log += log(product);
    return out;
  }
  // The generating function at exp(-s + i angle) divided by that at exp(-s), times exp(-i angle total / 2) if `central`
  VG_MEMBER RankTerm term(f64 s, f64 angle, bool central) const {
    f64 r = exp(-s), q = 1, a = central ? 0.5 * angle : angle, half = sin(0.5 * a), rest = 2 * half * half, d = sin(a);
    RankTerm out = {1, 0};
    for (f64 i = 0; i < n && (central || q > 1e-18);) {
      f64 re = 1, im = 0, down = 1, x = cos(i * a), y = sin(i * a), u, v;
      q = exp(-s * i);
      for (int k = 0; k < RANK_BLOCK && i < n; k++, i += 1) {
        turn_by(x, y, d, rest);
        q *= r;
        down *= 1 + q;
        // For q exp(2 i a) =: p the factor is (1 + p) exp(-i a); if not `central`, 1 + q exp(i a).
        if (central) { u = (1 + q) * x; v = (q - 1) * y; } else { u = 1 + q * x; v = q * y; }
        f64 t = re * u - im * v;
        im = re * v + im * u;
        re = t;
      }
      f64 t = (out.re * re - out.im * im) / down;
      out.im = (out.re * im + out.im * re) / down;
      out.re = t;
    }
    return out;
  }
};
// Sums of m of the ranks 1 ... m + n, minus the smallest sum; m <= n
struct RankSumsOfTwo {
  f64 m, n;
  VG_MEMBER f64 total() const { return m * n; }
  VG_MEMBER f64 variance() const { return m * n * (m + n + 1) / 12; }
  VG_MEMBER RankSums sums(f64 s) const {
    RankSums out = {0, 0, 0};
    // e = 1 - q without cancellation
    f64 r = exp(-s), step = -expm1(-s), q = 1, e = 0, far = exp(-n * s), far_e = -expm1(-n * s), product = 1;
    for (f64 i = 1; i <= m; i += 1) {
      e += q * step;
      q = rank_power(q, r, s, i);
      far_e += far * step;
      far = rank_power(far, r, s, n + i);
      f64 a = i / e, b = (n + i) / far_e;
      product *= a / b;
      out.mean += a * q - b * far;
      out.variance += a * a * q - b * b * far;
      if (product < 1e-200) { out.log += log(product); product = 1; }
    }
    out.log += log(product);
    return out;
  }
  VG_MEMBER RankTerm term(f64 s, f64 angle, bool central) const {
    f64 r = exp(-s), step = -expm1(-s), q = 1, a = central ? 0.5 * angle : angle;
    f64 half = sin(0.5 * a), rest = 2 * half * half, d = sin(a);
    RankTerm out = {1, 0};
    for (f64 i = 0; i < m && (central || q > 1e-18);) {
      f64 re = 1, im = 0, up_re = 1, up_im = 0, down = 1, up = 1, x = cos(i * a), y = sin(i * a), u, v;
      f64 far_x = cos((n + i) * a), far_y = sin((n + i) * a), far = exp(-(n + i) * s), far_e = -expm1(-(n + i) * s);
      f64 e = -expm1(-i * s);
      q = exp(-i * s);
      for (int k = 0; k < RANK_BLOCK && i < m; k++, i += 1) {
        turn_by(x, y, d, rest);
        turn_by(far_x, far_y, d, rest);
        e += q * step;
        q *= r;
        far_e += far * step;
        far *= r;
        down *= e;
        up *= far_e;
        if (central) { u = e * x; v = -(1 + q) * y; } else { u = 1 - q * x; v = -q * y; }
        f64 t = re * u - im * v;
        im = re * v + im * u;
        re = t;
        if (central) { u = far_e * far_x; v = -(1 + far) * far_y; } else { u = 1 - far * far_x; v = -far * far_y; }
        t = up_re * u - up_im * v;
        up_im = up_re * v + up_im * u;
        up_re = t;
      }
      // Multiply by up / down, each divided by the product of its moduli.
      f64 size = re * re + im * im, scale = down / up / size;
      u = (up_re * re + up_im * im) * scale;
      v = (up_im * re - up_re * im) * scale;
      f64 t = out.re * u - out.im * v;
      out.im = out.re * v + out.im * u;
      out.re = t;
    }
    return out;
  }
};

// The probability of at most k, or of k itself, for 0 <= k <= total / 2
template <class Ranks> VG_CALL Tail rank_contour(const Ranks& of, f64 k, bool cumulative) {
  f64 total = of.total(), variance = of.variance(), d = 0.5 * total - k;
  // The saddle point of the integrand of the distribution function, by Newton's method from that of a normal
  // distribution, which is below
  f64 s = fmin(3.0, 2 / (sqrt(d * d + 4 * variance) - d));
  RankSums g = of.sums(s);
  for (int turn = 0; turn < 12 && s < 3; turn++) {
    f64 rest = expm1(s), error = k - g.mean - 1 / rest, step = -error / (g.variance + (1 + 1 / rest) / rest);
    if (!(step > 0.01 * s)) break;
    s = fmin(s + step, 3.0);
    g = of.sums(s);
  }
  s = -log1p(exp(-s) - 1);  // exp(-s) is now exact: powers of it would multiply its rounding error
  g = of.sums(s);
  // So many nodes that the aliasing error is below 1e-18 of the integral. The error consists of probabilities of at
  // most k + nodes, times exp(-s nodes); these are bounded by the integrand at s / 2, and by 1.
  f64 top = s * k + g.log, half = 0.5 * s * k + of.sums(0.5 * s).log;
  f64 nodes = fmin(45 - top, 2 * (45 + half - top)) / s;
  nodes = ceil(fmax(nodes, 16.0)) + 2;
  // On the circle the function is largest at 0; with thousands of ranks the next largest values are at -1 and at the
  // cube roots of 1.
  RankTerm at_half = of.term(s, 3.14159265358979323846, false), at_third = of.term(s, 2.09439510239319549231, false);
  bool central = k > d;
  bool early = fabs(at_half.re) + fabs(at_half.im) + fabs(at_third.re) + fabs(at_third.im) < 1e-18;
  f64 sum = 0, r = exp(-s), angle = 6.28318530717958647693 / nodes;
  for (f64 j = 0; 2 * j <= nodes; j += 1) {
    f64 a = j * angle, turn = central ? a * d : -a * k;
    RankTerm t = of.term(s, a, central);
    f64 x = cos(turn), y = sin(turn), re = t.re * x - t.im * y, im = t.re * y + t.im * x;
    if (cumulative) {
      // divide by 1 - exp(-s + i a)
      f64 half_sine = sin(0.5 * a), u = -expm1(-s) + 2 * r * half_sine * half_sine, v = -r * sin(a);
      f64 size = u * u + v * v;
      re = (re * u + im * v) / size;
    }
    sum += j == 0 || 2 * j == nodes ? 0.5 * re : re;
    if (early && fabs(t.re) + fabs(t.im) < 1e-18) break;
  }
  Tail out = {top, 2 * sum / nodes, 0, false};
  return out;
}

// ---- tables of the cpu device ------------------------------------------------------------------------------------
#ifndef VG_DEVICE
#define MOST_RANK_COUNTS 32768
// For the sizes m and n (n = 0: signed ranks): the probabilities of k, and of at most k, for k up to the middle
struct RankTable { f64 m, n, mass[MOST_RANK_COUNTS + 1], sum[MOST_RANK_COUNTS + 1]; };
static inline RankTable& rank_table() { static thread_local RankTable table; return table; }
static inline void rank_table_sums(RankTable& t, i32 middle, f64 all) {
  f64 sum = 0;
  for (i32 k = 0; k <= middle; k++) { sum += t.mass[k]; t.sum[k] = sum / all; t.mass[k] /= all; }
}
VG_CALL const RankTable* rank_counts(const SignedRanks& of) {
  f64 total = of.total();
  if (total > 2 * MOST_RANK_COUNTS) return 0;
  RankTable& t = rank_table();
  if (t.m == of.n && t.n == 0) return &t;
  i32 middle = (i32)(0.5 * total), n = (i32)of.n;
  for (i32 k = 0; k <= middle; k++) t.mass[k] = k == 0;
  for (i32 i = 1; i <= n; i++)
    for (i32 k = middle; k >= i; k--) t.mass[k] += t.mass[k - i];
  rank_table_sums(t, middle, f64_of_bits((u64)(1023 + n) << 52));
  t.m = of.n;
  t.n = 0;
  return &t;
}
VG_CALL const RankTable* rank_counts(const RankSumsOfTwo& of) {
  f64 total = of.total();
  if (total > 2 * MOST_RANK_COUNTS) return 0;
  RankTable& t = rank_table();
  if (t.m == of.m && t.n == of.n) return &t;
  i32 middle = (i32)(0.5 * total), m = (i32)of.m, n = (i32)of.n;
  for (i32 k = 0; k <= middle; k++) t.mass[k] = k == 0;
  f64 all = 1;
  for (i32 i = 1; i <= m; i++) {
    // Multiply first: dividing first, with its positive terms, would lose digits in the cancellation that follows.
    for (i32 k = middle; k >= n + i; k--) t.mass[k] -= t.mass[k - n - i];
    for (i32 k = i; k <= middle; k++) t.mass[k] += t.mass[k - i];
    all = all * (n + i) / i;
  }
  rank_table_sums(t, middle, all);
  t.m = of.m;
  t.n = of.n;
  return &t;
}
#else
template <class Ranks> VG_FN const void* rank_counts(const Ranks&) { return 0; }
#endif

// ---- R's functions -----------------------------------------------------------------------------------------------
#ifndef VG_DEVICE
template <class Ranks> VG_CALL Tail rank_tail(const Ranks& of, f64 k, bool cumulative) {
  if (const RankTable* t = rank_counts(of)) {
    Tail out = {0, cumulative ? t->sum[(i32)k] : t->mass[(i32)k], 0, false};
    return out;
  }
  return rank_contour(of, k, cumulative);
}
#else
template <class Ranks> VG_CALL Tail rank_tail(const Ranks& of, f64 k, bool cumulative) {
  return rank_contour(of, k, cumulative);
}
#endif
template <class Ranks> VG_FN f64 rank_density(const Ranks& of, f64 x, bool as_log) {
  f64 total = of.total();
  if (fabs(x - rint(x)) > 1e-7 || !is_finite_f64(x)) return nothing(as_log);
  x = rint(x);
  if (x < 0 || x > total) return nothing(as_log);
  Tail t = rank_tail(of, fmin(x, total - x), false);
  return as_log ? t.log + log(t.factor) : exp(t.log) * t.factor;
}
template <class Ranks> struct RankCdf {
  Ranks of;
  VG_MEMBER f64 operator()(f64 k, bool upper, bool as_log) const {
    f64 total = of.total();
    if (k < 0) return p_left(upper, as_log);
    if (k >= total) return p_right(upper, as_log);
    // By symmetry the upper tail is the probability of at most total - k - 1.
    bool above = k >= total - k;
    Tail t = rank_tail(of, above ? total - k - 1 : k, true);
    t.upper = above;
    return tail_probability(t, upper, as_log);
  }
};
template <class Ranks> VG_FN f64 rank_probability(const Ranks& of, f64 x, bool upper, bool as_log) {
  RankCdf<Ranks> cdf = {of};
  return cdf(floor(x + 1e-7), upper, as_log);
}
template <class Ranks> VG_FN f64 rank_quantile(const Ranks& of, f64 p, bool upper, bool as_log) {
  f64 out, total = of.total();
  if (q_end(p, 0.0, total, upper, as_log, out)) return out;
  RankCdf<Ranks> cdf = {of};
  return count_quantile(cdf, p, upper, as_log, 0.5 * total, sqrt(of.variance()), 0.0, 0.0, total);
}
// The largest sizes. Beyond them an integral would take a processor more than a tenth of a second, and base R would run
// out of memory. An integral's time grows with the smaller sample, and for very small samples, whose terms decrease
// slowly, with m n.
#define MOST_RANKS 1e5
VG_FN bool is_no_size(f64& n) {
  n = rint(n);
  return !(n > 0 && n <= MOST_RANKS);
}
VG_FN bool is_no_size(f64& m, f64& n) {
  m = rint(m);
  n = rint(n);
  if (!(m > 0 && n > 0)) return true;
  return fmin(m, n) < 8 ? m * n > 2 * MOST_RANKS : fmin(m, n) > MOST_RANKS || fmax(m, n) > 1e7;
}
VG_CALL f64 d_signrank(f64 x, f64 n, bool as_log, u32& w) {
  ANY_NAN2(x, n);
  if (is_no_size(n)) return nan_noted(w);
  SignedRanks of = {n};
  return rank_density(of, x, as_log);
}
VG_CALL f64 p_signrank(f64 x, f64 n, bool upper, bool as_log, u32& w) {
  ANY_NAN2(x, n);
  if (is_no_size(n)) return nan_noted(w);
  SignedRanks of = {n};
  return rank_probability(of, floor(x + 1e-7), upper, as_log);
}
VG_CALL f64 q_signrank(f64 p, f64 n, bool upper, bool as_log, u32& w) {
  ANY_NAN2(p, n);
  if (!is_finite_f64(p) || is_no_size(n) || is_no_probability(p, as_log)) return nan_noted(w);
  SignedRanks of = {n};
  return rank_quantile(of, p, upper, as_log);
}
VG_FN RankSumsOfTwo rank_sums_of(f64 m, f64 n) { RankSumsOfTwo of = {fmin(m, n), fmax(m, n)}; return of; }
VG_CALL f64 d_wilcox(f64 x, f64 m, f64 n, bool as_log, u32& w) {
  ANY_NAN3(x, m, n);
  if (is_no_size(m, n)) return nan_noted(w);
  return rank_density(rank_sums_of(m, n), x, as_log);
}
VG_CALL f64 p_wilcox(f64 x, f64 m, f64 n, bool upper, bool as_log, u32& w) {
  ANY_NAN3(x, m, n);
  if (is_no_size(m, n)) return nan_noted(w);
  return rank_probability(rank_sums_of(m, n), x, upper, as_log);
}
VG_CALL f64 q_wilcox(f64 p, f64 m, f64 n, bool upper, bool as_log, u32& w) {
  ANY_NAN3(p, m, n);
  if (!is_finite_f64(p) || is_no_size(m, n) || is_no_probability(p, as_log)) return nan_noted(w);
  return rank_quantile(rank_sums_of(m, n), p, upper, as_log);
}
