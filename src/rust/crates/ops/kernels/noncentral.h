// Non-central chi-square, beta, F and t, with R's limits and warnings.
//
// Chi-square, beta and F are mixtures of central ones over a Poisson count j of mean ncp / 2. Each tail is a sum of
// positive terms around its largest one, by the recurrences of the incomplete gamma and beta functions in their stable
// direction: downwards for lower tails, upwards for upper ones (Benton and Krishnamoorthy, Comput. Stat. Data Anal. 43,
// 2003; Gil, Segura and Temme, ACM TOMS 40, 2014, for the gamma function's); where many terms matter, by the
// trapezoidal rule, as they are a smooth function of j (Trefethen and Weideman, SIAM Review 56, 2014). t is the sum of
// two such mixtures, over whole and half counts (Lenth, AS 243, Applied Statistics 38, 1989), where x and ncp are of
// one sign; else an integral over the scale s of the normal tail beyond x s, by the trapezoidal rule after the
// substitution of Takahasi and Mori (Publ. RIMS 9, 1974), whose terms are positive too.
#pragma once

// sqrt(a^2 + c), where the square may overflow
VG_FN f64 root_of(f64 a, f64 c) { return fabs(a) > 1e100 ? fabs(a) * sqrt(1 + c / a / a) : sqrt(a * a + c); }
// Families of central distributions with index k. The mass is the difference P(k) - P(k + 1) of neighbouring
// distribution functions, `up` the ratio of neighbouring masses, and `tail` P or 1 - P.
struct GammaFamily {
  f64 a, x;
  VG_MEMBER f64 log_mass(f64 k) const { return log_poisson_mass(a + k, x); }
  VG_MEMBER f64 up(f64 k) const { return x / (a + k + 1); }
  VG_MEMBER Tail tail(f64 k) const { return gamma_tail(a + k, x); }
  // d log density / dt of index k is shape * y - b x, on the scale of log x
  VG_MEMBER f64 bend(f64 shape) const { return shape - x; }
  // The k with mean * up(k) = k + 1, where the product of the mass and the Poisson mass is largest
  VG_MEMBER f64 centre(f64 mean) const { return 2 * mean * x / (a + root_of(a, 4 * mean * x)); }
};
struct BetaFamily {
  f64 a, b, x, y;
  VG_MEMBER f64 log_mass(f64 k) const { return log_beta_density(a + k, b, x, y) - log(a + k); }
  VG_MEMBER f64 up(f64 k) const { return x * (a + b + k) / (a + k + 1); }
  VG_MEMBER Tail tail(f64 k) const { return beta_tail(a + k, b, x, y); }
  VG_MEMBER f64 bend(f64 shape) const { return shape * y - b * x; }
  VG_MEMBER f64 centre(f64 mean) const {
    f64 q = mean * x, d = a - q, r = root_of(d, 4 * q * (a + b));
    return d > 0 ? 2 * q * (a + b) / (d + r) : 0.5 * (r - d);
  }
};
// A tail of a mixture. Its `factor` is of the requested side. `moment` is the sum of shapes, weighted as `slope` is.
struct MixtureTail { f64 log, factor, slope, moment; };

