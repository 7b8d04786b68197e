// The regularised incomplete gamma functions P(a, x) and Q(a, x), their logarithms, and their inverses.
//
// Sources: the power series and the continued fraction in Gautschi's form (ACM TOMS 5, 1979); Q for small a and x by
// the series of Gil, Segura and Temme (SIAM J. Sci. Comput. 34, 2012); near x = a Temme's uniform expansion (SIAM J.
// Math. Anal. 10, 1979) with the coefficients' recursion of DiDonato and Morris (ACM TOMS 12, 1986), computed with
// fractions; the leading factor by its deviance, after Loader (2000). Quantiles by Halley's iteration on the logarithm
// of the smaller tail as a function of log x, which is concave.
#pragma once

// Qualifiers of a member function
#ifdef VG_DEVICE
#define VG_MEMBER __device__
#else
#define VG_MEMBER inline
#endif

// ---- pieces that densities share -----------------------------------------------------------------------
// (atanh(u) - u) / u^3 in u^2
VG_TABLE f64 ATANH_REST[] = {
    0.3333333333333333, 0.2, 0.14285714285714285, 0.1111111111111111, 0.09090909090909091, 0.07692307692307693,
    0.06666666666666667, 0.058823529411764705, 0.05263157894736842, 0.047619047619047616, 0.043478260869565216,
    0.04, 0.037037037037037035};
// log(1 + x) - x, without cancellation: 2 atanh(u) with u = x / (2 + x), and x = 2u / (1 - u)
VG_CALL f64 log1p_rest(f64 x) {
  if (!(x > -0.4 && x < 0.5)) return log1p(x) - x;
  f64 u = x / (2 + x), v = u * u;
  return u * (2 * v * polynomial(ATANH_REST, v) - x);
}
// x log(x / m) + m - x for x >= 10 (Loader's deviance)
VG_FN f64 loader_deviance(f64 x, f64 m) {
  f64 u = (m - x) / x;
  return u > -0.4 && u < 0.5 ? -x * log1p_rest(u) : x * log(x / m) + m - x;
}
// log gamma(1 + a), with small relative error near a = 0
VG_FN f64 lgamma_1p(f64 a) { return a < 0.5 ? a * polynomial(LGAMMA_2, a) - log1p(a) : lgamma_positive(1 + a); }
// log(1 - exp(l)), l <= 0
VG_FN f64 log_1m_exp(f64 l) { return l > -0.693147180559945309417 ? log(-expm1(l)) : log1p(-exp(l)); }
// log(x^a exp(-x) / gamma(a + 1)): the Poisson probability of a, which need not be whole
VG_CALL f64 log_poisson_mass(f64 a, f64 x) {
  if (a >= 10) return -stirling_rest(a) - loader_deviance(a, x) - 0.5 * log(6.28318530717958647693 * a);
  return (a == 0 ? 0.0 : a * log(x)) - x - lgamma_1p(a);
}

// The smaller tail of a distribution is `factor * exp(log)`. `slope * exp(log)` is the density on the scale on which
// the quantile is searched.
struct Tail { f64 log, factor, slope; bool upper; };

VG_FN f64 tail_probability(const Tail& t, bool upper, bool as_log) {
  if (t.upper == upper) return as_log ? t.log + log(t.factor) : exp(t.log) * t.factor;
  f64 v = exp(t.log) * t.factor;
  return as_log ? log1p(-v) : 0.5 - v + 0.5;
}

