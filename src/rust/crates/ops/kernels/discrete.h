// Densities, distribution functions and quantiles of base R's discrete distributions, in the form of distributions.h.
//
// Quantiles are found by bisection that starts from the expansion of Cornish and Fisher (Rev. Inst. Int. Stat. 5,
// 1937).
#pragma once

// Sets bit 2 of w for R's warning "non-integer x". (Bit 4 is "non-integer n".)
VG_FN bool is_fraction(f64 x, u32& w) {
  bool fraction = is_finite_f64(x) && !nearly_whole(x);
  w |= (u32)fraction << 1;
  return fraction;
}
// The smallest whole number from `least` to `most` whose probability `cdf` reaches p, less R's tolerance, so that the
// quantile of a value's probability is the value. Brackets the result by growing steps from a guess, then bisects.
template <class Cdf>
VG_FN f64 count_quantile(const Cdf& cdf, f64 p, bool upper, bool as_log, f64 mean, f64 sd, f64 skew, f64 least,
                         f64 most) {
  f64 z = as_log ? qnorm_standard_log(p) : qnorm_standard(p);
  if (upper) z = -z;
  f64 target = p * (1 + (upper != as_log ? 1.4210854715202004e-14 : -1.4210854715202004e-14));
  f64 low = least - 1, high = most, step = fmax(1.0, rint(sd * 1e-3));
  f64 k = fmin(fmax(rint(mean + sd * (z + skew * (z * z - 1) / 6)), least), fmin(most, 9007199254740992.0));
  bool below = false, above = false;
  for (int turn = 0; turn < 2200; turn++) {
    f64 v = cdf(k, upper, as_log), last = k;
    bool reached = upper ? v <= target : v >= target;
    if (reached) { high = k; above = true; } else { low = k; below = true; }
    if (high - low <= 1) return high;
    if (below && above) k = floor(low + 0.5 * (high - low));
    else { k = reached ? fmax(k - step, low + 1) : fmin(k + step, high - 1); step *= 2; }
    if (k == last) return high;
  }
  return high;
}

VG_CALL f64 d_pois(f64 x, f64 mean, bool as_log, u32& w) {
  ANY_NAN2(x, mean);
  if (mean < 0) return nan_noted(w);
  if (is_fraction(x, w) || x < 0 || !is_finite_f64(x)) return nothing(as_log);
  return poisson_raw(rint(x), mean, as_log);
}
VG_CALL f64 p_pois(f64 x, f64 mean, bool upper, bool as_log, u32& w) {
  ANY_NAN2(x, mean);
  if (mean < 0) return nan_noted(w);
  if (x < 0) return p_left(upper, as_log);
  if (mean == 0 || !is_finite_f64(x)) return p_right(upper, as_log);
  return gamma_probability(mean, floor(x + 1e-7) + 1, !upper, as_log);
}
struct PoissonCdf {
  f64 mean;
  VG_MEMBER f64 operator()(f64 k, bool upper, bool as_log) const {
    return gamma_probability(mean, k + 1, !upper, as_log);
  }
};
VG_CALL f64 q_pois(f64 p, f64 mean, bool upper, bool as_log, u32& w) {
  ANY_NAN2(p, mean);
  if (!is_finite_f64(mean) || mean < 0 || is_no_probability(p, as_log)) return nan_noted(w);
  f64 out;
  if (mean == 0) return 0.0;
  if (q_end(p, 0.0, infinity_f64(), upper, as_log, out)) return out;
  PoissonCdf cdf = {mean};
  return count_quantile(cdf, p, upper, as_log, mean, sqrt(mean), 1 / sqrt(mean), 0.0, infinity_f64());
}

