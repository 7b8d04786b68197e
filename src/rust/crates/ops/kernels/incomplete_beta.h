// The regularised incomplete beta function, its logarithm, and its inverse.
//
// Sources: DiDonato and Morris (ACM TOMS 18, 1992): the continued fraction (their 9.2) and the power series; for both
// parameters large the integral over logit x, by Gauss and Legendre's rule, after the idea of Gil, Segura and Temme
// ("Numerical Methods for Special Functions", 2007, chapter 5); the leading factor by deviances, after Loader (2000).
// x comes with y = 1 - x, and the quantile is x / y, so that neither end loses digits.
#pragma once

// Gauss and Legendre's rule on [0, 1]
VG_TABLE f64 LEGENDRE_NODES[] = {
    0.00240639000148932, 0.012635722014345251, 0.030862723998633622, 0.056792236497799485, 0.08999900701304854,
    0.12993790421072282, 0.17595317403151223, 0.22728926430558022, 0.2831032461869774, 0.3424786601519183,
    0.40444056626319186, 0.4679715535686972, 0.5320284464313028, 0.5955594337368082, 0.6575213398480817,
    0.7168967538130225, 0.7727107356944197, 0.8240468259684878, 0.8700620957892772, 0.9100009929869515,
    0.9432077635022005, 0.9691372760013663, 0.9873642779856547, 0.9975936099985107};
VG_TABLE f64 LEGENDRE_WEIGHTS[] = {
    0.0061706148999936, 0.014265694314466832, 0.022138719408709904, 0.02964929245771839, 0.03667324070554015,
    0.04309508076597664, 0.04880932605205694, 0.05372213505798282, 0.0577528340268628, 0.060835236463901696,
    0.06291872817341415, 0.06396909767337608, 0.06396909767337608, 0.06291872817341415, 0.060835236463901696,
    0.0577528340268628, 0.05372213505798282, 0.04880932605205694, 0.04309508076597664, 0.03667324070554015,
    0.02964929245771839, 0.022138719408709904, 0.014265694314466832, 0.0061706148999936};

// log(x^a y^b / B(a, b)), which is the density of logit x
VG_CALL f64 log_beta_density(f64 a, f64 b, f64 x, f64 y) {
  if (a > b) { f64 t = a; a = b; b = t; t = x; x = y; y = t; }
  f64 s = a + b, d = a * y - b * x;  // d = y s - b = a - x s
  if (a >= 10) {
    f64 ua = -d / a, ub = d / b;
    f64 da = ua > -0.4 && ua < 0.5 ? -a * log1p_rest(ua) : a * log(a / (s * x)) - d;
    f64 db = ub > -0.4 && ub < 0.5 ? -b * log1p_rest(ub) : b * log(b / (s * y)) + d;
    return -da - db + (stirling_rest(s) - stirling_rest(a) - stirling_rest(b)) +
           0.5 * (log(a) + log1p(-a / s)) - LOG_SQRT_2PI;
  }
  if (b >= 10) {
    f64 u = d / b, far = u > -0.5 ? b * log1p(u) : b * log(y * (s / b));
    return a * log(x * s) - a - lgamma_1p(a) + log(a) + (stirling_rest(s) - stirling_rest(b)) + far +
           0.5 * log1p(-a / s);
  }
  f64 lx = x < 0.5 ? log(x) : log1p(-y), ly = y < 0.5 ? log(y) : log1p(-x);
  // a b / (s B) is the quotient of the three gammas of 1 + a, 1 + b, 1 + s
  return a * lx + b * ly + log(a / s * b * (gamma_near(1 + s) / (gamma_near(1 + a) * gamma_near(1 + b))));
}

