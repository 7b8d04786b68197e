// Densities, distribution functions and quantiles of base R's continuous distributions, with R's limits and warnings:
// `d_`, `p_` and `q_` and the distribution's name. `upper` and `as_log` are constants of the rows.
//
// Sources: incomplete_gamma.h, incomplete_beta.h and normal.h; the densities' saddle-point form after Loader ("Fast and
// Accurate Computation of Binomial Probabilities", 2000).
#pragma once

// ---- ends --------------------------------------------------------------------------------------------------
VG_FN f64 nothing(bool as_log) { return as_log ? -infinity_f64() : 0.0; }
VG_FN f64 everything(bool as_log) { return as_log ? 0.0 : 1.0; }
// The distribution function below and above all values
VG_FN f64 p_left(bool upper, bool as_log) { return upper ? everything(as_log) : nothing(as_log); }
VG_FN f64 p_right(bool upper, bool as_log) { return upper ? nothing(as_log) : everything(as_log); }
VG_FN f64 logged(f64 density, bool as_log) { return as_log ? log(density) : density; }
VG_FN f64 unlogged(f64 l, bool as_log) { return as_log ? l : exp(l); }
// The probability whose upper tail is exp(l)
VG_FN f64 p_of_log_upper(f64 l, bool upper, bool as_log) {
  if (upper) return unlogged(l, as_log);
  return as_log ? log_1m_exp(l) : -expm1(l);
}
// log of the lower or upper tail, given that p is the lower or upper one
VG_FN f64 log_tail_of(f64 p, bool upper, bool as_log, bool of_upper) {
  if (as_log) return upper == of_upper ? p : log_1m_exp(p);
  return upper == of_upper ? log(p) : log1p(-p);
}
VG_FN f64 lower_of(f64 p, bool upper, bool as_log) {
  if (as_log) return upper ? -expm1(p) : exp(p);
  return upper ? 0.5 - p + 0.5 : p;
}
VG_FN bool is_no_probability(f64 p, bool as_log) { return p > (as_log ? 0.0 : 1.0) || (!as_log && p < 0); }
// The quantile at the ends of the range. True if `out` is the answer.
VG_FN bool q_end(f64 p, f64 left, f64 right, bool upper, bool as_log, f64& out) {
  bool none = as_log ? p == -infinity_f64() : p == 0, all = as_log ? p == 0 : p == 1;
  if (!none && !all) return false;
  out = none != upper ? left : right;
  return true;
}
// NA if an operand is NA, as in R
VG_FN f64 nan_of(f64 a, f64 b, f64 c) {
  return is_na_payload(a) || is_na_payload(b) || is_na_payload(c) ? na_f64() : nan_f64();
}
#define ANY_NAN2(a, b) if (a != a || b != b) return nan_of(a, b, a)
#define ANY_NAN3(a, b, c) if (a != a || b != b || c != c) return nan_of(a, b, c)
#define ANY_NAN4(a, b, c, d) if (a != a || b != b || c != c || d != d) return nan_of(nan_of(a, b, c), d, d)

// ---- uniform, exponential, Weibull, logistic, log-normal, Cauchy -------------------------------------------
VG_CALL f64 d_unif(f64 x, f64 a, f64 b, bool as_log, u32& w) {
  ANY_NAN3(x, a, b);
  if (b <= a) return nan_noted(w);
  if (!(x >= a && x <= b)) return nothing(as_log);
  return as_log ? -log(b - a) : 1 / (b - a);
}
VG_CALL f64 p_unif(f64 x, f64 a, f64 b, bool upper, bool as_log, u32& w) {
  ANY_NAN3(x, a, b);
  if (b < a || !is_finite_f64(a) || !is_finite_f64(b)) return nan_noted(w);
  if (x >= b) return p_right(upper, as_log);
  if (x <= a) return p_left(upper, as_log);
  return logged((upper ? b - x : x - a) / (b - a), as_log);
}
VG_CALL f64 q_unif(f64 p, f64 a, f64 b, bool upper, bool as_log, u32& w) {
  ANY_NAN3(p, a, b);
  if (is_no_probability(p, as_log) || b < a) return nan_noted(w);
  if (!is_finite_f64(a) || !is_finite_f64(b)) return nan_noted(w);
  return b == a ? a : a + lower_of(p, upper, as_log) * (b - a);
}