// Above this index only 37 terms are taken, half a square root of the index apart; their sum agrees with that of all
// terms to the last digit.
#define MANY_TERMS 3e4
// More terms than any sum below MANY_TERMS has
#define MOST_TERMS 20000
template <class Family> VG_CALL MixtureTail mixture_tail_far(const Family& of, f64 mean, f64 centre, bool upper) {
  f64 step = 0.5 * sqrt(centre), l = log_poisson_mass(centre, mean);
  if (mean > 1e30) {  // the count equals its mean, to the last digit
    Tail t = of.tail(mean);
    MixtureTail at = {t.log, t.factor, t.slope, t.slope * (of.a + mean)};
    if (t.upper != upper) at.factor = exp(-t.log) - at.factor;
    return at;
  }
  MixtureTail sum = {l + of.log_mass(centre), 0, 0, 0};
  for (int n = -18; n <= 18; n++) {
    f64 k = centre + n * step, count = log_poisson_mass(k, mean) - sum.log;
    Tail t = of.tail(k);
    f64 lead = step * exp(count + t.log), p = lead * t.factor, slope = lead * t.slope;
    sum.factor += t.upper == upper ? p : step * exp(count) - p;
    sum.slope += slope;
    sum.moment += slope * (of.a + k);
  }
  return sum;
}
// The sum over j of the Poisson mass at j + nu times a tail of index j + nu. `weight` is the product of the Poisson
// mass and the family's mass, 1 at the centre; `ratio` is the tail divided by the family's mass.
template <class Family> VG_CALL MixtureTail mixture_tail(const Family& of, f64 mean, f64 nu, bool upper) {
  mean = fmax(mean, 1e-300);  // half of a squared ncp may underflow to 0
  f64 centre = of.centre(mean), j = floor(centre), k = j + nu, weight = 1, ratio = 0;
  if (centre != centre) { MixtureTail none = {centre, centre, centre, centre}; return none; }
  if (centre > MANY_TERMS) return mixture_tail_far(of, mean, centre, upper);
  MixtureTail sum = {of.log_mass(k) + log_poisson_mass(k, mean), 0, 0, 0};
  // Go to the first term that counts; the ratio decreases from the centre to it.
  for (int turn = 0; weight > 1e-19 && (!upper || j > 0) && turn < MOST_TERMS; turn++, k = j + nu) {
    if (upper) { weight *= k / mean / of.up(k - 1); j -= 1; }
    else { weight *= mean / (k + 1) * of.up(k); j += 1; }
  }
  if (of.a + k > 0) {
    f64 log_mass = of.log_mass(k);
    Tail t = of.tail(k);
    ratio = t.factor * exp(t.log - log_mass);
    if (t.upper != upper) ratio = exp(-log_mass) - ratio;
  }
  for (int turn = 0; turn < MOST_TERMS; turn++) {
    f64 term = weight * ratio, shape = of.a + k, slope = weight * shape;
    sum.factor += term;
    sum.slope += slope;
    sum.moment += slope * shape;
    if (upper ? j > centre : j < centre) {
      if (!(term > 1e-18 * sum.factor) && !(slope > 1e-18 * sum.slope)) break;
    }
    if (upper) {
      f64 up = of.up(k);
      ratio = (ratio + 1) / up;
      weight *= mean / (k + 1) * up;
      j += 1;
    } else {
      if (j <= 0) break;
      f64 up = of.up(k - 1);
      ratio = ratio * up + 1;
      weight *= k / mean / up;
      j -= 1;
    }
    k = j + nu;
  }
  return sum;
}
// The density of a mixture on the scale of log x or logit x: the returned sum times exp(l)
template <class Family> VG_CALL f64 mixture_density(const Family& of, f64 mean, f64 nu, f64& l) {
  mean = fmax(mean, 1e-300);
  f64 start = floor(of.centre(mean));
  if (start > MANY_TERMS) {
    MixtureTail t = mixture_tail_far(of, mean, start, true);
    l = t.log;
    return t.slope;
  }
  if (of.a + start + nu == 0) start = 1;  // index 0 is a point mass at 0
  f64 k = start + nu, term = 1, sum = 1, shape = of.a + k;
  l = of.log_mass(k) + log(shape) + log_poisson_mass(k, mean);
  for (f64 j = start; term > 1e-18 * sum && j < start + MOST_TERMS; j += 1) {
    k = j + nu;
    term *= mean / (k + 1) * of.up(k) * ((of.a + k + 1) / (of.a + k));
    sum += term;
  }
  term = 1;
  for (f64 j = start; j > 0 && of.a + j - 1 + nu > 0 && term > 1e-18 * sum; j -= 1) {
    k = j - 1 + nu;
    term *= (k + 1) / mean / of.up(k) * ((of.a + k) / (of.a + k + 1));
    sum += term;
  }
  return sum;
}

// The requested tail, with its slope on the scale of the quantile's iteration
template <class Family> VG_FN Tail smaller_mixture(const Family& of, f64 mean, bool upper, f64& bend) {
  MixtureTail m = mixture_tail(of, mean, 0.0, upper);
  bend = of.bend(m.moment / m.slope);
  Tail t = {m.log, m.factor, m.slope, upper};
  return t;
}