// ---- probabilities ---------------------------------------------------------------------------------------
// C_k(eta) of Temme's expansion, in powers of eta
VG_TABLE f64 TEMME[7][16] = {
    {-0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073,
     0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05, -2.185448510679992e-06,
     -1.85406221071516e-06, 8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
     1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10, -2.5514193994946248e-11},
    {-0.001851851851851852, -0.003472222222222222, 0.0026455026455026454, -0.0009902263374485596,
     0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05, 7.64916091608111e-06,
     -1.6120900894563446e-06, 4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08,
     1.1951628599778148e-08, -1.7543241719747647e-11},
    {0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049, 2.0093878600823047e-06,
     -0.0001073665322636516, 5.2923448829120125e-05, -1.2760635188618728e-05, 3.423578734096138e-08,
     1.3721957309062934e-06, -6.298992138380055e-07, 1.4280614206064242e-07, -2.0477098421990866e-10},
    {0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557, 0.00026772063206283885,
     -7.561801671883977e-05, -2.396505113867297e-07, 1.1082654115347302e-05, -5.6749528269915965e-06,
     1.4230900732435883e-06, -2.7861080291528143e-11},
    {-0.0008618882909167117, 0.0007840392217200666, -0.0002990724803031902, -1.4638452578843418e-06,
     6.641498215465122e-05, -3.968365047179435e-05, 1.1375726970678419e-05, 2.507497226237533e-10},
    {-0.00033679855336635813, -6.972813758365857e-05, 0.0002772753244959392, -0.00019932570516188847,
     6.797780477937208e-05, 1.419062920643967e-07},
    {0.0005313079364639922, -0.0005921664373536939, 0.0002708782096718045, 7.902353232660328e-07,
     -8.153969367561969e-05}};
VG_TABLE i32 TEMME_LENGTH[7] = {16, 14, 12, 10, 8, 6, 5};

// exp(y^2/2) Phi(-y), y >= 0
VG_FN f64 normal_tail_scaled(f64 y) {
  return y < 0.7 ? exp(0.5 * y * y) * (0.5 - pnorm_mid(y)) : pnorm_scaled(y);
}
// For a >= 25 and |x - a| <= 0.3 a
VG_CALL Tail gamma_tail_uniform(f64 a, f64 x) {
  f64 mu = (x - a) / a, h = -log1p_rest(mu), eta = sqrt(2 * h), root = sqrt(a), u = 1 / a, sum = 0;
  bool upper = x >= a;
  if (!upper) eta = -eta;
  for (int k = a > 1e4 ? 2 : 6; k >= 0; k--) {
    f64 c = 0;
    for (int n = TEMME_LENGTH[k] - 1; n >= 0; n--) c = c * eta + TEMME[k][n];
    sum = sum * u + c;
  }
  f64 scale = 0.398942280401432677940 / root;
  f64 factor = normal_tail_scaled(fabs(eta) * root) + (upper ? sum : -sum) * scale;
  Tail t = {-a * h, factor, a * scale * exp(-stirling_rest(a)), upper};
  return t;
}
// P by its series, whose terms are all positive
VG_CALL Tail gamma_tail_series(f64 a, f64 x) {
  f64 term = 1, sum = 1;
  for (f64 n = a + 1; term > 1e-17 * sum; n += 1) { term *= x / n; sum += term; }
  Tail t = {log_poisson_mass(a, x), sum, a, false};
  return t;
}
// Q by the continued fraction, x > a
VG_CALL Tail gamma_tail_fraction(f64 a, f64 x) {
  f64 p = 0, q = (x - 1 - a) * (x + 1 - a), r = 4 * (x + 1 - a), s = 1 - a, rho = 0, term = 1, sum = 1;
  for (int k = 0; k < 400 && fabs(term) > 1e-17 * sum; k++) {
    p += s;
    q += r;
    r += 8;
    s += 2;
    f64 tau = p * (1 + rho);
    rho = tau / (q - tau);
    term *= rho;
    sum += term;
  }
  Tail t = {log_poisson_mass(a, x), a / (x + 1 - a) * sum, a, true};
  return t;
}
// a < 1.5 and x < 1.5: P, or Q = (1 - x^a / gamma(1 + a)) + x^a / gamma(1 + a) (1 - a sum (-x)^n / ((a + n) n!))
VG_CALL Tail gamma_tail_small(f64 a, f64 x) {
  f64 power = a * log(x) - lgamma_1p(a), term = 1, rest = 0;
  f64 lead = exp(power);
  for (f64 n = 1; fabs(term) > 1e-18; n += 1) { term *= -x / n; rest += term / (a + n); }
  rest *= a;
  if (lead + lead * rest <= 0.6) { Tail t = {power, 1 + rest, a * exp(-x), false}; return t; }
  Tail t = {0.0, -expm1(power) - lead * rest, a * lead * exp(-x), true};
  return t;
}
// For finite a > 0 and x > 0. The slope is on the scale of log x.
VG_CALL Tail gamma_tail(f64 a, f64 x) {
  if (a >= 25 && fabs(x - a) <= 0.3 * a) return gamma_tail_uniform(a, x);
  if (a < 1.5 && x < 1.5) return gamma_tail_small(a, x);
  return x <= a ? gamma_tail_series(a, x) : gamma_tail_fraction(a, x);
}

