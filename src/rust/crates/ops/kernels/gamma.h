// Gamma, beta, choose, digamma, trigamma, with R's limits, poles and warnings.
//
// Sources: reflection, recurrence and asymptotic series as in DLMF 5.5, 5.11, 5.12 and 5.15 (the same in
// Abramowitz and Stegun 1964, chapter 6; Bernardo 1976, AS 103, for digamma). Beta with a large argument
// takes the differences of Stirling's series as in Didonato and Morris, ACM TOMS 18 (1992).
#pragma once

// n!, correctly rounded
VG_TABLE f64 FACTORIAL[] = {
    1.0, 1.0, 2.0, 6.0, 24.0, 120.0, 720.0, 5040.0, 40320.0, 362880.0, 3628800.0, 39916800.0,
    479001600.0, 6227020800.0, 87178291200.0, 1307674368000.0, 20922789888000.0, 355687428096000.0,
    6402373705728000.0, 121645100408832000.0, 2432902008176640000.0, 5.109094217170944e+19,
    1.1240007277776077e+21, 2.585201673888498e+22, 6.204484017332394e+23, 1.5511210043330986e+25,
    4.0329146112660565e+26, 1.0888869450418352e+28, 3.0488834461171387e+29, 8.841761993739702e+30,
    2.6525285981219107e+32, 8.222838654177922e+33, 2.631308369336935e+35, 8.683317618811886e+36,
    2.9523279903960416e+38, 1.0333147966386145e+40, 3.7199332678990125e+41, 1.3763753091226346e+43,
    5.230226174666011e+44, 2.0397882081197444e+46, 8.159152832478977e+47, 3.345252661316381e+49,
    1.40500611775288e+51, 6.041526306337383e+52, 2.658271574788449e+54, 1.1962222086548019e+56,
    5.502622159812089e+57, 2.5862324151116818e+59, 1.2413915592536073e+61, 6.082818640342675e+62,
    3.0414093201713376e+64, 1.5511187532873822e+66, 8.065817517094388e+67, 4.2748832840600255e+69,
    2.308436973392414e+71, 1.2696403353658276e+73, 7.109985878048635e+74, 4.0526919504877214e+76,
    2.3505613312828785e+78, 1.3868311854568984e+80, 8.32098711274139e+81, 5.075802138772248e+83,
    3.146997326038794e+85, 1.98260831540444e+87, 1.2688693218588417e+89, 8.247650592082472e+90,
    5.443449390774431e+92, 3.647111091818868e+94, 2.4800355424368305e+96, 1.711224524281413e+98,
    1.1978571669969892e+100, 8.504785885678623e+101, 6.1234458376886085e+103, 4.4701154615126844e+105,
    3.307885441519386e+107, 2.48091408113954e+109, 1.8854947016660504e+111, 1.4518309202828587e+113,
    1.1324281178206297e+115, 8.946182130782976e+116, 7.156945704626381e+118, 5.797126020747368e+120,
    4.753643337012842e+122, 3.945523969720659e+124, 3.314240134565353e+126, 2.81710411438055e+128,
    2.4227095383672734e+130, 2.107757298379528e+132, 1.8548264225739844e+134, 1.650795516090846e+136,
    1.4857159644817615e+138, 1.352001527678403e+140, 1.2438414054641308e+142, 1.1567725070816416e+144,
    1.087366156656743e+146, 1.032997848823906e+148, 9.916779348709496e+149, 9.619275968248212e+151,
    9.426890448883248e+153, 9.332621544394415e+155, 9.332621544394415e+157, 9.42594775983836e+159,
    9.614466715035127e+161, 9.90290071648618e+163, 1.0299016745145628e+166, 1.081396758240291e+168,
    1.1462805637347084e+170, 1.226520203196138e+172, 1.324641819451829e+174, 1.4438595832024937e+176,
    1.588245541522743e+178, 1.7629525510902446e+180, 1.974506857221074e+182, 2.2311927486598138e+184,
    2.5435597334721877e+186, 2.925093693493016e+188, 3.393108684451898e+190, 3.969937160808721e+192,
    4.684525849754291e+194, 5.574585761207606e+196, 6.689502913449127e+198, 8.094298525273444e+200,
    9.875044200833601e+202, 1.214630436702533e+205, 1.506141741511141e+207, 1.882677176888926e+209,
    2.372173242880047e+211, 3.0126600184576594e+213, 3.856204823625804e+215, 4.974504222477287e+217,
    6.466855489220474e+219, 8.47158069087882e+221, 1.1182486511960043e+224, 1.4872707060906857e+226,
    1.9929427461615188e+228, 2.6904727073180504e+230, 3.659042881952549e+232, 5.012888748274992e+234,
    6.917786472619489e+236, 9.615723196941089e+238, 1.3462012475717526e+241, 1.898143759076171e+243,
    2.695364137888163e+245, 3.854370717180073e+247, 5.5502938327393044e+249, 8.047926057471992e+251,
    1.1749972043909107e+254, 1.727245890454639e+256, 2.5563239178728654e+258, 3.80892263763057e+260,
    5.713383956445855e+262, 8.62720977423324e+264, 1.3113358856834524e+267, 2.0063439050956823e+269,
    3.0897696138473508e+271, 4.789142901463394e+273, 7.471062926282894e+275, 1.1729568794264145e+278,
    1.853271869493735e+280, 2.9467022724950384e+282, 4.7147236359920616e+284, 7.590705053947219e+286,
    1.2296942187394494e+289, 2.0044015765453026e+291, 3.287218585534296e+293, 5.423910666131589e+295,
    9.003691705778438e+297, 1.503616514864999e+300, 2.5260757449731984e+302, 4.269068009004705e+304,
    7.257415615307999e+306};