// Below it only the first term counts.
#define MOST_SMALL 1e-290
// ---- chi-square --------------------------------------------------------------------------------------------------
VG_FN bool is_wrong_ncp(f64 ncp) { return !(ncp >= 0 && is_finite_f64(ncp)); }
VG_CALL Tail noncentral_chisq_tail(f64 x, f64 df, f64 ncp, f64& bend) {
  GammaFamily of = {0.5 * df, 0.5 * x};
  if (x < MOST_SMALL) {
    Tail first = {of.log_mass(0.0) - 0.5 * ncp, 1, of.a, false};
    bend = of.a;
    return first;
  }
  return smaller_mixture(of, 0.5 * ncp, x >= df + ncp, bend);
}
VG_CALL f64 d_chisq_ncp(f64 x, f64 df, f64 ncp, bool as_log, u32& w) {
  ANY_NAN3(x, df, ncp);
  if (is_wrong_ncp(ncp) || df < 0 || !is_finite_f64(df)) return nan_noted(w);
  if (x < 0) return nothing(as_log);
  if (x == 0 && df < 2) return infinity_f64();
  if (ncp == 0) return df > 0 ? d_chisq(x, df, as_log, w) : nothing(as_log);
  if (!is_finite_f64(x)) return nothing(as_log);
  if (x == 0) return df > 2 ? nothing(as_log) : unlogged(-0.5 * ncp - 0.693147180559945309417, as_log);
  GammaFamily of = {0.5 * df, 0.5 * x};
  f64 l, sum = mixture_density(of, 0.5 * ncp, 0.0, l);
  return as_log ? l + log(sum / x) : exp(l) * sum / x;
}
VG_CALL f64 p_chisq_ncp(f64 x, f64 df, f64 ncp, bool upper, bool as_log, u32& w) {
  ANY_NAN3(x, df, ncp);
  if (!is_finite_f64(df) || is_wrong_ncp(ncp) || df < 0) return nan_noted(w);
  if (x < 0 || (x == 0 && df > 0)) return p_left(upper, as_log);
  if (!is_finite_f64(x)) return p_right(upper, as_log);
  if (x == 0) return upper ? p_of_log_upper(-0.5 * ncp, false, as_log) : unlogged(-0.5 * ncp, as_log);
  if (ncp == 0) return p_chisq(x, df, upper, as_log, w);
  f64 bend;
  return tail_probability(noncentral_chisq_tail(x, df, ncp, bend), upper, as_log);
}
VG_CALL f64 q_chisq_ncp(f64 p, f64 df, f64 ncp, bool upper, bool as_log, u32& w) {
  ANY_NAN3(p, df, ncp);
  if (!is_finite_f64(df) || ncp < 0 || df < 0 || is_no_probability(p, as_log)) return nan_noted(w);
  f64 out;
  if (q_end(p, 0.0, infinity_f64(), upper, as_log, out)) return out;
  if (!is_finite_f64(ncp)) return nan_noted(w);
  if (ncp == 0) return q_chisq(p, df, upper, as_log, w);
  f64 l = as_log ? p : log(p), a = 0.5 * df, mean = 0.5 * ncp;
  if (df == 0 && (upper ? log_1m_exp(l) : l) <= -mean) return 0.0;
  smaller_tail(l, upper);
  f64 lower_log = upper ? log1p(-exp(l)) : l;
  // Start: the first term next to 0, otherwise the chi-square of the same mean and variance (Patnaik, Biometrika 36,
  // 1949)
  f64 x = a > 0 ? 2 * exp((lower_log + mean + lgamma_1p(a)) / a) : infinity_f64();
  if (!(x * (1 + mean / (a + 1)) < 0.2 * (a + 1))) {
    f64 s = df + 2 * ncp, t = df + ncp;
    x = s / t * 2 * gamma_quantile(0.5 * t / s * t, l, upper);
  }
  f64 low = 0, high = infinity_f64(), error, bend;
  bool done = false;
  for (int k = 0; k < 200 && !done && x > 1e-300 && is_finite_f64(x); k++) {
    Tail t = noncentral_chisq_tail(x, df, ncp, bend);
    f64 step = quantile_step(t, upper, l, bend, error, done);
    if (error == 0 || step != step) break;
    x = moved(x, step, error, done, upper, low, high);
  }
  return x;
}