VG_CALL f64 d_exp(f64 x, f64 rate, bool as_log, u32& w) {
  ANY_NAN2(x, rate);
  f64 scale = 1 / rate;
  if (scale <= 0) return nan_noted(w);
  if (x < 0) return nothing(as_log);
  return checked(as_log ? -x / scale - log(scale) : exp(-x / scale) / scale, 0.0, w);
}
VG_CALL f64 p_exp(f64 x, f64 rate, bool upper, bool as_log, u32& w) {
  ANY_NAN2(x, rate);
  f64 scale = 1 / rate;
  if (scale < 0) return nan_noted(w);
  if (x <= 0) return p_left(upper, as_log);
  return checked(p_of_log_upper(-(x / scale), upper, as_log), 0.0, w);
}
VG_CALL f64 q_exp(f64 p, f64 rate, bool upper, bool as_log, u32& w) {
  ANY_NAN2(p, rate);
  f64 scale = 1 / rate;
  if (scale < 0 || is_no_probability(p, as_log)) return nan_noted(w);
  if (p == p_left(upper, as_log)) return 0.0;
  return checked(-scale * log_tail_of(p, upper, as_log, true), 0.0, w);
}

VG_CALL f64 d_weibull(f64 x, f64 shape, f64 scale, bool as_log, u32& w) {
  ANY_NAN3(x, shape, scale);
  if (shape <= 0 || scale <= 0) return nan_noted(w);
  if (x < 0 || !is_finite_f64(x)) return nothing(as_log);
  if (x == 0 && shape < 1) return infinity_f64();
  f64 z = x / scale, t = pow(z, shape);
  if (!as_log && t < 700) return checked(shape * pow(z, shape - 1) * exp(-t) / scale, 0.0, w);
  f64 power = shape == 1 ? 0.0 : (shape - 1) * log(z);
  return unlogged(power - t + log(shape / scale), as_log);
}
VG_CALL f64 p_weibull(f64 x, f64 shape, f64 scale, bool upper, bool as_log, u32& w) {
  ANY_NAN3(x, shape, scale);
  if (shape <= 0 || scale <= 0) return nan_noted(w);
  if (x <= 0) return p_left(upper, as_log);
  return p_of_log_upper(-pow(x / scale, shape), upper, as_log);
}
VG_CALL f64 q_weibull(f64 p, f64 shape, f64 scale, bool upper, bool as_log, u32& w) {
  ANY_NAN3(p, shape, scale);
  if (shape <= 0 || scale <= 0 || is_no_probability(p, as_log)) return nan_noted(w);
  f64 out;
  if (q_end(p, 0.0, infinity_f64(), upper, as_log, out)) return out;
  return scale * pow(-log_tail_of(p, upper, as_log, true), 1 / shape);
}

VG_CALL f64 d_logis(f64 x, f64 location, f64 scale, bool as_log, u32& w) {
  ANY_NAN3(x, location, scale);
  if (scale <= 0) return nan_noted(w);
  f64 z = fabs((x - location) / scale), e = exp(-z), f = 1 + e;
  return checked(as_log ? -(z + log(scale * f * f)) : e / (scale * f * f), 0.0, w);
}
VG_CALL f64 p_logis(f64 x, f64 location, f64 scale, bool upper, bool as_log, u32& w) {
  ANY_NAN3(x, location, scale);
  if (scale <= 0) return nan_noted(w);
  f64 z = (x - location) / scale;
  if (z != z) return nan_noted(w);
  if (upper) z = -z;
  if (!as_log) return 1 / (1 + exp(-z));
  return z < -36 ? z - exp(z) : -log1p(exp(-z));
}
VG_CALL f64 q_logis(f64 p, f64 location, f64 scale, bool upper, bool as_log, u32& w) {
  ANY_NAN3(p, location, scale);
  if (is_no_probability(p, as_log)) return nan_noted(w);
  f64 out;
  if (q_end(p, -infinity_f64(), infinity_f64(), upper, as_log, out)) return out;
  if (scale < 0) return nan_noted(w);
  if (scale == 0) return location;
  f64 z = as_log ? p - log_1m_exp(p) : log(p / (1 - p));
  return location + scale * (upper ? -z : z);
}

