// Non-central t. Sources: noncentral.h.
#pragma once

// log Phi(z) and its first two derivatives
VG_CALL f64 log_normal_tail(f64 z, f64& rate, f64& bend) {
  f64 l = pnorm_standard_log(z);
  rate = z < -0.7 ? 0.398942280401432677940 / pnorm_scaled(-z) : exp(-0.5 * z * z - LOG_SQRT_2PI - l);
  bend = -rate * (z + rate);
  return l;
}
// The log density of log s, for s = chi_n / sqrt(n), minus that at s = 1
VG_FN f64 chi_weight(f64 n, f64 log_s) {
  f64 v = 2 * log_s;
  return -0.5 * n * (fabs(v) < 0.5 ? exp_rest(v) : expm1(v) - v);
}
// For s = chi_n / sqrt(n), the density of log s is n times the Poisson mass of n/2 at its mean, times exp(n (log s -
// (s^2 - 1) / 2)). Integrates that density times Phi(delta - t s), or if `density` times s and the normal density at t
// s - delta; t > 0. The result is the returned sum times exp(l).
VG_CALL f64 scaled_normal_integral(f64 t, f64 n, f64 delta, bool density, f64& l) {
  // The s of the largest term, whose logarithm is concave in s: the root of s^2 (n + t^2) - t s delta = n + 1, and for
  // the normal tail by Newton's method from that of n, as its rate of decrease is about its argument.
  f64 m = density ? n + 1 : n, root, low = 0, high = infinity_f64(), curve = 0, top = 0;
  if (t > 1) root = t * sqrt(delta * delta + 4 * m * (1 + n / t / t));
  else root = sqrt(t * t * delta * delta + 4 * m * (n + t * t));
  f64 s = delta < 0 ? 2 * m / (root - t * delta) : 0.5 * (root + t * delta) / (n + t * t);
  for (int k = 0; k < 100; k++) {
    f64 z = delta - t * s, rate, bend, slope;
    if (density) {
      top = -0.5 * z * z + log(s);
      slope = t * z + 1 / s;
      curve = -t * t - 1 / (s * s);
    } else {
      top = log_normal_tail(z, rate, bend);
      slope = -t * rate;
      curve = t * t * bend;
    }
    top += chi_weight(n, log(s));
    slope += n * (1 / s - s);
    curve -= n * (1 / (s * s) + 1);
    if (slope > 0) low = s; else high = s;
    f64 next = s - slope / curve;
    if (!(next > low && next < high)) next = high < infinity_f64() ? 0.5 * (low + high) : 2 * s;
    bool done = fabs(next - s) < 1e-3 / sqrt(-curve);
    s = next;
    if (done) break;
  }
  // Substitution: log s minus that of the largest term is 2 width v. For small n, where terms go to 0 as slowly as s^n,
  // it is width (v + 1 - exp(-v)), which is double-exponential to the left.
  bool many = n > 10;
  f64 width = fmin(0.5 / (s * sqrt(-curve)), 0.4), step = many ? 0.5 : 0.25, sum = 0, centre = log(s);
  for (int side = 0; side < 2; side++) {
    for (int k = side; k < 2000; k++) {
      f64 v = (side ? -step : step) * k, e = many ? 1 : exp(-v);
      f64 u = centre + width * (many ? 2 * v : v + 1 - e), z = delta - t * exp(u);
      f64 term = density ? -0.5 * z * z + u : pnorm_standard_log(z);
      term = exp(term + chi_weight(n, u) - top) * (1 + e);
      sum += term;
      if (!(term > 1e-18 * sum)) break;
    }
  }
  l = top + log_poisson_mass(0.5 * n, 0.5 * n) + log(n * width * step);
  return sum;
}