// ---- beta and F: functions of x and y = 1 - x, on the scale of logit x ---------------------------------------------
VG_CALL Tail noncentral_beta_tail(f64 a, f64 b, f64 ncp, f64 x, f64 y, f64& bend) {
  BetaFamily of = {a, b, x, y};
  if (x < MOST_SMALL) {
    Tail first = {of.log_mass(0.0) - 0.5 * ncp, 1, a, false};
    bend = a;
    return first;
  }
  return smaller_mixture(of, 0.5 * ncp, b * x >= (a + 0.5 * ncp) * y, bend);
}
VG_CALL f64 noncentral_beta_probability(f64 a, f64 b, f64 ncp, f64 x, f64 y, bool upper, bool as_log) {
  f64 bend;
  if (x <= 0) return p_left(upper, as_log);
  if (y <= 0) return p_right(upper, as_log);
  return tail_probability(noncentral_beta_tail(a, b, ncp, x, y, bend), upper, as_log);
}
// The density of logit x: the returned sum times exp(l)
VG_CALL f64 noncentral_beta_density(f64 a, f64 b, f64 ncp, f64 x, f64 y, f64& l) {
  BetaFamily of = {a, b, x, y};
  return mixture_density(of, 0.5 * ncp, 0.0, l);
}
// x / y for the x whose tail has the logarithm l, -Inf < l < 0
VG_CALL f64 noncentral_beta_quantile(f64 a, f64 b, f64 ncp, f64 l, bool upper) {
  smaller_tail(l, upper);
  f64 mean = 0.5 * ncp, lower_log = upper ? log1p(-exp(l)) : l;
  f64 log_b = lgamma_1p(a) + lgamma_1p(b) - lgamma_1p(a + b) + log((a + b) / a / b);
  f64 near = (lower_log + mean + log(a) + log_b) / a, r;
  if (near < -0.7 && exp(near) * (a + b) * (1 + mean / (a + 1)) < 0.3 * (a + 1)) r = exp(near) / (-expm1(near));
  else {
    f64 s = a + ncp, t = a + mean;
    r = s / t * beta_quantile(t / s * t, b, l, upper);
  }
  f64 low = 0, high = infinity_f64(), error, bend;
  bool done = false;
  for (int k = 0; k < 300 && !done; k++) {
    if (!(r > 0 && is_finite_f64(r))) break;
    f64 x = r > 1 ? 1 / (1 + 1 / r) : r / (1 + r), y = 1 / (1 + r);
    if (!(x > 1e-300 && y > 1e-300)) break;
    Tail t = noncentral_beta_tail(a, b, ncp, x, y, bend);
    f64 step = quantile_step(t, upper, l, bend, error, done);
    if (error == 0 || step != step) break;
    r = moved(r, step, error, done, upper, low, high);
  }
  return r;
}
VG_CALL f64 d_beta_ncp(f64 x, f64 a, f64 b, f64 ncp, bool as_log, u32& w) {
  ANY_NAN4(x, a, b, ncp);
  if (is_wrong_ncp(ncp) || a <= 0 || b <= 0 || !is_finite_f64(a) || !is_finite_f64(b)) return nan_noted(w);
  if (x < 0 || x > 1) return nothing(as_log);
  if (ncp == 0) return d_beta(x, a, b, as_log, w);
  if (x == 0) return a > 1 ? nothing(as_log) : a < 1 ? infinity_f64() : unlogged(-0.5 * ncp + log(b), as_log);
  // for b = 1 the density at 1 is the mean shape, E(a + j)
  if (x == 1) return b > 1 ? nothing(as_log) : b < 1 ? infinity_f64() : logged(a + 0.5 * ncp, as_log);
  f64 l, y = 0.5 - x + 0.5, sum = noncentral_beta_density(a, b, ncp, x, y, l);
  return as_log || x < 1e-100 ? unlogged(l + log(sum) - log(x) - log1p(-x), as_log) : exp(l) * sum / (x * y);
}
VG_CALL f64 p_beta_ncp(f64 x, f64 a, f64 b, f64 ncp, bool upper, bool as_log, u32& w) {
  ANY_NAN4(x, a, b, ncp);
  if (x <= 0) return p_left(upper, as_log);
  if (x >= 1) return p_right(upper, as_log);
  if (is_wrong_ncp(ncp) || a <= 0 || b <= 0 || !is_finite_f64(a) || !is_finite_f64(b)) return nan_noted(w);
  if (ncp == 0) return p_beta(x, a, b, upper, as_log, w);
  return noncentral_beta_probability(a, b, ncp, x, 0.5 - x + 0.5, upper, as_log);
}
VG_CALL f64 q_beta_ncp(f64 p, f64 a, f64 b, f64 ncp, bool upper, bool as_log, u32& w) {
  ANY_NAN4(p, a, b, ncp);
  if (!is_finite_f64(a) || ncp < 0 || a <= 0 || b <= 0 || is_no_probability(p, as_log)) return nan_noted(w);
  f64 out;
  if (q_end(p, 0.0, 1.0, upper, as_log, out)) return out;
  if (!is_finite_f64(ncp) || !is_finite_f64(b)) return nan_noted(w);
  if (ncp == 0) return q_beta(p, a, b, upper, as_log, w);
  f64 r = noncentral_beta_quantile(a, b, ncp, as_log ? p : log(p), upper);
  return r > 1 ? 1 / (1 + 1 / r) : r / (1 + r);
}