VG_CALL f64 d_lnorm(f64 x, f64 mean, f64 sd, bool as_log, u32& w) {
  ANY_NAN3(x, mean, sd);
  if (sd < 0) return nan_noted(w);
  if (!is_finite_f64(x) && log(x) == mean) return nan_noted(w);
  if (sd == 0) return log(x) == mean ? infinity_f64() : nothing(as_log);
  if (x <= 0) return nothing(as_log);
  f64 z = (log(x) - mean) / sd;
  if (z != z) return nan_noted(w);
  if (as_log) return -(LOG_SQRT_2PI + 0.5 * z * z + log(x * sd));
  return 0.398942280401432677940 * exp_half_square(fmin(fabs(z), 50.0)) / (x * sd);
}
VG_CALL f64 p_lnorm(f64 x, f64 mean, f64 sd, bool upper, bool as_log, u32& w) {
  ANY_NAN3(x, mean, sd);
  if (sd < 0) return nan_noted(w);
  if (!(x > 0)) return p_left(upper, as_log);
  f64 z = pnorm_z(log(x), mean, sd, w);
  if (z != z) return z;
  if (upper) z = -z;
  return as_log ? pnorm_standard_log(z) : pnorm_standard(z);
}
VG_CALL f64 q_lnorm(f64 p, f64 mean, f64 sd, bool upper, bool as_log, u32& w) {
  ANY_NAN3(p, mean, sd);
  if (is_no_probability(p, as_log)) return nan_noted(w);
  f64 out;
  if (q_end(p, 0.0, infinity_f64(), upper, as_log, out)) return out;
  f64 z = as_log ? qnorm_standard_log(p) : qnorm_standard(p);
  return exp(qnorm_scaled(upper ? -z : z, mean, sd, w));
}

VG_CALL f64 d_cauchy(f64 x, f64 location, f64 scale, bool as_log, u32& w) {
  ANY_NAN3(x, location, scale);
  if (scale <= 0) return nan_noted(w);
  f64 z = (x - location) / scale, d = GAMMA_PI * scale * (1 + z * z);
  return checked(as_log ? -log(d) : 1 / d, 0.0, w);
}
VG_CALL f64 p_cauchy(f64 x, f64 location, f64 scale, bool upper, bool as_log, u32& w) {
  ANY_NAN3(x, location, scale);
  if (scale <= 0) return nan_noted(w);
  f64 z = (x - location) / scale;
  if (z != z) return nan_noted(w);
  if (!is_finite_f64(z)) return z < 0 ? p_left(upper, as_log) : p_right(upper, as_log);
  if (upper) z = -z;
  if (fabs(z) <= 1) return logged(0.5 + atan(z) / GAMMA_PI, as_log);
  f64 tail = atan(1 / fabs(z)) / GAMMA_PI;
  if (z < 0) return logged(tail, as_log);
  return as_log ? log1p(-tail) : 0.5 - tail + 0.5;
}
VG_CALL f64 q_cauchy(f64 p, f64 location, f64 scale, bool upper, bool as_log, u32& w) {
  ANY_NAN3(p, location, scale);
  if (is_no_probability(p, as_log)) return nan_noted(w);
  if (scale <= 0 || !is_finite_f64(scale)) return scale == 0 ? location : nan_noted(w);
  f64 tail = as_log ? exp(p) : p;
  if (tail > 0.5) { tail = as_log ? -expm1(p) : 1 - p; upper = !upper; }
  if (tail == 0.5) return location;
  if (tail == 0) return location + (upper ? infinity_f64() : -infinity_f64());
  f64 z = scale * (cos_pi(tail) / sin_pi(tail));
  return upper ? location + z : location - z;
}