// log of the binomial probability of x in n; neither need be whole.
VG_CALL f64 log_binomial_mass(f64 x, f64 n, f64 p, f64 q) {
  if (p == 0) return x == 0 ? 0.0 : -infinity_f64();
  if (q == 0) return x == n ? 0.0 : -infinity_f64();
  if (x < 0 || x > n) return -infinity_f64();
  if (n == 0) return 0.0;
  if (x == 0) return n * (p < 0.5 ? log1p(-p) : log(q));
  if (x == n) return n * (q < 0.5 ? log1p(-q) : log(p));
  return log_beta_density(x, n - x, p, q) + log(n / x / (n - x));
}
VG_CALL f64 d_binom(f64 x, f64 n, f64 p, bool as_log, u32& w) {
  ANY_NAN3(x, n, p);
  if (p < 0 || p > 1 || n < 0 || (is_finite_f64(n) && !nearly_whole(n))) return nan_noted(w);
  if (is_fraction(x, w) || x < 0 || !is_finite_f64(x)) return nothing(as_log);
  if (!is_finite_f64(n) && p > 0) return nothing(as_log);
  return unlogged(log_binomial_mass(rint(x), rint(n), p, 1 - p), as_log);
}
VG_CALL f64 p_binom(f64 x, f64 n, f64 p, bool upper, bool as_log, u32& w) {
  ANY_NAN3(x, n, p);
  if (!is_finite_f64(n) || !is_finite_f64(p)) return nan_noted(w);
  if (!nearly_whole(n)) { w |= 4u; return nan_noted(w); }
  n = rint(n);
  if (n < 0 || p < 0 || p > 1) return nan_noted(w);
  if (x < 0) return p_left(upper, as_log);
  x = floor(x + 1e-7);
  if (n <= x) return p_right(upper, as_log);
  return beta_probability(x + 1, n - x, p, 1 - p, !upper, as_log);
}
struct BinomialCdf {
  f64 n, p;
  VG_MEMBER f64 operator()(f64 k, bool upper, bool as_log) const {
    if (k >= n) return p_right(upper, as_log);
    return beta_probability(k + 1, n - k, p, 1 - p, !upper, as_log);
  }
};
VG_CALL f64 q_binom(f64 p, f64 n, f64 prob, bool upper, bool as_log, u32& w) {
  ANY_NAN3(p, n, prob);
  if (!is_finite_f64(n) || !is_finite_f64(prob) || (!is_finite_f64(p) && !as_log)) return nan_noted(w);
  n = rint(n);
  if (prob < 0 || prob > 1 || n < 0 || is_no_probability(p, as_log)) return nan_noted(w);
  f64 out;
  if (q_end(p, 0.0, n, upper, as_log, out)) return out;
  if (prob == 0 || n == 0) return 0.0;
  if (prob == 1) return n;
  f64 q = 1 - prob, sd = sqrt(n * prob * q);
  BinomialCdf cdf = {n, prob};
  return count_quantile(cdf, p, upper, as_log, n * prob, sd, (q - prob) / sd, 0.0, n);
}

VG_CALL f64 d_geom(f64 x, f64 p, bool as_log, u32& w) {
  ANY_NAN2(x, p);
  if (p <= 0 || p > 1) return nan_noted(w);
  if (is_fraction(x, w) || x < 0 || !is_finite_f64(x)) return nothing(as_log);
  x = rint(x);
  f64 l = x == 0 ? 0.0 : x * log1p(-p);
  return as_log ? log(p) + l : p * exp(l);
}
VG_CALL f64 p_geom(f64 x, f64 p, bool upper, bool as_log, u32& w) {
  ANY_NAN2(x, p);
  if (p <= 0 || p > 1) return nan_noted(w);
  if (x < 0) return p_left(upper, as_log);
  if (!is_finite_f64(x) || p == 1) return p_right(upper, as_log);
  return p_of_log_upper(log1p(-p) * (floor(x + 1e-7) + 1), upper, as_log);
}
VG_CALL f64 q_geom(f64 p, f64 prob, bool upper, bool as_log, u32& w) {
  ANY_NAN2(p, prob);
  if (prob <= 0 || prob > 1 || is_no_probability(p, as_log)) return nan_noted(w);
  f64 out;
  if (prob == 1) return 0.0;
  if (q_end(p, 0.0, infinity_f64(), upper, as_log, out)) return out;
  return fmax(0.0, ceil(log_tail_of(p, upper, as_log, true) / log1p(-prob) - 1 - 1e-12));
}