VG_CALL f64 d_f_ncp(f64 x, f64 df1, f64 df2, f64 ncp, bool as_log, u32& w) {
  ANY_NAN4(x, df1, df2, ncp);
  if (df1 <= 0 || df2 <= 0 || ncp < 0) return nan_noted(w);
  if (x < 0) return nothing(as_log);
  if (!is_finite_f64(ncp)) return nan_noted(w);
  if (!is_finite_f64(df1) && !is_finite_f64(df2)) return x == 1 ? infinity_f64() : nothing(as_log);
  if (!is_finite_f64(df2)) {
    f64 d = d_chisq_ncp(x * df1, df1, ncp, as_log, w);
    return as_log ? d + log(df1) : d * df1;
  }
  // for very large df1 the numerator is the constant 1 + ncp / df1
  if (df1 > 1e14 && ncp < 1e7) {
    f64 d = d_gamma(1 / x / (1 + ncp / df1), 0.5 * df2, 2 / df2, as_log, w);
    return as_log ? d - 2 * log(x) - log1p(ncp / df1) : d / (x * x) / (1 + ncp / df1);
  }
  if (!is_finite_f64(df1)) return nan_noted(w);
  if (ncp == 0) return d_f(x, df1, df2, as_log, w);
  if (!is_finite_f64(x)) return nothing(as_log);
  if (x == 0) return df1 > 2 ? nothing(as_log) : df1 < 2 ? infinity_f64() : unlogged(-0.5 * ncp, as_log);
  f64 r = df1 / df2 * x, y = 1 / (1 + r), l;
  if (y == 0) return nothing(as_log);
  f64 sum = noncentral_beta_density(0.5 * df1, 0.5 * df2, ncp, r > 1 ? 1 / (1 + 1 / r) : r * y, y, l);
  return as_log || x < 1e-100 ? unlogged(l + log(sum) - log(x), as_log) : exp(l) * sum / x;
}
VG_CALL f64 p_f_ncp(f64 x, f64 df1, f64 df2, f64 ncp, bool upper, bool as_log, u32& w) {
  ANY_NAN4(x, df1, df2, ncp);
  if (df1 <= 0 || df2 <= 0 || is_wrong_ncp(ncp) || (!is_finite_f64(df1) && !is_finite_f64(df2))) return nan_noted(w);
  if (x <= 0) return p_left(upper, as_log);
  if (!is_finite_f64(x)) return p_right(upper, as_log);
  if (df2 > 1e8) return p_chisq_ncp(x * df1, df1, ncp, upper, as_log, w);
  if (!is_finite_f64(df1)) return nan_noted(w);
  if (ncp == 0) return p_f(x, df1, df2, upper, as_log, w);
  f64 r = df1 / df2 * x, y = 1 / (1 + r);
  return noncentral_beta_probability(0.5 * df1, 0.5 * df2, ncp, r > 1 ? 1 / (1 + 1 / r) : r * y, y, upper, as_log);
}
VG_CALL f64 q_f_ncp(f64 p, f64 df1, f64 df2, f64 ncp, bool upper, bool as_log, u32& w) {
  ANY_NAN4(p, df1, df2, ncp);
  if (df1 <= 0 || df2 <= 0 || is_wrong_ncp(ncp) || (!is_finite_f64(df1) && !is_finite_f64(df2))) return nan_noted(w);
  if (is_no_probability(p, as_log)) return nan_noted(w);
  f64 out;
  if (q_end(p, 0.0, infinity_f64(), upper, as_log, out)) return out;
  if (df2 > 1e8) return q_chisq_ncp(p, df1, ncp, upper, as_log, w) / df1;
  if (!is_finite_f64(df1)) return nan_noted(w);
  if (ncp == 0) return q_f(p, df1, df2, upper, as_log, w);
  return noncentral_beta_quantile(0.5 * df1, 0.5 * df2, ncp, as_log ? p : log(p), upper) * (df2 / df1);
}