// Gamma(2.5 + t), |t| <= 1/2
VG_TABLE f64 GAMMA_23[] = {
    1.329340388179137, 0.9347345216260855, 0.6545585779813361, 0.25387124684114376, 0.10967323400222673,
    0.028360780594777788, 0.010392403423184675, 0.0016074004868690253, 0.0007544741845553543,
    3.94175124020712e-06, 6.132933502302795e-05, -1.2801307100027384e-05, 7.2581880432596835e-06,
    -2.5623552561487493e-06, 1.0654353273017196e-06, -4.177625108162228e-07, 2.0596536908194426e-07,
    -8.313302656842926e-08};
// lgamma(2 + t) / t, |t| <= 1/2: keeps all digits at the zero
VG_TABLE f64 LGAMMA_2[] = {
    0.42278433509846713, 0.32246703342411326, -0.06735230105319814, 0.020580808427780335,
    -0.007385551028668096, 0.002890510331036772, -0.0011927539120033873, 0.0005096695153484373,
    -0.00022315475069647703, 9.945767440096764e-05, -4.492635166770342e-05, 2.0505584372896933e-05,
    -9.438454884054723e-06, 4.3847319318293745e-06, -2.044935323180052e-06, 9.199898075671394e-07,
    -4.303234692956732e-07, 2.7880013392491846e-07, -1.341570273460026e-07};
// lgamma(x) - ((x - 1/2) log(x) - x + log(2 pi) / 2), times x, in 1/x^2, x >= 10
VG_TABLE f64 STIRLING[] = {
    0.08333333333333333, -0.0027777777777774917, 0.0007936507931901275, -0.0005952378165753324,
    0.0008416702368289176, -0.0019054575847579352, 0.00549515673280901};
// the exponential of that series, minus 1, times x, in 1/x, x >= 10
VG_TABLE f64 GAMMA_STAR[] = {
    0.08333333333333333, 0.0034722222222217805, -0.0026813271603461433, -0.00022947211283292485,
    0.0007840404957695163, 6.967934333279105e-05, -0.0005910196669378199, -6.860553101447763e-05,
    0.0009928835465894351, -0.0007283837119558692};
// digamma(1.5 + t) / (1.5 + t - root), |t| <= 1/2
VG_TABLE f64 DIGAMMA_12[] = {
    0.9510558760318328, -0.42362742128146047, 0.24054248424078736, -0.14840492305391872,
    0.09498872445282817, -0.06192213327154086, 0.040760833944741226, -0.026975796849870903,
    0.01790724819228875, -0.011908215022954471, 0.007927024136843637, -0.005280020264450306,
    0.0035180792717028125, -0.0023446244638506528, 0.0015635739915515125, -0.0010424375640517788,
    0.0006899428514219089, -0.00045917430083105225, 0.00032689316473621455, -0.00022008418201681154,
    9.158816882117e-05, -5.76048865255672e-05, 0.00012241591000024265, -8.401289563760489e-05};