// ---- negative binomial: x failures before `size` successes of probability p = 1 - q ------------------------------
VG_CALL f64 negative_binomial(f64 x, f64 size, f64 p, f64 q, bool as_log) {
  if (size == 0) return x == 0 ? everything(as_log) : nothing(as_log);
  if (x == 0) return unlogged(size * (q < 0.5 ? log1p(-q) : log(p)), as_log);
  if (q == 0) return nothing(as_log);
  return unlogged(log_beta_density(size, x, p, q) - log(x), as_log);
}
VG_CALL f64 d_nbinom(f64 x, f64 size, f64 p, bool as_log, u32& w) {
  ANY_NAN3(x, size, p);
  if (p <= 0 || p > 1 || size < 0) return nan_noted(w);
  if (is_fraction(x, w) || x < 0 || !is_finite_f64(x)) return nothing(as_log);
  if (!is_finite_f64(size)) return nothing(as_log);
  return negative_binomial(rint(x), size, p, 1 - p, as_log);
}
VG_CALL f64 d_nbinom_mu(f64 x, f64 size, f64 mean, bool as_log, u32& w) {
  ANY_NAN3(x, size, mean);
  if (mean < 0 || size < 0) return nan_noted(w);
  if (is_fraction(x, w) || x < 0 || !is_finite_f64(x)) return nothing(as_log);
  x = rint(x);
  if (!is_finite_f64(size)) return poisson_raw(x, mean, as_log);
  if (mean == 0) return x == 0 ? everything(as_log) : nothing(as_log);
  if (!is_finite_f64(mean)) return nothing(as_log);
  f64 s = size + mean;
  return negative_binomial(x, size, size / s, mean / s, as_log);
}
VG_CALL f64 negative_binomial_cdf(f64 x, f64 size, f64 p, f64 q, bool upper, bool as_log) {
  return beta_probability(size, x + 1, p, q, upper, as_log);
}
VG_CALL f64 p_nbinom(f64 x, f64 size, f64 p, bool upper, bool as_log, u32& w) {
  ANY_NAN3(x, size, p);
  if (!is_finite_f64(size) || !is_finite_f64(p) || size < 0 || p <= 0 || p > 1) return nan_noted(w);
  if (x < 0) return p_left(upper, as_log);
  if (size == 0 || !is_finite_f64(x)) return p_right(upper, as_log);
  return negative_binomial_cdf(floor(x + 1e-7), size, p, 1 - p, upper, as_log);
}
VG_CALL f64 p_nbinom_mu(f64 x, f64 size, f64 mean, bool upper, bool as_log, u32& w) {
  ANY_NAN3(x, size, mean);
  if (!is_finite_f64(mean) || size < 0 || mean < 0) return nan_noted(w);
  if (x < 0) return p_left(upper, as_log);
  if (size == 0 || !is_finite_f64(x)) return p_right(upper, as_log);
  x = floor(x + 1e-7);
  if (!is_finite_f64(size)) return p_pois(x, mean, upper, as_log, w);
  f64 s = size + mean;
  return negative_binomial_cdf(x, size, size / s, mean / s, upper, as_log);
}
struct NegativeBinomialCdf {
  f64 size, p, q;
  VG_MEMBER f64 operator()(f64 k, bool upper, bool as_log) const {
    return negative_binomial_cdf(k, size, p, q, upper, as_log);
  }
};
VG_CALL f64 negative_binomial_quantile(f64 p, f64 size, f64 prob, f64 q, bool upper, bool as_log) {
  f64 mean = size * q / prob, sd = sqrt(size * q) / prob;
  NegativeBinomialCdf cdf = {size, prob, q};
  return count_quantile(cdf, p, upper, as_log, mean, sd, (1 + q) / sqrt(size * q), 0.0, infinity_f64());
}
VG_CALL f64 q_nbinom(f64 p, f64 size, f64 prob, bool upper, bool as_log, u32& w) {
  ANY_NAN3(p, size, prob);
  if (prob == 0 && size == 0) return 0.0;
  if (prob <= 0 || prob > 1 || size < 0) return nan_noted(w);
  if (prob == 1 || size == 0) return 0.0;
  if (is_no_probability(p, as_log)) return nan_noted(w);
  f64 out;
  if (q_end(p, 0.0, infinity_f64(), upper, as_log, out)) return out;
  if (!is_finite_f64(size)) return nan_noted(w);
  return negative_binomial_quantile(p, size, prob, 1 - prob, upper, as_log);
}
VG_CALL f64 q_nbinom_mu(f64 p, f64 size, f64 mean, bool upper, bool as_log, u32& w) {
  if (size == infinity_f64()) return q_pois(p, mean, upper, as_log, w);
  ANY_NAN3(p, size, mean);
  if (mean == 0 || size == 0) return 0.0;
  if (mean < 0 || size < 0 || is_no_probability(p, as_log)) return nan_noted(w);
  f64 out;
  if (q_end(p, 0.0, infinity_f64(), upper, as_log, out)) return out;
  if (!is_finite_f64(mean)) return nan_noted(w);
  f64 s = size + mean;
  return negative_binomial_quantile(p, size, size / s, mean / s, upper, as_log);
}