// A tail for t > 0, with its slope on the scale of log t: by mixtures for delta >= 0, else the upper tail by the
// integral
VG_CALL Tail noncentral_t_tail(f64 t, f64 n, f64 delta, bool upper) {
  Tail out = {0, 0, 0, upper};
  f64 beyond, q = t_ratio(t, n, beyond), s = q * q;
  if (delta < 0) {
    if (beyond != 0) t = q * sqrt(n);
    f64 l, d = scaled_normal_integral(t, n, delta, true, l);
    out.factor = scaled_normal_integral(t, n, delta, false, out.log);
    out.slope = t * d * exp(l - LOG_SQRT_2PI - out.log);
    out.log += beyond;
    out.upper = true;
    return out;
  }
  BetaFamily of = {0.5, 0.5 * n, s > 1 ? 1 / (1 + 1 / s) : s / (1 + s), 1 / (1 + s)};
  f64 mean = 0.5 * delta * delta;
  MixtureTail whole = mixture_tail(of, mean, 0.0, upper), half = mixture_tail(of, mean, 0.5, upper);
  out.log = fmax(whole.log, half.log);
  f64 a = exp(whole.log - out.log), b = exp(half.log - out.log);
  out.factor = 0.5 * (a * whole.factor + b * half.factor);
  out.slope = a * whole.slope + b * half.slope;
  if (upper) out.log += beyond;
  else out.factor += exp(pnorm_standard_log(-delta) - out.log);
  return out;
}
VG_CALL f64 d_t_ncp(f64 t, f64 n, f64 delta, bool as_log, u32& w) {
  ANY_NAN3(t, n, delta);
  if (n <= 0) return nan_noted(w);
  if (!is_finite_f64(t)) return nothing(as_log);
  if (n > 1e8) return as_log ? r_dnorm_log(t, delta, 1.0, w) : r_dnorm(t, delta, 1.0, w);
  if (delta == 0 || !is_finite_f64(delta)) {
    return delta == 0 ? d_t(t, n, as_log, w) : nothing(as_log);
  }
  if (t < 0) { t = -t; delta = -delta; }
  f64 l, sum, beyond, q = t_ratio(t, n, beyond), s = q * q;
  if (s < 1e-300) return unlogged(d_t(0.0, n, true, w) - 0.5 * delta * delta, as_log);
  if (delta < 0) {
    f64 at = beyond == 0 ? t : q * sqrt(n);
    sum = scaled_normal_integral(at, n, delta, true, l) * (at / t);
    l += beyond - LOG_SQRT_2PI;
    return as_log ? l + log(sum) : exp(l) * sum;
  }
  BetaFamily of = {0.5, 0.5 * n, s > 1 ? 1 / (1 + 1 / s) : s / (1 + s), 1 / (1 + s)};
  f64 mean = 0.5 * delta * delta, m;
  sum = mixture_density(of, mean, 0.0, l);
  f64 other = mixture_density(of, mean, 0.5, m);
  sum += other * exp(m - l);
  l += beyond;
  return as_log ? l + log(sum) - log(t) : exp(l) * sum / t;
}
VG_CALL f64 p_t_ncp(f64 t, f64 n, f64 delta, bool upper, bool as_log, u32& w) {
  ANY_NAN3(t, n, delta);
  if (n <= 0) return nan_noted(w);
  if (delta == 0) return p_t(t, n, upper, as_log, w);
  if (!is_finite_f64(t)) return t < 0 ? p_left(upper, as_log) : p_right(upper, as_log);
  if (!is_finite_f64(delta)) return delta > 0 ? p_left(upper, as_log) : p_right(upper, as_log);
  if (t < 0) { t = -t; delta = -delta; upper = !upper; }
  f64 z = upper ? delta - t : t - delta;
  if (!is_finite_f64(n) || t * t < 1e-300 * n) return as_log ? pnorm_standard_log(z) : pnorm_standard(z);
  return tail_probability(noncentral_t_tail(t, n, delta, t >= delta), upper, as_log);
}
VG_CALL f64 q_t_ncp(f64 p, f64 n, f64 delta, bool upper, bool as_log, u32& w) {
  ANY_NAN3(p, n, delta);
  if (n <= 0 || is_no_probability(p, as_log)) return nan_noted(w);
  if (delta == 0) return q_t(p, n, upper, as_log, w);
  f64 out;
  if (q_end(p, -infinity_f64(), infinity_f64(), upper, as_log, out)) return out;
  if (!is_finite_f64(delta)) return nan_noted(w);
  f64 l = as_log ? p : log(p);
  smaller_tail(l, upper);
  f64 z = qnorm_standard_log(l);
  if (upper) z = -z;
  if (!is_finite_f64(n)) return delta + z;
  // The tail beyond 0 decides the sign of the quantile; a negative one is found by reflection.
  bool negative = upper ? l > pnorm_standard_log(delta) : l < pnorm_standard_log(-delta);
  if (negative) { delta = -delta; z = -z; upper = !upper; }
  // Start: the normal distribution of T - delta with the spread of Johnson and Welch (Biometrika 31, 1940)
  f64 d = 1 - z * z / (2 * n), v = 1 + (delta * delta - z * z) / (2 * n);
  f64 t = fmax(delta, 0.0);
  if (d > 0.2 && v > 0) t = (delta + z * sqrt(v)) / d;
  else if (upper) t = fmin(t + fabs(q_t(l, n, true, true, w)), 1e150);
  if (!(t > 1e-3)) t = 1e-3 + fmax(0.0, 0.1 * delta);
  f64 low = 0, high = infinity_f64();
  bool done = false;
  for (int k = 0; k < 200 && !done && t > 1e-150 && is_finite_f64(t); k++) {
    // Newton's step for the logarithm of the tail on the scale of asinh(t)
    Tail tail = noncentral_t_tail(t, n, delta, upper);
    f64 error = tail.log + log(tail.factor) - l, root = sqrt(1 + 1 / (t * t));
    f64 rate = tail.slope / tail.factor * root;
    if (error == 0 || rate != rate) break;
    f64 step = (upper ? error : -error) / rate;
    if ((error < 0) != upper) low = t; else high = t;
    f64 next = fabs(step) < 1e-3 ? t + step * t * root * (1 + 0.5 * step / root) : sinh(asinh(t) + step);
    done = fabs(step) * (1 + fabs(rate)) < 1e-9 * fmin(1.0, t);
    if (!(next > low && next < high) && !done) {
      next = high < infinity_f64() ? (low > 0 ? sqrt(low) * sqrt(high) : 0.125 * high) : 8 * t + 1;
    }
    t = next;
  }
  return negative ? -t : t;
}