// ---- gamma, chi-square ------------------------------------------------------------------------------
// exp(log_poisson_mass) with its limits
VG_CALL f64 poisson_raw(f64 x, f64 mean, bool as_log) {
  if (mean == 0) return x == 0 ? everything(as_log) : nothing(as_log);
  if (!is_finite_f64(mean) || !is_finite_f64(x) || x < 0) return nothing(as_log);
  return unlogged(log_poisson_mass(x, mean), as_log);
}
VG_CALL f64 d_gamma(f64 x, f64 shape, f64 scale, bool as_log, u32& w) {
  ANY_NAN3(x, shape, scale);
  if (shape < 0 || scale <= 0) return nan_noted(w);
  if (x < 0) return nothing(as_log);
  if (shape == 0) return x == 0 ? infinity_f64() : nothing(as_log);
  if (x == 0) return shape < 1 ? infinity_f64() : shape > 1 ? nothing(as_log) : as_log ? -log(scale) : 1 / scale;
  if (shape < 1) {
    f64 l = poisson_raw(shape, x / scale, true);
    f64 rate = shape / x;
    if (as_log) return l + (is_finite_f64(rate) && rate > 0 ? log(rate) : log(shape) - log(x));
    return exp(l) * rate;
  }
  f64 d = poisson_raw(shape - 1, x / scale, as_log);
  return as_log ? d - log(scale) : d / scale;
}
VG_CALL f64 gamma_probability(f64 x, f64 shape, bool upper, bool as_log) {
  if (x <= 0) return p_left(upper, as_log);
  if (!is_finite_f64(x)) return p_right(upper, as_log);
  if (!is_finite_f64(shape)) return p_left(upper, as_log);
  return tail_probability(gamma_tail(shape, x), upper, as_log);
}
VG_CALL f64 p_gamma(f64 x, f64 shape, f64 scale, bool upper, bool as_log, u32& w) {
  ANY_NAN3(x, shape, scale);
  if (shape < 0 || scale <= 0) return nan_noted(w);
  x /= scale;
  if (x != x) return nan_noted(w);
  if (shape == 0) return x <= 0 ? p_left(upper, as_log) : p_right(upper, as_log);
  return gamma_probability(x, shape, upper, as_log);
}
VG_CALL f64 q_gamma(f64 p, f64 shape, f64 scale, bool upper, bool as_log, u32& w) {
  ANY_NAN3(p, shape, scale);
  if (is_no_probability(p, as_log)) return nan_noted(w);
  f64 out;
  if (q_end(p, 0.0, infinity_f64(), upper, as_log, out)) return out;
  if (shape < 0 || scale <= 0) return nan_noted(w);
  if (shape == 0) return 0.0;
  if (!is_finite_f64(shape)) return shape;
  return scale * gamma_quantile(shape, as_log ? p : log(p), upper);
}
VG_FN f64 d_chisq(f64 x, f64 df, bool as_log, u32& w) { return d_gamma(x, 0.5 * df, 2.0, as_log, w); }
VG_FN f64 p_chisq(f64 x, f64 df, bool upper, bool as_log, u32& w) {
  return p_gamma(x, 0.5 * df, 2.0, upper, as_log, w);
}
VG_FN f64 q_chisq(f64 p, f64 df, bool upper, bool as_log, u32& w) {
  return q_gamma(p, 0.5 * df, 2.0, upper, as_log, w);
}

// ---- beta --------------------------------------------------------------------------------------------------------
// The point mass of a degenerate distribution: 0, 1/2 or 1, or 2 for half each at 0 and 1; -1 if the distribution is
// not degenerate
VG_FN f64 beta_point(f64 a, f64 b) {
  if (a != 0 && b != 0 && is_finite_f64(a) && is_finite_f64(b)) return -1.0;
  if (a == 0 && b == 0) return 2.0;
  if (a == 0 || a / b == 0) return 0.0;
  if (b == 0 || b / a == 0) return 1.0;
  return 0.5;
}
VG_CALL f64 d_beta(f64 x, f64 a, f64 b, bool as_log, u32& w) {
  ANY_NAN3(x, a, b);
  if (a < 0 || b < 0) return nan_noted(w);
  if (x < 0 || x > 1) return nothing(as_log);
  f64 point = beta_point(a, b);
  if (point >= 0) return (point == 2 ? x == 0 || x == 1 : x == point) ? infinity_f64() : nothing(as_log);
  if (x == 0 || x == 1) {
    f64 near = x == 0 ? a : b, far = x == 0 ? b : a;
    return near > 1 ? nothing(as_log) : near < 1 ? infinity_f64() : logged(far, as_log);
  }
  f64 l = log_beta_density(a, b, x, 1 - x);
  if (as_log || x < 1e-100) return unlogged(l - log(x) - log1p(-x), as_log);
  return exp(l) / (x * (1 - x));
}
VG_CALL f64 beta_probability(f64 a, f64 b, f64 x, f64 y, bool upper, bool as_log) {
  if (x <= 0) return p_left(upper, as_log);
  if (y <= 0) return p_right(upper, as_log);
  return tail_probability(beta_tail(a, b, x, y), upper, as_log);
}
VG_CALL f64 p_beta(f64 x, f64 a, f64 b, bool upper, bool as_log, u32& w) {
  ANY_NAN3(x, a, b);
  if (a < 0 || b < 0) return nan_noted(w);
  // degenerate: all mass is at one point, or half each at 0 and 1
  f64 point = beta_point(a, b);
  if (point == 2 && x >= 0 && x < 1) return logged(0.5, as_log);
  if (point >= 0) return x < (point == 2 ? 1 : point) ? p_left(upper, as_log) : p_right(upper, as_log);
  if (x <= 0) return p_left(upper, as_log);
  if (x >= 1) return p_right(upper, as_log);
  return beta_probability(a, b, x, 0.5 - x + 0.5, upper, as_log);
}
VG_CALL f64 q_beta(f64 p, f64 a, f64 b, bool upper, bool as_log, u32& w) {
  ANY_NAN3(p, a, b);
  if (a < 0 || b < 0 || is_no_probability(p, as_log)) return nan_noted(w);
  f64 point = beta_point(a, b), out;
  if (q_end(p, 0.0, 1.0, upper, as_log, out)) return out;
  if (point == 2) {
    f64 half = as_log ? -0.693147180559945309417 : 0.5;
    return p == half ? 0.5 : p < half ? 0.0 : 1.0;
  }
  if (point >= 0) return point;
  f64 r = beta_quantile(a, b, as_log ? p : log(p), upper);
  return r > 1 ? 1 / (1 + 1 / r) : r / (1 + r);
}