// ---- probabilities: I_x(a, b) as factor * x^a y^b / B(a, b), for x not above the mean ------------------------
VG_CALL f64 beta_series(f64 a, f64 b, f64 x) {
  f64 term = 1, sum = 1, s = a + b;
  for (f64 n = 0; term > 1e-17 * sum; n += 1) { term *= (s + n) / (a + 1 + n) * x; sum += term; }
  return sum / a;
}
VG_CALL f64 beta_fraction(f64 a, f64 b, f64 x, f64 y) {
  f64 lambda = a * y - b * x, s = a + b, inverse = 1 / (a + 1);
  f64 p0 = 0, q0 = 1, p1 = 1, ratio = 1 / (a * inverse * (lambda + 1)), q1 = 1 / ratio;
  for (f64 n = 1; n < 5000; n += 1) {
    f64 t = n * (b - n) * x * inverse, alpha = (a + n - 1) * (s + n - 1) * inverse * x * t;
    inverse = 1 / (a + 2 * n + 1);
    f64 beta = n + t + (a + n) * inverse * (lambda + 1 + n * (1 + y));
    f64 q = 1 / (beta * q1 + alpha * q0), last = ratio;
    ratio = (beta * p1 + alpha * p0) * q;
    p0 = p1 * q;
    q0 = q1 * q;
    p1 = ratio;
    q1 = 1;
    if (fabs(ratio - last) <= 3e-16 * ratio) break;
  }
  return ratio;
}
// (exp(v) - 1 - v) / v^2
VG_TABLE f64 EXP_REST[] = {
    0.5, 0.16666666666666666, 0.041666666666666664, 0.008333333333333333, 0.001388888888888889,
    0.0001984126984126984, 2.48015873015873e-05, 2.7557319223985893e-06, 2.755731922398589e-07,
    2.505210838544172e-08, 2.08767569878681e-09, 1.6059043836821613e-10, 1.1470745597729725e-11};
VG_FN f64 exp_rest(f64 v) { return v * v * polynomial(EXP_REST, v); }  // |v| < 0.6
// The integral over v >= 0 of the density at logit x - v, relative to that at logit x
VG_CALL f64 beta_integral(f64 a, f64 b, f64 x, f64 y) {
  f64 slope = a * y - b * x, s = a + b, bend = s * x * y, sum = 0;
  f64 width = 88 / (slope + sqrt(slope * slope + 80 * bend));
  f64 small = x < y ? x : y, side = x < y ? -width : width;
  for (int k = 0; k < 24; k++) {
    f64 v = side * LEGENDRE_NODES[k], r = exp_rest(v), h = log1p_rest(small * (v + r)) + small * r;
    sum += LEGENDRE_WEIGHTS[k] * exp(-slope * width * LEGENDRE_NODES[k] - s * h);
  }
  return sum * width;
}
// lgamma(b + a) - lgamma(b) for a < 0.01, or b > 12 and a <= 1, by Stirling's series or Gauss and Legendre's rule of
// three points on digamma
VG_CALL f64 lgamma_step(f64 b, f64 a) {
  if (a > 0.1 && b > 12) {
    f64 rest = stirling_rest(a + b) - stirling_rest(b);
    return (b - 0.5) * log1p(a / b) + a * (log(a + b) - 1) + rest;
  }
  f64 below = 0;
  if (b < 1) { below = log1p(a / b); b += 1; }
  const f64 d = 0.38729833462074168852;
  f64 ends = digamma_positive(b + a * (0.5 - d)) + digamma_positive(b + a * (0.5 + d));
  return a * (5 * ends + 8 * digamma_positive(b + 0.5 * a)) / 18 - below;
}
// 1 - I_x where most of the distribution is below x or near it, for a < 0.01, or a <= 1 and b > 12, as long as b x < 2
VG_CALL Tail beta_tail_small(f64 a, f64 b, f64 x) {
  f64 power = a * log(x) - lgamma_1p(a) + lgamma_step(b, a), lead = exp(power), term = 1, rest = 0;
  for (f64 n = 1; fabs(term) > 1e-18 && n < 1000; n += 1) { term *= (n - b) / n * x; rest += term / (a + n); }
  rest *= a;
  Tail t = {0.0, -expm1(power) - lead * rest, a * lead * exp(b * log1p(-x)), true};
  return t;
}
VG_CALL Tail beta_tail_lower(f64 a, f64 b, f64 x, f64 y) {
  if (a < 0.01 && b > a && x <= 0.7) {
    Tail t = beta_tail_small(a, b, x);
    if (t.factor < 0.5) return t;
  }
  if (a * y <= 1.5 && y <= 0.7 && (b <= 0.01 || (b <= 1 && a > 12))) {
    Tail t = beta_tail_small(b, a, y);
    t.upper = false;
    return t;
  }
  f64 factor, slope = a * y - b * x;
  if (x * (a + b) <= 0.15 * (a + 1) && x < 0.15) factor = beta_series(a, b, x);
  else if (fmin(a, b) < 500 || slope * slope > 40 * (a + b) * x * y) factor = beta_fraction(a, b, x, y);
  else factor = beta_integral(a, b, x, y);
  Tail t = {log_beta_density(a, b, x, y), factor, 1.0, false};
  return t;
}
// For finite a, b, x, y > 0, x + y = 1. The slope is on the scale of logit x.
VG_CALL Tail beta_tail(f64 a, f64 b, f64 x, f64 y) {
  if (a * y >= b * x) return beta_tail_lower(a, b, x, y);
  Tail t = beta_tail_lower(b, a, y, x);
  t.upper = !t.upper;
  return t;
}