// (log(x) - 1/(2x) - digamma(x)) x^2 in 1/x^2, x >= 10
VG_TABLE f64 DIGAMMA_FAR[] = {
    0.08333333333333333, -0.008333333333329154, 0.003968253961523214, -0.004166662590864164,
    0.007574576739368041, -0.020915506206423497, 0.06981786569728075};
// (trigamma(x) - 1/x - 1/(2x^2)) x^3 in 1/x^2, x >= 10
VG_TABLE f64 TRIGAMMA_FAR[] = {
    0.16666666666666666, -0.03333333333326834, 0.023809523704773357, -0.03333326983126873,
    0.07573914689862048, -0.25033873719514566, 0.9539105825595161};
#define GAMMA_PI 3.14159265358979323846
#define LOG_SQRT_2PI 0.918938533204672741780

// ---- gamma -------------------------------------------------------------------------------------
// for x >= 10; pow() of the exact x and exponent keeps the error at a few ulp, and its square
// overflows only where the result does
VG_FN f64 gamma_far(f64 x) {
  f64 u = 1 / x, p = pow(x, 0.5 * (x - 0.5));
  f64 r = 2.50662827463100050242 * p * (exp(-x) * p);
  return r + r * (u * polynomial(GAMMA_STAR, u));
}
// for -10 < x < 10, not a pole: recurrence to [2, 3]
VG_FN f64 gamma_near(f64 x) {
  f64 up = 1, down = 1;
  while (x > 3) { x -= 1; up *= x; }
  while (x < 2) { down *= x; x += 1; }
  return polynomial(GAMMA_23, x - 2.5) * up / down;
}
// R's warnings if digits are lost: bit 4 "value out of range", bit 8 "full precision may not have been achieved"
VG_FN void note_range(u32& w) { w |= 4u; }
VG_FN void note_precision(bool lost, u32& w) { w |= (u32)lost << 3; }

// R returns the limits a little before the range of doubles ends: above 171.614, below -170.567, and between 0 and
// 1/DBL_MAX
VG_FN f64 r_gamma(f64 x, u32& w) {
  if (x != x) return x;
  if (x == rint(x) && is_finite_f64(x)) {
    if (x <= 0) return nan_noted(w);
    return x > 171 ? infinity_f64() : FACTORIAL[(i32)x - 1];
  }
  if (x >= 10) return x > 171.61447887182298 ? infinity_f64() : gamma_far(x);
  if (fabs(x) < 2.2474362225598545e-308) {
    note_range(w);
    return copysign(infinity_f64(), x);
  }
  if (x > -10) return gamma_near(x);
  if (!is_finite_f64(x)) return nan_noted(w);
  if (x < -170.5674972726612) return 0.0;
  note_precision(fabs((x - trunc(x - 0.5)) / x) < 1.490116119384765696e-8, w);
  return GAMMA_PI / (x * sin_pi(-x) * gamma_far(-x));
}
VG_FN f32 r_gamma(f32 x, u32& w) { return (f32)r_gamma((f64)x, w); }

// ---- log |gamma| ---------------------------------------------------------------------------------
VG_FN f64 stirling_rest(f64 x) { f64 u = 1 / x; return u * polynomial(STIRLING, u * u); }
VG_FN f64 lgamma_positive(f64 x) {
  if (x >= 10) return (x - 0.5) * (log(x) - 1) + (LOG_SQRT_2PI - 0.5) + stirling_rest(x);
  if (x >= 1.5) {
    f64 product = 1;
    while (x > 2.5) { x -= 1; product *= x; }
    f64 r = (x - 2) * polynomial(LGAMMA_2, x - 2);
    return product == 1 ? r : r + log(product);
  }
  if (x >= 0.5) return (x - 1) * polynomial(LGAMMA_2, x - 1) - log(x);
  return x * polynomial(LGAMMA_2, x) - log(x + x * x);
}
VG_FN f64 r_lgamma(f64 x, u32& w) {
  if (x != x) return x;
  if (x > 0) return lgamma_positive(x);
  if (x == rint(x)) return infinity_f64();
  if (x > -10) return x > -1e-300 ? -log(-x) : log(fabs(gamma_near(x)));
  f64 r = log(GAMMA_PI / fabs(x * sin_pi(x))) - lgamma_positive(-x);
  note_precision(fabs((x - trunc(x - 0.5)) * r / x) < 1.490116119384765696e-8, w);
  return r;
}
VG_FN f32 r_lgamma(f32 x, u32& w) { return (f32)r_lgamma((f64)x, w); }