// ---- F: x df1 / df2 is x / (1 - x) of a beta -----------------------------------------------------------------------
VG_CALL f64 d_f(f64 x, f64 df1, f64 df2, bool as_log, u32& w) {
  ANY_NAN3(x, df1, df2);
  if (df1 <= 0 || df2 <= 0) return nan_noted(w);
  if (x < 0) return nothing(as_log);
  if (x == 0) return df1 > 2 ? nothing(as_log) : df1 == 2 ? everything(as_log) : infinity_f64();
  if (!is_finite_f64(df1) && !is_finite_f64(df2)) return x == 1 ? infinity_f64() : nothing(as_log);
  if (!is_finite_f64(df2)) return d_gamma(x, 0.5 * df1, 2 / df1, as_log, w);
  if (!is_finite_f64(df1)) {
    f64 d = d_gamma(1 / x, 0.5 * df2, 2 / df2, as_log, w);
    return as_log ? d - 2 * log(x) : d / (x * x);
  }
  if (!is_finite_f64(x)) return df1 < 2 ? nan_noted(w) : nothing(as_log);
  f64 r = df1 / df2 * x, y = 1 / (1 + r);
  if (y == 0) return nothing(as_log);
  f64 l = log_beta_density(0.5 * df1, 0.5 * df2, r > 1 ? 1 / (1 + 1 / r) : r * y, y);
  return as_log || x < 1e-100 ? unlogged(l - log(x), as_log) : exp(l) / x;
}
VG_CALL f64 p_f(f64 x, f64 df1, f64 df2, bool upper, bool as_log, u32& w) {
  ANY_NAN3(x, df1, df2);
  if (df1 <= 0 || df2 <= 0) return nan_noted(w);
  if (x <= 0) return p_left(upper, as_log);
  if (!is_finite_f64(x)) return p_right(upper, as_log);
  if (!is_finite_f64(df2)) {
    if (!is_finite_f64(df1) && x == 1) return logged(0.5, as_log);
    if (!is_finite_f64(df1)) return x < 1 ? p_left(upper, as_log) : p_right(upper, as_log);
    return p_chisq(x * df1, df1, upper, as_log, w);
  }
  if (!is_finite_f64(df1)) return p_chisq(df2 / x, df2, !upper, as_log, w);
  f64 r = df1 / df2 * x, y = 1 / (1 + r);
  return beta_probability(0.5 * df1, 0.5 * df2, r > 1 ? 1 / (1 + 1 / r) : r * y, y, upper, as_log);
}
VG_CALL f64 q_f(f64 p, f64 df1, f64 df2, bool upper, bool as_log, u32& w) {
  ANY_NAN3(p, df1, df2);
  if (df1 <= 0 || df2 <= 0 || is_no_probability(p, as_log)) return nan_noted(w);
  f64 out;
  if (q_end(p, 0.0, infinity_f64(), upper, as_log, out)) return out;
  if (!is_finite_f64(df2)) return is_finite_f64(df1) ? q_chisq(p, df1, upper, as_log, w) / df1 : 1.0;
  if (!is_finite_f64(df1)) return df2 / q_chisq(p, df2, !upper, as_log, w);
  return beta_quantile(0.5 * df1, 0.5 * df2, as_log ? p : log(p), upper) * (df2 / df1);
}