// ---- quantiles ---------------------------------------------------------------------------------------------
// Replaces the tail with logarithm l, l <= 0, by the smaller tail.
VG_FN void smaller_tail(f64& l, bool& upper) {
  if (l > -0.693147180559945309417) { l = log(-expm1(l)); upper = !upper; }
}
// Halley's step for log F(t) = l, where F is the requested tail and `bend` the derivative of the log density with
// respect to t. `done` is set if the step is so small that the next one would change nothing.
VG_FN f64 quantile_step(const Tail& t, bool upper, f64 l, f64 bend, f64& error, bool& done) {
  f64 f, rate;
  if (t.upper == upper) {
    f = t.log + log(t.factor);
    rate = t.slope / t.factor;
  } else {
    f64 e = exp(t.log), v = e * t.factor;
    f = log1p(-v);
    rate = e * t.slope / (1 - v);
  }
  if (upper) rate = -rate;
  error = f - l;
  f64 step = -error / rate, damp = 1 - 0.5 * error * (bend - rate) / rate;
  if (damp > 0.5) step /= damp;
  f64 scale = fmax(1.0, fabs(rate) + fabs(bend));
  done = fabs(step) * scale < 2e-5;
  return step;
}
// Multiplies x by exp(step). Narrows the bounds by the sign of `error`, and keeps x between them unless the step is the
// last.
VG_FN f64 moved(f64 x, f64 step, f64 error, bool done, bool upper, f64& low, f64& high) {
  if ((error < 0) != upper) low = x; else high = x;
  f64 next = fabs(step) < 0.1 ? x + x * expm1(step) : x * exp(fmin(fmax(step, -300.0), 300.0));
  if (done || (next > low && next < high)) return next;
  if (low > 0 && high < infinity_f64()) return sqrt(low) * sqrt(high);
  return low > 0 ? low * 16 : high * 0.0625;
}
// The x whose tail has the logarithm l, -Inf < l < 0
VG_CALL f64 gamma_quantile(f64 a, f64 l, bool upper) {
  smaller_tail(l, upper);
  f64 lower_log = upper ? log1p(-exp(l)) : l;
  f64 x = exp((lower_log + lgamma_1p(a)) / a);  // P is about x^a / gamma(a + 1) for small x
  if (!(x < 0.1 * (a + 1))) {
    f64 z = qnorm_standard_log(l);
    f64 c = 1 / (9 * a), w = 1 - c + (upper ? -z : z) * sqrt(c);  // Wilson and Hilferty 1931
    if (w > 0.2) x = a * w * w * w;
    if (upper && a < 1 && log(a) - l > 1) x = log(a) - l;
  }
  if (x < 1e-300) return x;
  f64 low = 0, high = infinity_f64(), error;
  bool done = false;
  for (int k = 0; k < 200 && !done; k++) {
    f64 step = quantile_step(gamma_tail(a, x), upper, l, a - x, error, done);
    if (error == 0 || step != step) break;
    x = moved(x, step, error, done, upper, low, high);
    if (!(x > 0 && is_finite_f64(x))) break;
  }
  return x;
}