// ---- digamma and trigamma ---------------------------------------------------------------------------
// Near the root the distance to it is subtracted in two parts.
VG_FN f64 digamma_positive(f64 x) {
  if (x >= 10) {
    f64 u = 1 / x;
    return log(x) - (0.5 * u + u * u * polynomial(DIGAMMA_FAR, u * u));
  }
  f64 top = 0, bottom = 1;  // the sum of 1/(x - k) as one fraction
  while (x > 2) { x -= 1; top = top * x + bottom; bottom *= x; }
  f64 below = 0;
  if (x < 1) { below = 1 / x; x += 1; }
  f64 r = ((x - 1.4616321449683622) - 9.549995429965697e-17) * polynomial(DIGAMMA_12, x - 1.5);
  return r - below + top / bottom;
}
VG_FN f64 r_digamma(f64 x, u32& w) {
  if (x != x) return x;
  if (x > 0) return digamma_positive(x);
  if (x == rint(x)) return nan_noted(w);
  f64 y = -x, r = GAMMA_PI * (y - rint(y));  // digamma(-y) = digamma(y) + 1/y + pi cot(pi y)
  // close to 0 the last two cancel
  if (y < 0.5) return digamma_positive(1 + x) - 1 / x;
  return digamma_positive(y) + 1 / y + GAMMA_PI * (cos(r) / sin(r));
}
VG_FN f32 r_digamma(f32 x, u32& w) { return (f32)r_digamma((f64)x, w); }

VG_FN f64 trigamma_positive(f64 x) {
  f64 first = 0;
  if (x < 1) { f64 u = 1 / x; first = u * u; x += 1; }
  f64 top = 0, bottom = 1;  // the sum of 1/(x + k)^2 as one fraction
  while (x < 10) { f64 s = x * x; top = top * s + bottom; bottom *= s; x += 1; }
  f64 u = 1 / x, v = u * u;
  return first + (top / bottom + (u + (0.5 * v + u * v * polynomial(TRIGAMMA_FAR, v))));
}
VG_FN f64 r_trigamma(f64 x) {
  if (x != x) return x;
  if (x > 0) return trigamma_positive(x);
  if (x == rint(x)) return infinity_f64();
  f64 s = GAMMA_PI / sin_pi(x);
  return s * s - trigamma_positive(1 - x);
}
VG_FN f32 r_trigamma(f32 x) { return (f32)r_trigamma((f64)x); }

// ---- beta ----------------------------------------------------------------------------------------
// for p <= q, both positive and finite
VG_FN f64 lbeta_positive(f64 p, f64 q) {
  f64 s = p + q;
  if (p >= 10) {
    f64 rest = stirling_rest(p) + stirling_rest(q) - stirling_rest(s);
    return -0.5 * log(q) + LOG_SQRT_2PI + rest + (p - 0.5) * log(p / s) + q * log1p(-p / s);
  }
  if (q >= 10) {
    f64 rest = stirling_rest(q) - stirling_rest(s);
    return lgamma_positive(p) + rest + p - p * log(s) + (q - 0.5) * log1p(-p / s);
  }
  if (p < 1e-300) return lgamma_positive(p) + (lgamma_positive(q) - lgamma_positive(s));
  return log(gamma_near(p) * (gamma_near(q) / (s < 10 ? gamma_near(s) : gamma_far(s))));
}
VG_FN f64 r_lbeta(f64 a, f64 b, u32& w) {
  if (a != a || b != b) return a + b;
  f64 p = fmin(a, b), q = fmax(a, b);
  if (p < 0) return nan_noted(w);
  if (p == 0) return infinity_f64();
  return is_finite_f64(q) ? lbeta_positive(p, q) : -infinity_f64();
}
VG_FN f32 r_lbeta(f32 a, f32 b, u32& w) { return (f32)r_lbeta((f64)a, (f64)b, w); }
VG_FN f64 r_beta(f64 a, f64 b, u32& w) {
  if (a != a || b != b) return a + b;
  f64 p = fmin(a, b), q = fmax(a, b);
  if (p < 0) return nan_noted(w);
  if (p == 0) return infinity_f64();
  if (!is_finite_f64(q)) return 0.0;
  u32 unused = 0;
  if (a + b < 171.5 && p > 1e-300)
    return (1 / r_gamma(a + b, unused)) * r_gamma(a, unused) * r_gamma(b, unused);
  return exp(lbeta_positive(p, q));
}
VG_FN f32 r_beta(f32 a, f32 b, u32& w) { return (f32)r_beta((f64)a, (f64)b, w); }