// ---- t: n / (n + t^2) is a beta with n/2 and 1/2 -------------------------------------------------------------------
// |t| / sqrt(n), limited so that its square is finite. Beyond the limit the tail is a power of t: `beyond` is the log
// of the remaining factor.
VG_FN f64 t_ratio(f64 x, f64 n, f64& beyond) {
  f64 q = fabs(x) / sqrt(n);
  beyond = 0;
  if (q > 1e100) { beyond = -n * (log(fabs(x)) - 0.5 * log(n) - 230.258509299404568402); q = 1e100; }
  return q;
}
VG_CALL f64 d_t(f64 x, f64 n, bool as_log, u32& w) {
  ANY_NAN2(x, n);
  if (n <= 0) return nan_noted(w);
  if (!is_finite_f64(x)) return nothing(as_log);
  if (!is_finite_f64(n)) return as_log ? r_dnorm_log(x, 0.0, 1.0, w) : r_dnorm(x, 0.0, 1.0, w);
  f64 q = fabs(x) / sqrt(n), l = q > 1e100 ? 2 * log(q) : log1p(q * q), a = 0.5 * n, c;
  // the density at 0 is gamma((n + 1) / 2) / (gamma(n / 2) sqrt(n pi))
  if (a >= 10) c = 0.398942280401432677940 * exp(a * log1p(0.5 / a) - 0.5 + stirling_rest(a + 0.5) - stirling_rest(a));
  else c = 0.282094791773878143474 * sqrt(n) * (gamma_near(a + 0.5) / gamma_near(a + 1));
  return as_log ? log(c) - (a + 0.5) * l : c * exp(-(a + 0.5) * l);
}
VG_CALL f64 p_t(f64 x, f64 n, bool upper, bool as_log, u32& w) {
  ANY_NAN2(x, n);
  if (n <= 0) return nan_noted(w);
  if (!is_finite_f64(x)) return x < 0 ? p_left(upper, as_log) : p_right(upper, as_log);
  f64 z = upper ? -x : x;
  if (!is_finite_f64(n)) return as_log ? pnorm_standard_log(z) : pnorm_standard(z);
  f64 beyond, q = t_ratio(x, n, beyond), s = q * q;
  if (s < 1e-300) return logged(0.5, as_log);
  Tail t = beta_tail(0.5 * n, 0.5, 1 / (1 + s), s > 1 ? 1 / (1 + 1 / s) : s / (1 + s));
  const f64 log2 = 0.693147180559945309417;
  if (!t.upper) {  // the probability of both tails
    t.log += beyond;
    if (z < 0) return as_log ? t.log + log(t.factor) - log2 : 0.5 * exp(t.log) * t.factor;
    f64 v = 0.5 * exp(t.log) * t.factor;
    return as_log ? log1p(-v) : 0.5 - v + 0.5;
  }
  f64 v = exp(t.log) * t.factor;  // between -|x| and |x|
  if (z < 0) v = -v;
  return as_log ? log1p(v) - log2 : 0.5 + 0.5 * v;
}
VG_CALL f64 q_t(f64 p, f64 n, bool upper, bool as_log, u32& w) {
  ANY_NAN2(p, n);
  if (is_no_probability(p, as_log)) return nan_noted(w);
  f64 out;
  if (q_end(p, -infinity_f64(), infinity_f64(), upper, as_log, out)) return out;
  if (n <= 0) return nan_noted(w);
  if (!is_finite_f64(n)) {
    f64 z = as_log ? qnorm_standard_log(p) : qnorm_standard(p);
    return upper ? -z : z;
  }
  const f64 log2 = 0.693147180559945309417;
  // the probability between -|t| and |t|, negative above the median
  f64 centre = as_log ? -expm1(p + log2) : 1 - 2 * p;
  if (centre == 0) return 0.0;
  bool negative = (centre > 0) != upper;
  f64 tails = log2 + (centre > 0 ? (as_log ? p : log(p)) : (as_log ? log_1m_exp(p) : log1p(-p)));
  f64 a = 0.5 * n, log_b = lgamma_1p(a) + lgamma_1p(0.5) - lgamma_1p(a + 0.5) + log(2 + 1 / a);
  f64 near = (tails + log(a) + log_b) / a, t;
  if (near < -300) t = exp(0.5 * (log(n) - near));
  else {
    bool middle = fabs(centre) < 0.5;
    t = sqrt(n / beta_quantile(a, 0.5, middle ? log(fabs(centre)) : tails, middle));
  }
  return negative ? -t : t;
}
