// Tukey's studentized range: the range of k normals divided by an independent s = chi_df / sqrt(df), the largest of
// several.
//
// The range's distribution is an integral over its least or middle value, that of the quotient one over log s (Hartley,
// Biometrika 32, 1942; Copenhaver and Holland, J. Stat. Comput. Simul. 30, 1988). Both use the trapezoidal rule, which
// converges exponentially for these integrands, the one over s after Takahasi and Mori's substitution (noncentral_t.h).
// Each tail is an integral of positive terms.
#pragma once

// Phi(x + h) - Phi(x - h) for x >= 0
VG_CALL f64 normal_between(f64 x, f64 h) {
  if (h < 0.3) {
    // Taylor's series by Hermite polynomials
    f64 he = 1, odd = x, power = 1, sum = 1;
    for (f64 n = 2; n < 60; n += 2) {
      he = x * odd - (n - 1) * he;
      odd = x * he - n * odd;
      power *= h * h / (n * (n + 1));
      f64 term = power * he;
      sum += term;
      if (power * (fabs(he) + fabs(odd)) < 1e-16 * sum) break;
    }
    return 2 * h * 0.398942280401432677940 * exp(-0.5 * x * x) * sum;
  }
  return pnorm_standard(h - x) - pnorm_standard(-h - x);
}
// log of normal_between(), with small relative error, since it is multiplied by the number of means
VG_CALL f64 log_normal_between(f64 x, f64 h) {
  if (h - x < 0.7) return log(normal_between(x, h));
  return log1p(-(pnorm_standard(x - h) + pnorm_standard(-h - x)));
}
// P(range <= w) of k normals: an integral over the middle x of an interval of width w that begins at the least value
VG_CALL Tail range_lower(f64 w, f64 k) {
  f64 h = 0.5 * w, low = 0, high = h, x = h / k, between = 1, curve = -1;
  const f64 root = 0.398942280401432677940;
  for (int turn = 0; turn < 60; turn++) {
    f64 right = x + h, left = x - h, a = root * exp(-0.5 * right * right), b = root * exp(-0.5 * left * left);
    between = normal_between(x, h);
    f64 rate = (a - b) / between, slope = -left + (k - 1) * rate;
    curve = -1 + (k - 1) * ((left * b - right * a) / between - rate * rate);
    if (slope > 0) low = x; else high = x;
    f64 next = x - slope / curve;
    if (!(next > low && next < high)) next = 0.5 * (low + high);
    bool done = fabs(next - x) < 0.1 / sqrt(-curve);
    if (done) break;
    x = next;
  }
  f64 step = (k < 20 ? 0.5 : 0.33) / sqrt(-curve), sum = 1;
  f64 top = -0.5 * (x - h) * (x - h) + (k - 1) * log_normal_between(x, h);
  for (int side = 0; side < 2; side++) {
    for (f64 j = 1; j < 300; j += 1) {
      f64 v = x + (side ? -step : step) * j, left = v - h;
      f64 term = exp(-0.5 * left * left + (k - 1) * log_normal_between(fabs(v), h) - top);
      sum += term;
      if (!(term > 1e-16 * sum)) break;
    }
  }
  Tail t = {top, k * root * step * sum, 0, false};
  return t;
}
// The upper tail by the least value z: k phi(z) (Phi(-z)^(k - 1) - (Phi(-z) - Phi(-z - w))^(k - 1))
VG_CALL f64 range_upper_term(f64 z, f64 w, f64 k) {
  f64 all = pnorm_standard_log(-z), beyond = pnorm_standard_log(-z - w);
  f64 share = (k - 1) * log1p(-exp(beyond - all));
  f64 rest = share < -1e-12 ? log(-expm1(share)) : log(k - 1) + beyond - all;
  return -0.5 * z * z + (k - 1) * all + rest;
}
VG_CALL Tail range_upper(f64 w, f64 k) {
  // the least of k normals is about -least, with a deviation of 1 / least
  f64 least = -qnorm_standard(1 / k), z = -fmax(0.5 * w, least), top = range_upper_term(z, w, k), sum = 1;
  f64 step = 0.42 / fmax(1.0, least);
  for (int side = 0; side < 2; side++) {
    f64 last = 1;
    for (f64 j = 1; j < 300; j += 1) {
      f64 term = exp(range_upper_term(z + (side ? -step : step) * j, w, k) - top);
      sum += term;
      if (term < last && !(term > 1e-16 * sum)) break;
      last = term;
    }
  }
  Tail t = {top, k * 0.398942280401432677940 * step * sum, 0, true};
  return t;
}
// log P(the largest of `ranges` ranges <= w), or of its upper tail
VG_CALL f64 log_range(f64 w, f64 k, f64 ranges, bool upper) {
  if (!upper && w > 200) return 0.0;
  Tail t = upper ? range_upper(w, k) : range_lower(w, k);
  f64 l = fmin(0.0, t.log + log(t.factor));
  if (ranges == 1) return l;
  return upper ? log_1m_exp(ranges * log_1m_exp(l)) : ranges * l;
}
// log of a tail of the studentized range beyond q > 0
VG_CALL f64 log_tukey_tail(f64 q, f64 k, f64 df, f64 ranges, bool upper) {
  if (df > 1e30) return log_range(q, k, ranges, upper);
  f64 width = fmin(0.5 / sqrt(2 * df), 0.4);
  // Near the largest term: the range's tail is about exp(-w^2 / 4), and for a range below 1 a power.
  f64 centre = 0.5 * (upper ? -log1p(0.5 * q * q / df) : log1p((k - 1) / (df * (1 + q * q)))), stride = 4 * width;
  f64 top = chi_weight(df, centre) + log_range(q * exp(centre), k, ranges, upper);
  for (int turn = 0; turn < 200 && fabs(stride) >= width; turn++) {
    f64 at = centre + stride, term = chi_weight(df, at);
    // The range's factor is at most 1, so it is computed only if the rest exceeds `top`.
    if (term > top) term += log_range(q * exp(at), k, ranges, upper);
    if (term > top) { top = term; centre = at; stride *= 2; }
    else stride *= -0.5;
  }
  // For few degrees of freedom s goes to 0 slowly, and an upper tail needs the substitution; a lower tail does not. The
  // steps follow the range's distribution function too, which rises as Gumbel's.
  bool many = df > 10 || !upper;
  f64 step = df > 40 ? 0.65 : many ? 0.5 : 0.25, sum = many ? 1 : 2;
  step = fmin(step, (upper ? 0.2 : 0.16) / (1 + 3 * log(k) + 5 * log(ranges)) / width);
  if (!upper) step = fmin(step, 0.08 / width);
  for (int side = 0; side < 2; side++) {
    f64 last = sum;
    for (int j = 1; j < 2000; j++) {
      f64 v = (side ? -step : step) * j, e = many ? 0 : exp(-v), u = centre + width * (many ? 2 * v : v + 1 - e);
      f64 weight = chi_weight(df, u), term = 0;
      if (weight - top > -40) term = exp(weight + log_range(q * exp(u), k, ranges, upper) - top) * (1 + e);
      sum += term;
      if (term <= last && !(term > 1e-16 * sum)) break;
      last = term;
    }
  }
  return fmin(0.0, top + log_poisson_mass(0.5 * df, 0.5 * df) + log(df * width * step * (many ? 2 * sum : sum)));
}
VG_CALL f64 log_tukey(f64 q, f64 k, f64 df, f64 ranges, bool upper) {
  // Close to 1 the integrand has two scales; the smaller tail has only one. Which tail is smaller is guessed by the
  // mean range (Blom 1958), so that both are seldom needed.
  f64 all = k * ranges;
  bool first = q > 2 * qnorm_standard((all - 0.375) / (all + 0.25));
  f64 l = log_tukey_tail(q, k, df, ranges, first);
  if (l > -0.693147180559945309417) {
    first = !first;
    l = log_tukey_tail(q, k, df, ranges, first);
  }
  return first == upper ? l : log_1m_exp(l);
}
VG_FN bool is_no_range(f64 k, f64 df, f64 ranges) { return df < 2 || ranges < 1 || k < 2; }
VG_CALL f64 p_tukey(f64 q, f64 k, f64 df, f64 ranges, bool upper, bool as_log, u32& w) {
  ANY_NAN4(q, k, df, ranges);
  if (q <= 0) return p_left(upper, as_log);
  if (is_no_range(k, df, ranges)) return nan_noted(w);
  if (!is_finite_f64(q)) return p_right(upper, as_log);
  if (!is_finite_f64(k + ranges)) return p_left(upper, as_log);
  return unlogged(log_tukey(q, k, df, ranges, upper), as_log);
}
VG_CALL f64 q_tukey(f64 p, f64 k, f64 df, f64 ranges, bool upper, bool as_log, u32& w) {
  ANY_NAN4(p, k, df, ranges);
  if (is_no_range(k, df, ranges) || is_no_probability(p, as_log)) return nan_noted(w);
  f64 out;
  if (q_end(p, 0.0, infinity_f64(), upper, as_log, out)) return out;
  if (!is_finite_f64(k + ranges)) return nan_noted(w);
  f64 l = as_log ? p : log(p);
  smaller_tail(l, upper);
  // Start: every pair of values counts as one t, or for small ranges the leading power.
  f64 each = (upper ? l : log1p(-exp(l))) - log(ranges * k * (k - 1));
  f64 x = log(1.41421356237309504880 * fabs(q_t(each, df, true, true, w)));
  if (!upper) x = fmin(x, (l / ranges - 0.5 * log(k)) / (k - 1) + LOG_SQRT_2PI);
  // the secant method for the logarithm of the tail in log q, between bounds
  f64 low = -infinity_f64(), high = infinity_f64(), error = log_tukey(exp(x), k, df, ranges, upper) - l;
  f64 slope = upper ? -1 - 0.5 * exp(2 * x) / (1 + exp(2 * x) / (2 * df)) : ranges * (k - 1) / (1 + 0.2 * exp(2 * x));
  for (int turn = 0; turn < 60 && error != 0; turn++) {
    if ((error < 0) != upper) low = x; else high = x;
    f64 step = fmin(fmax(-error / slope, -1.0), 1.0), next = x + step;
    bool done = fabs(step) < 1e-9;
    if (!done && !(next > low && next < high)) {
      next = high == infinity_f64() ? x + 1 : low == -infinity_f64() ? x - 1 : 0.5 * (low + high);
    }
    step = next - x;
    x = next;
    if (done || step == 0) break;
    f64 then = error;
    error = log_tukey(exp(x), k, df, ranges, upper) - l;
    if (error != then) slope = (error - then) / step;
  }
  return exp(x);
}
