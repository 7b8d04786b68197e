// The hypergeometric distribution: x white balls among k drawn from m white and n black ones.
//
// The density is that of four independent Poisson counts, conditional on their margins, computed by their deviances
// (Loader 2000). The smaller tail is summed from its largest term, by the rational ratios of terms; if more than some
// 40,000 terms would count, by the formula of Euler and Maclaurin (DLMF 2.10.1).
#pragma once

// exp(log) * sqrt(square)
struct CountMass { f64 log, square; };
// Multiplies by the Poisson probability of `count` for the mean count - d
VG_FN void with_count(CountMass& s, f64 count, f64 d) {
  f64 mean = count - d, u = -d / count;
  if (count < 10) {
    s.log += (count == 0 ? 0.0 : count * log(mean)) - mean - lgamma_1p(count);
    return;
  }
  s.log += (u > -0.4 && u < 0.5 ? count * log1p_rest(u) : count * log(mean / count) + d) - stirling_rest(count);
  s.square /= 6.28318530717958647693 * count;
}
// Divides by the Poisson probability of a margin for a mean equal to it
VG_FN void given_margin(CountMass& s, f64 margin) {
  if (margin < 10) {
    s.log -= (margin == 0 ? 0.0 : margin * log(margin)) - margin - lgamma_1p(margin);
    return;
  }
  s.log += stirling_rest(margin);
  s.square *= 6.28318530717958647693 * margin;
}
// log of the mass at x = mean + d; x need not be whole
VG_CALL f64 log_hypergeometric_mass_at(f64 x, f64 d, f64 m, f64 n, f64 k) {
  CountMass s = {0, 1};
  with_count(s, x, d);
  given_margin(s, m);
  with_count(s, m - x, -d);
  given_margin(s, n);
  with_count(s, k - x, -d);
  given_margin(s, k);
  with_count(s, n - k + x, d);
  given_margin(s, m + n - k);
  CountMass all = {0, 1};
  given_margin(all, m + n);
  return s.log - all.log + 0.5 * log(s.square / all.square);
}
// x minus the mean m k / (m + n), without cancellation
VG_FN f64 hypergeometric_excess(f64 x, f64 m, f64 n, f64 k) {
  f64 all = m + n, product = m * k;
  return (fma(x, all, -product) - fma(m, k, -product)) / all;
}
VG_CALL f64 log_hypergeometric_mass(f64 x, f64 m, f64 n, f64 k) {
  if (x < 0 || x > m || x > k || k - x > n) return -infinity_f64();
  return log_hypergeometric_mass_at(x, hypergeometric_excess(x, m, n, k), m, n, k);
}
// The sum of the masses at x, x - 1, ... relative to that at x; `ratio` is the relative mass at x - 1. It is an
// integral, plus half of the first term, plus a twelfth of its derivative. Terms decrease so slowly that higher
// derivatives contribute less than 1e-15.
VG_CALL f64 hypergeometric_integral(f64 x, f64 m, f64 n, f64 k, f64 ratio, f64 variance) {
  f64 slope = fmax(1 - ratio, 0.0), width = 90 / (slope + sqrt(slope * slope + 90 / variance)), sum = 0;
  width = 0.5 * fmin(width, x - fmax(0.0, k - n));
  f64 d = hypergeometric_excess(x, m, n, k), top = log_hypergeometric_mass_at(x, d, m, n, k);
  for (int half = 0; half < 2; half++) {
    for (int j = 0; j < 24; j++) {
      f64 t = width * (half + LEGENDRE_NODES[j]);
      sum += LEGENDRE_WEIGHTS[j] * exp(log_hypergeometric_mass_at(x - t, d - t, m, n, k) - top);
    }
  }
  f64 next = (m - x) / (x + 1) * ((k - x) / (n - k + x + 1));
  return width * sum + 0.5 + (next - ratio) / 24;
}
// P(X <= x) for x below the mean, least <= x
VG_CALL Tail hypergeometric_lower(f64 x, f64 m, f64 n, f64 k) {
  f64 all = m + n, rest = n - k, variance = k * (m / all) * (n / all) * ((all - k) / (all - 1));
  if (variance > 1e6 && x > 1e5) {
    f64 ratio = x / (m - x + 1) * ((rest + x) / (k - x + 1));
    if (ratio > 0.999) {
      Tail t = {log_hypergeometric_mass(x, m, n, k), hypergeometric_integral(x, m, n, k, ratio, variance), 0, false};
      return t;
    }
  }
  f64 term = 1, sum = 1;
  for (f64 j = x; term > 1e-18 * sum && j > 0; j -= 1) {
    term *= j / (m - j + 1) * ((rest + j) / (k - j + 1));
    sum += term;
  }
  Tail t = {log_hypergeometric_mass(x, m, n, k), sum, 0, false};
  return t;
}
struct HypergeometricCdf {
  f64 m, n, k;
  VG_MEMBER f64 operator()(f64 x, bool upper, bool as_log) const {
    if (x < fmax(0.0, k - n)) return p_left(upper, as_log);
    if (x >= fmin(m, k)) return p_right(upper, as_log);
    // Above the mean the black balls are counted: more than x white ones are fewer than k - x black ones.
    bool above = x * (m + n) > k * m;
    Tail t = above ? hypergeometric_lower(k - x - 1, n, m, k) : hypergeometric_lower(x, m, n, k);
    t.upper = above;
    return tail_probability(t, upper, as_log);
  }
};
// For larger urns products would overflow.
VG_FN bool is_no_urn(f64 m, f64 n) { return !(m + n < 1e100); }
VG_FN bool is_no_count(f64 x) { return x < 0 || (is_finite_f64(x) && !nearly_whole(x)); }
VG_CALL f64 d_hyper(f64 x, f64 m, f64 n, f64 k, bool as_log, u32& w) {
  ANY_NAN4(x, m, n, k);
  if (is_no_count(m) || is_no_count(n) || is_no_count(k) || k > m + n) return nan_noted(w);
  if (x < 0) return nothing(as_log);
  if (is_fraction(x, w) || !is_finite_f64(x)) return nothing(as_log);
  x = rint(x);
  m = rint(m);
  n = rint(n);
  k = rint(k);
  if (x > m || x > k || k - x > n) return nothing(as_log);
  if (k == 0) return everything(as_log);
  if (is_no_urn(m, n)) return nan_noted(w);
  return unlogged(log_hypergeometric_mass(x, m, n, k), as_log);
}
VG_CALL f64 p_hyper(f64 x, f64 m, f64 n, f64 k, bool upper, bool as_log, u32& w) {
  ANY_NAN4(x, m, n, k);
  m = rint(m);
  n = rint(n);
  k = rint(k);
  if (m < 0 || n < 0 || is_no_urn(m, n) || k < 0 || k > m + n) return nan_noted(w);
  HypergeometricCdf cdf = {m, n, k};
  return cdf(floor(x + 1e-7), upper, as_log);
}
VG_CALL f64 q_hyper(f64 p, f64 m, f64 n, f64 k, bool upper, bool as_log, u32& w) {
  ANY_NAN4(p, m, n, k);
  m = rint(m);
  n = rint(n);
  k = rint(k);
  if (!is_finite_f64(p) || m < 0 || n < 0 || is_no_urn(m, n) || k < 0 || k > m + n) return nan_noted(w);
  if (is_no_probability(p, as_log)) return nan_noted(w);
  f64 all = m + n, least = fmax(0.0, k - n), most = fmin(m, k), out;
  if (q_end(p, least, most, upper, as_log, out)) return out;
  if (least == most) return least;
  f64 share = m / all, variance = k * share * (n / all) * ((all - k) / (all - 1)), sd = sqrt(variance);
  f64 skew = all > 2 ? (n - m) / all * ((all - 2 * k) / (all - 2)) / sd : 0;
  HypergeometricCdf cdf = {m, n, k};
  return count_quantile(cdf, p, upper, as_log, k * share, sd, skew, least, most);
}