// ---- choose ----------------------------------------------------------------------------------------
// R treats n as whole within 1e-7, rounds k, multiplies for k < 30 and uses logarithms above.
VG_FN bool nearly_whole(f64 x) { return fabs(x - rint(x)) <= 1e-7 * fmax(1.0, fabs(x)); }
VG_FN f64 choose_product(f64 n, f64 k) {
  bool whole = nearly_whole(n);
  if (whole && n - k < k && n >= 0) k = rint(n - k);
  if (k < 0) return 0.0;
  if (k == 0) return 1.0;
  f64 r = n;
  for (f64 j = 2; j <= k; j += 1) r *= (n - j + 1) / j;
  return whole ? rint(r) : r;
}
// log C(n, k) for n >= k - 1
VG_FN f64 lchoose_beta(f64 n, f64 k, u32& w) { return -log(n + 1) - r_lbeta(n - k + 1, k + 1, w); }
// For n < k - 1 not whole, C(n, k) = (-1)^(k+1) B(k - n, n + 1) sin(pi n) / pi: DLMF 5.5.3 and 5.12.1. (R
// subtracts three lgamma, and loses digits in proportion to k.)
VG_FN f64 lchoose_reflected(f64 n, f64 k, u32& w) {
  return r_lbeta(k - n, n + 1, w) + log(fabs(sin_pi(n)) / GAMMA_PI);
}
VG_FN f64 r_choose(f64 n, f64 k, u32& w) {
  if (n != n || k != k) return n + k;
  k = rint(k);
  if (k < 30) return checked(choose_product(n, k), 0.0, w);
  f64 sign = 1;
  if (n < 0) { n = k - n - 1; if (is_odd(k)) sign = -1; }
  if (nearly_whole(n)) {
    n = rint(n);
    if (n < k) return 0.0;
    if (n - k < 30) return sign * choose_product(n, n - k);
    return sign * checked(rint(exp(lchoose_beta(n, k, w))), 0.0, w);
  }
  if (n < k - 1) {
    if (!is_finite_f64(k)) return 0.0;
    if (is_odd(k) == (sin_pi(n) < 0)) sign = -1;
    return sign * exp(lchoose_reflected(n, k, w));
  }
  return sign * checked(exp(lchoose_beta(n, k, w)), 0.0, w);
}
VG_FN f32 r_choose(f32 n, f32 k, u32& w) { return (f32)r_choose((f64)n, (f64)k, w); }
VG_FN f64 r_lchoose(f64 n, f64 k, u32& w) {
  if (n != n || k != k) return n + k;
  k = rint(k);
  if (k < 0) return -infinity_f64();
  if (k == 0) return 0.0;
  if (k == 1) return log(fabs(n));
  if (n < 0) n = k - n - 1;
  if (nearly_whole(n)) {
    n = rint(n);
    if (n < k) return -infinity_f64();
    if (n == k) return 0.0;
    if (n - k == 1) return log(n);
  } else if (n < k - 1) {
    return is_finite_f64(k) ? lchoose_reflected(n, k, w) : -infinity_f64();
  }
  return checked(lchoose_beta(n, k, w), 0.0, w);
}
VG_FN f32 r_lchoose(f32 n, f32 k, u32& w) { return (f32)r_lchoose((f64)n, (f64)k, w); }