// ---- quantiles -----------------------------------------------------------------------------------------------
// x / y for the x whose tail has the logarithm l, -Inf < l < 0
VG_CALL f64 beta_quantile(f64 a, f64 b, f64 l, bool upper) {
  smaller_tail(l, upper);
  f64 lower_log = upper ? log1p(-exp(l)) : l, upper_log = upper ? l : log1p(-exp(l));
  // The tails next to the ends are about x^a / (a B) and y^b / (b B).
  f64 log_b = lgamma_1p(a) + lgamma_1p(b) - lgamma_1p(a + b) + log((a + b) / a / b);
  f64 near = (lower_log + log(a) + log_b) / a, far = (upper_log + log(b) + log_b) / b, mean = a / b, r;
  if (near < -0.7 && exp(near) * (a + b) < 0.3 * (a + 1)) r = exp(near) / (-expm1(near));
  else if (far < -0.7 && exp(far) * (a + b) < 0.3 * (b + 1)) r = -expm1(far) / exp(far);
  else if (a >= 1 && b >= 1) {
    // Abramowitz and Stegun 26.5.22
    f64 z = qnorm_standard_log(l), ia = 1 / (2 * a - 1), ib = 1 / (2 * b - 1), h = 2 / (ia + ib);
    if (!upper) z = -z;
    f64 c = (z * z - 3) / 6;
    f64 w = z * sqrt(h + c > 0.1 * h ? h + c : h) / h - (ib - ia) * (c + 0.83333333333333333 - 2 / (3 * h));
    r = mean * exp(-2 * w);
  } else {
    r = near < far ? exp(near) / (-expm1(fmin(near, -0.1))) : -expm1(fmin(far, -0.1)) / exp(far);
    r = fmin(fmax(r, 1e-3 * mean), 1e3 * mean);
  }
  f64 low = 0, high = infinity_f64(), error;
  bool done = false;
  for (int k = 0; k < 300 && !done; k++) {
    if (!(r > 0 && is_finite_f64(r))) break;
    f64 x = r > 1 ? 1 / (1 + 1 / r) : r / (1 + r), y = 1 / (1 + r);
    if (!(x > 1e-300 && y > 1e-300)) break;
    f64 step = quantile_step(beta_tail(a, b, x, y), upper, l, a * y - b * x, error, done);
    if (error == 0 || step != step) break;
    r = moved(r, step, error, done, upper, low, high);
  }
  return r;
}
