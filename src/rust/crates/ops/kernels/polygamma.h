// psigamma(x, deriv): the derivatives of digamma.
//
// Sources: recurrence and asymptotic series (DLMF 5.15.5, 5.15.8); for x < 0 the series of pi cot(pi x) over all whole
// numbers (DLMF 4.22.3, 5.15.6), so that nothing cancels next to a pole.
#pragma once

// B_2k / (2k)!
VG_TABLE f64 BERNOULLI_RATIO[] = {
    0.08333333333333333, -0.001388888888888889, 3.306878306878307e-05, -8.267195767195768e-07, 2.08767569878681e-08,
    -5.284190138687493e-10, 1.3382536530684679e-11, -3.3896802963225827e-13, 8.586062056277845e-15,
    -2.174868698558062e-16, 5.5090028283602295e-18, -1.3954464685812522e-19};
// The largest derivative, as in base R
#define POLYGAMMA_LARGEST 100

// x^n for whole n, by multiplication if n is small
VG_FN f64 whole_power(f64 x, f64 n) {
  if (n > 8) return pow(x, n);
  f64 product = 1;
  for (i32 k = (i32)n; k; k >>= 1, x *= x)
    if (k & 1) product *= x;
  return product;
}

// |psigamma(x, n)| = n! times the sum over k of (x + k)^(-n - 1), for n from 1 to 100 and x > 0
VG_CALL f64 polygamma_size(f64 x, f64 n) {
  // In units of x^(-n - 1): terms up to n + 8, then the formula of Euler and Maclaurin
  f64 sum = 0, far = x;
  bool is_done = false;
  for (; far < n + 8 && !is_done; far += 1) {
    f64 term = far == x ? 1.0 : whole_power(x / far, n + 1);
    sum += term;
    is_done = term < 1e-18 * sum;
  }
  if (!is_done) {
    f64 u = 1 / far, v = u * u, product = 1, power = 1, rest = 1 / n + 0.5 * u;
    for (i32 k = 1; k <= 12; k++) {
      // (n + 1) (n + 2) ... (n + 2k - 1) / far^2k
      product *= k == 1 ? n + 1 : (n + 2 * k - 2) * (n + 2 * k - 1);
      power *= v;
      f64 term = BERNOULLI_RATIO[k - 1] * product * power;
      rest += term;
      if (fabs(term) < 1e-18 * rest) break;
    }
    sum += (far == x ? 1.0 : whole_power(x / far, n)) * x * rest;
  }
  f64 half = pow(x, -0.5 * n);  // its square may be out of range although the result is not
  return FACTORIAL[(i32)n] * half * (sum / x) * half;
}

VG_FN f64 polygamma(f64 x, f64 deriv, u32& w) {
  if (x != x || deriv != deriv) return nan_of(x, deriv);
  f64 n = rint(deriv);
  if (n < 0 || n > POLYGAMMA_LARGEST) return nan_noted(w);
  if (n == 0) return r_digamma(x, w);
  if (n == 1) return r_trigamma(x);
  bool is_even = !is_odd(n);
  if (x == rint(x) && x <= 0) return is_even ? nan_noted(w) : infinity_f64();
  if (!is_finite_f64(x)) return x > 0 ? 0.0 : is_even ? nan_noted(w) : x * -1;
  if (x > 0) return is_even ? -polygamma_size(x, n) : polygamma_size(x, n);
  f64 d = x - rint(x), above = d > 0 ? d : 1 + d, below = d > 0 ? 1 - d : -d;
  f64 r = polygamma_size(above, n);
  // For even n the first two terms cancel exactly at halves, before the rest is added.
  return polygamma_size(below, n) + (is_even ? -r : r) - polygamma_size(1 - x, n);
}
VG_FN f32 polygamma(f32 x, f32 deriv, u32& w) { return (f32)polygamma((f64)x, (f64)deriv, w); }
