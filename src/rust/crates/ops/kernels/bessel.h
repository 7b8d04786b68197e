// Bessel functions I, J, K and Y of real order, as base R has them: x >= 0, any order.
//
// Away from the turning point x = nu all four come from Debye's expansions (Olver 1974; DLMF 10.19, 10.41) in the form
// that holds for every order: with w = sqrt(|x^2 +- nu^2|), U_k(p) / nu^k is V_k(p^2) / w^k, which for nu = 0 is
// Hankel's expansion. Exponents and phases, which are as large as x or nu, are double-double. Elsewhere:
// - K and Y for x <= 2: Temme's series (J. Comput. Phys. 19, 1975, and 21, 1976), I and J: power series
// - K for larger x: the ratio of neighbours by the second continued fraction (Temme 1975), and the Wronskian with I
// - J and Y for larger x: Steed's method (Barnett, Feng, Steed, Goldfarb 1974; Barnett 1982), with the first continued
//   fraction as Miller's recurrence
// - near the turning point: J and Y of smaller orders, then the recurrence upwards, which for J ends at nu = x; beyond
//   it J comes from the Wronskian and the ratio of its neighbours (Amos 1974; Gautschi 1967)
// The recurrence is written in differences of neighbours, so that its errors do not grow near the turning point.
#pragma once
#include "double_double.h"

// V_k(t), k = 0 ... 16, the coefficients of each from t^0 to t^k: U_k(p) = p^k V_k(p^2) of DLMF 10.41.10
VG_TABLE f64 DEBYE[] = {
    1.0, 0.125, -0.20833333333333334, 0.0703125, -0.4010416666666667, 0.3342013888888889, 0.0732421875, -0.8912109375,
    1.8464626736111112, -1.0258125964506173, 0.112152099609375, -2.3640869140625, 8.78912353515625,
    -11.207002616222994, 4.669584423426247, 0.22710800170898438, -7.368794359479632, 42.53499874538846,
    -91.81824154324002, 84.63621767460073, -28.212072558200244, 0.5725014209747314, -26.491430486951554,
    218.1905117442116, -699.5796273761325, 1059.9904525279999, -765.2524681411817, 212.57013003921713,
    1.7277275025844574, -108.09091978839466, 1200.9029132163525, -5305.646978613403, 11655.393336864534,
    -13586.550006434138, 8061.722181737309, -1919.457662318407, 6.074042001273483, -493.915304773088,
    7109.514302489364, -41192.65496889755, 122200.46498301746, -203400.17728041555, 192547.00123253153,
    -96980.59838863752, 20204.29133096615, 24.380529699556064, -2499.8304818112097, 45218.76898136273,
    -331645.1724845636, 1268365.2733216248, -2813563.226586534, 3763271.297656404, -2998015.9185381066,
    1311763.6146629772, -242919.18790055133, 110.01714026924674, -13886.08975371704, 308186.4046126624,
    -2785618.1280864547, 13288767.166421818, -37567176.66076335, 66344512.27472903, -74105148.21153265,
    50952602.49266464, -19706819.118432228, 3284469.853072038, 551.3358961220206, -84005.43360302408,
    2243768.1779224495, -24474062.72573873, 142062907.7975331, -495889784.2750303, 1106842816.8230145,
    -1621080552.1083372, 1553596899.57058, -939462359.6815784, 325573074.18576574, -49329253.66450996,
    3038.090510922384, -549842.3275722887, 17395107.553978164, -225105661.88941526, 1559279864.8792574,
    -6563293792.619285, 17954213731.1556, -33026599749.800724, 41280185579.753975, -34632043388.158775,
    18688207509.295826, -5866481492.051847, 814789096.1183121, 18257.755474293175, -3871833.442572613,
    143157876.71888897, -2167164983.223795, 17634730606.83497, -87867072178.02327, 287900649906.1506,
    -645364869245.3765, 1008158106865.3821, -1098375156081.2233, 819218669548.5773, -399096175224.4665,
    114498237732.0258, -14679261247.695616, 118838.42625678325, -29188388.122220814, 1247009293.5127103,
    -21822927757.529224, 205914503232.41, -1196552880196.1816, 4612725780849.132, -12320491305598.287,
    23348364044581.84, -31667088584785.16, 30565125519935.32, -20516899410934.438, 9109341185239.898,
    -2406297900028.504, 286464035717.679, 832859.3040162893, -234557963.52225152, 11465754899.448236,
    -229619372968.24646, 2485000928034.0854, -16634824724892.48, 74373122908679.14, -232604831188939.94,
    523054882578444.6, -857461032982895.0, 1026955196082762.5, -889496939881026.5, 542739664987659.75,
    -221349638702525.2, 54177510755106.05, -6019723417234.006, 6252951.493434797, -2001646928.1917763,
    110997405139.17902, -2521558474912.8545, 31007436472896.46, -236652530451649.25, 1212675804250347.5,
    -4379325838364015.5, 1.1486706978449752e+16, -2.2268225133911144e+16, 3.213827526858624e+16,
    -3.4447226006485144e+16, 2.705471130619708e+16, -1.5129826322457682e+16, 5705782159023671.0, -1301012723549699.5,
    135522158703093.69};
// 1 / Gamma(1 + z): the even part in z^2, and the odd part over z, |z| <= 1/2 (DLMF 5.7.1)
VG_TABLE f64 RGAMMA_EVEN[] = {
    1.0, -0.6558780715202539, 0.16653861138229148, -0.009621971527876973, -0.0011651675918590652,
    0.0001280502823881162, -1.2504934821426706e-06, -2.056338416977607e-07, 5.002007644469223e-09,
    1.0434267116911005e-10, -3.696805618642206e-12};
VG_TABLE f64 RGAMMA_ODD[] = {
    0.5772156649015329, -0.04200263503409524, -0.04219773455554433, 0.0072189432466631, -0.00021524167411495098,
    -2.013485478078824e-05, 1.133027231981696e-06, 6.116095104481416e-09, -1.18127457048702e-09,
    7.782263439905071e-12, 5.100370287454476e-13};
// cos(k / 8) and sin(k / 8), k = 0 ... 13, each in two parts
VG_TABLE f64 EIGHTHS[] = {
    1.0, 0.0, 0.0, 0.0, 0.992197667229329, 4.754870575189364e-17, 0.12467473338522769, -2.925947496057858e-18,
    0.9689124217106447, 5.071436662403936e-17, 0.24740395925452294, -7.53102495590706e-18, 0.9305076219123143,
    4.488760003328074e-18, 0.36627252908604757, -9.938814562106524e-18, 0.8775825618903728, -4.2623149864279997e-17,
    0.479425538604203, -5.103969860556013e-18, 0.8109631195052179, -3.091333486122179e-17, 0.5850972729404622,
    -5.4883972461161805e-17, 0.7316888688738209, -1.0475824306512768e-17, 0.6816387600233341, 4.410467313197903e-17,
    0.6409968581633251, 5.198410459670848e-17, 0.7675435022360271, -3.573483123546625e-17, 0.5403023058681398,
    -4.760954612604417e-17, 0.8414709848078965, 1.776845092935536e-18, 0.4311765167986662, -2.1852563636056596e-17,
    0.9022675940990952, -1.96953072806491e-17, 0.3153223623952687, -8.38166872079122e-18, 0.9489846193555862,
    1.3508965656504773e-17, 0.19454770798898718, 3.570194218398239e-19, 0.9808930570231557, 3.9374079649864887e-17,
    0.0707372016677029, 3.683512075225569e-18, 0.9974949866040544, -1.4558643538840918e-17, -0.05417713502693632,
    2.2834883409068032e-18, 0.9985313405398316, -2.958300233854839e-17};
// log(k / 8), k = 6 ... 12, in two parts
VG_TABLE f64 LOG_EIGHTHS[] = {
    -0.2876820724517809, -2.607160616442564e-17, -0.13353139262452263, 3.664457663660085e-18, 0.0, 0.0,
    0.11778303565638346, -1.1971685747593677e-18, 0.22314355131420976, -9.091270597324799e-18, 0.3184537311185346,
    2.7114779367326236e-17, 0.4054651081081644, -2.8811380259626426e-18};
// (asin(s) - s) / s^3 in s^2
VG_TABLE f64 ASIN_REST[] = {
    0.16666666666666666, 0.075, 0.044642857142857144, 0.030381944444444444, 0.022372159090909092,
    0.017352764423076924, 0.01396484375, 0.011551800896139705};
// (atanh(s) - s) / s^3 in s^2
VG_TABLE f64 ATANH_SERIES[] = {
    0.3333333333333333, 0.2, 0.14285714285714285, 0.1111111111111111, 0.09090909090909091, 0.07692307692307693,
    0.06666666666666667};

#define BESSEL_PI 3.14159265358979323846
#define DEBYE_TERMS 16
// From here on the last of these terms is below 1e-16: half the distance to the nearest singularity.
#define DEBYE_FROM 25.0

// ---- pieces of the uniform expansions -------------------------------------------------------------------
struct Parts { f64 even, odd; };
// The sums over even and odd k of V_k(t) u^k. If `turned`, the signs of u^2, u^3, u^6, u^7 ... change, as for i u.
VG_CALL Parts debye_sums(f64 t, f64 u, bool turned) {
  Parts sum = {1, 0};
  f64 power = 1, last = 1;
  for (i32 k = 1, at = 1; k <= DEBYE_TERMS; at += ++k) {
    f64 v = DEBYE[at + k];
    for (i32 j = k - 1; j >= 0; j--) v = v * t + DEBYE[at + j];
    power *= u;
    f64 term = v * power;
    if (turned && (k & 2)) term = -term;
    if (k & 1) sum.odd += term; else sum.even += term;
    if (fabs(term) + last < 1e-17) break;
    last = fabs(term);
  }
  return sum;
}

// log(r) of positive r: the log of the nearest eighth plus the log of the quotient by it. Beyond 1e300 just a large
// number.
VG_CALL dd dd_log(dd r) {
  if (!(r.hi < 1e300)) return dd_of(1000, 0);
  i32 e = binary_exponent(r.hi);
  f64 scale = f64_of_bits((u64)(1023 - e) << 52);
  dd m = dd_of(r.hi * scale, r.lo * scale);
  if (m.hi >= 1.5) { m.hi *= 0.5; m.lo *= 0.5; e += 1; }
  i32 k = (i32)rint(8 * m.hi);
  f64 c = 0.125 * k;
  dd sum = two_sum(m.hi, c);
  dd s = dd_divide(two_sum(m.hi - c, m.lo), dd_of(sum.hi, sum.lo + m.lo));
  f64 v = s.hi * s.hi;
  dd rest = dd_of(2 * s.hi, 2 * s.lo + 2 * s.hi * v * polynomial(ATANH_SERIES, v));
  dd whole = dd_multiply(dd_of(0.69314718055994531, 2.3190468138462996e-17), dd_of(e, 0));
  return dd_add(dd_add(whole, dd_of(LOG_EIGHTHS[2 * k - 12], LOG_EIGHTHS[2 * k - 11])), rest);
}
// The angle of a point of the unit circle in the first quadrant, by its difference from the nearest eighth
VG_CALL dd dd_angle(dd c, dd s) {
  i32 k = (i32)rint(8 * atan2(s.hi, c.hi));
  const f64* at = EIGHTHS + 4 * k;
  dd r = dd_add(dd_multiply(s, dd_of(at[0], at[1])), dd_negate(dd_multiply(c, dd_of(at[2], at[3]))));
  f64 v = r.hi * r.hi;
  r.lo += r.hi * v * polynomial(ASIN_REST, v);
  return dd_add(r, 0.125 * k);
}
// factor * exp(e), where exp(e) alone may be out of range
VG_FN f64 times_exp(f64 factor, dd e) {
  if (fabs(e.hi) > 1600) return e.hi < 0 ? 0.0 * factor : infinity_f64() * factor;
  factor += factor * e.lo;
  if (fabs(e.hi) < 700) return factor * exp(e.hi);
  f64 half = exp(0.5 * e.hi);
  return factor * half * half;
}
// The factor of x and nu that keeps their squares in range. The expansions are homogeneous in x and nu.
VG_FN f64 bessel_scale(f64 largest) { return largest > 1e100 ? 2.4099198651028841e-181 : 1.0; }

// ---- series for small x ---------------------------------------------------------------------------------
// (x / 2)^nu / Gamma(nu + 1)
VG_FN f64 bessel_lead(f64 nu, f64 x) {
  u32 unused = 0;
  f64 power = x > 1e-300 ? pow(0.5 * x, nu) : pow(x, nu) * pow(0.5, nu);
  return power / r_gamma(nu + 1, unused);
}
// The power series of I (v = x^2 / 4) and J (v = -x^2 / 4)
VG_CALL f64 bessel_series(f64 nu, f64 x, f64 v) {
  f64 sum = 1, term = 1;
  for (i32 k = 1; k < 80 && fabs(term) > 1e-17 * fabs(sum); k++) {
    term *= v / (k * (nu + k));
    sum += term;
  }
  return bessel_lead(nu, x) * sum;
}

// Values of a function at orders mu and mu + 1
struct Neighbours { f64 first, second; };
// Temme's series of K, or of Y if `oscillates`, for |mu| <= 1/2, x <= 2
VG_CALL Neighbours temme_series(f64 mu, f64 x, bool oscillates) {
  f64 m = mu * mu, even = polynomial(RGAMMA_EVEN, m), odd = polynomial(RGAMMA_ODD, m);
  f64 l = log(2 / x), sigma = mu * l;
  if (x < 1e-300) { l = 0.69314718055994531 - log(x); sigma = mu * l; }
  f64 up = exp(sigma), down = 1 / up;
  f64 sine = fabs(sigma) < 0.1 ? 1 + sigma * sigma / 6 * (1 + sigma * sigma / 20 * (1 + sigma * sigma / 42 *
             (1 + sigma * sigma / 72))) : 0.5 * (up - down) / sigma;
  f64 ratio = mu == 0 ? 1.0 : BESSEL_PI * mu / sin_pi(mu);
  f64 f = ratio * (0.5 * (up + down) * -odd + sine * l * even);
  f64 p = 0.5 * up / (even + mu * odd), q = 0.5 * down / (even - mu * odd), c = 1, v = 0.25 * x * x;
  f64 turn = 0;
  if (oscillates) {
    f64 s = sin_pi(0.5 * mu);
    turn = mu == 0 ? 0.0 : 2 * s * s / mu;
    f *= 2 / BESSEL_PI;
    p *= 2 / BESSEL_PI;
    q *= 2 / BESSEL_PI;
    v = -v;
  }
  f64 first = f + turn * q, second = p;
  for (i32 k = 1; k < 30; k++) {
    f = (k * f + p + q) / (k * k - m);
    p /= k - mu;
    q /= k + mu;
    c *= v / k;
    f64 g = f + turn * q, a = c * g, b = c * (p - k * g);
    first += a;
    second += b;
    if (fabs(a) < 1e-17 * fabs(first) && fabs(b) < 1e-17 * fabs(second)) break;
  }
  Neighbours r = {first, second * (2 / x)};
  if (oscillates) { r.first = -r.first; r.second = -r.second; }
  return r;
}

// ---- I and K ------------------------------------------------------------------------------------------------
// Both for nu >= 0 and finite x > 0. If `scaled`, I is multiplied by exp(-x) and K by exp(x).
VG_CALL f64 debye_ik(f64 nu, f64 x, bool scaled, bool is_k) {
  f64 scale = bessel_scale(fmax(nu, x)), n = nu * scale, y = x * scale;
  dd w = dd_sqrt(dd_add(two_product(n, n), two_product(y, y)));
  dd beyond = dd_divide(two_product(n, n), dd_add(w, y));  // w - y
  dd log_ratio = dd_log(dd_divide(dd_add(w, n), dd_of(y, 0)));
  dd e = dd_add(beyond, dd_negate(dd_multiply(log_ratio, dd_of(n, 0))));
  if (!scaled) e = dd_add(e, y);
  e.hi /= scale;
  e.lo /= scale;
  Parts sums = debye_sums((n / w.hi) * (n / w.hi), scale / w.hi, false);
  if (is_k) return times_exp(sqrt(0.5 * BESSEL_PI * scale / w.hi) * (sums.even - sums.odd), dd_negate(e));
  return times_exp(sqrt(scale / (2 * BESSEL_PI * w.hi)) * (sums.even + sums.odd), e);
}
VG_FN bool is_debye_ik(f64 nu, f64 x) { return nu >= DEBYE_FROM || x >= DEBYE_FROM || nu * nu + x * x >= 625; }

VG_FN f64 positive_i(f64 nu, f64 x, bool scaled) {
  if (x == 0) return nu == 0 ? 1.0 : 0.0;
  if (!is_finite_f64(nu)) return 0.0;
  if (!is_finite_f64(x)) return scaled ? 0.0 : x;
  if (is_debye_ik(nu, x)) return debye_ik(nu, x, scaled, false);
  f64 r = bessel_series(nu, x, 0.25 * x * x);
  return scaled ? r * exp(-x) : r;
}
VG_CALL f64 positive_k(f64 nu, f64 x, bool scaled) {
  if (x == 0) return infinity_f64();
  if (!is_finite_f64(nu)) return nu;
  if (!is_finite_f64(x)) return 0.0;
  if (is_debye_ik(nu, x)) return debye_ik(nu, x, scaled, true);
  f64 n = rint(nu), mu = nu - n, factor = scaled ? exp(x) : 1.0;
  Neighbours k;
  if (x <= 2) {
    k = temme_series(mu, x, false);
  } else {
    i32 last = 4 + (i32)(54 / x);  // later terms do not matter
    f64 m = mu * mu, z = 2 * (x + last);
    for (i32 j = last - 1; j >= 1; j--) z = 2 * (x + j) + (m - (j + 0.5) * (j + 0.5)) / z;
    f64 ratio = (mu + 0.5 + x + (m - 0.25) / z) / x;
    f64 v = 0.25 * x * x;
    k.first = 1 / (x * (bessel_series(mu + 1, x, v) + bessel_series(mu, x, v) * ratio));
    k.second = k.first * ratio;
  }
  if (n == 0) return k.first * factor;
  for (f64 j = n - 1; j > 0; j -= 1) {
    f64 next = k.first + 2 * (nu - j) / x * k.second;
    k.first = k.second;
    k.second = next;
  }
  return k.second * factor;
}

// ---- J and Y ------------------------------------------------------------------------------------------------
struct Waves { f64 j, y; };
// For x > nu: modulus and phase
VG_CALL Waves debye_waves(f64 nu, f64 x) {
  f64 scale = bessel_scale(x), n = nu * scale, y = x * scale;
  dd w = dd_sqrt(dd_multiply(two_sum(y, -n), two_sum(y, n)));
  dd angle = dd_angle(dd_divide(dd_of(n, 0), dd_of(y, 0)), dd_divide(w, dd_of(y, 0)));
  dd before = dd_divide(two_product(nu, n), dd_add(w, y));  // (y - w) / scale
  dd back = dd_add(dd_add(before, dd_multiply(angle, dd_of(nu, 0))), dd_of(0.78539816339744831, 3.061616997868383e-17));
  Parts sums = debye_sums(-(n / w.hi) * (n / w.hi), scale / w.hi, true);
  // The phase is x - back. Beyond 1e7 the difference would lose digits that sin(x) of the full x has.
  bool is_far = x > 1e7;
  dd phase = is_far ? back : dd_add(dd_negate(back), x);
  f64 c = cos(phase.hi), s = sin(phase.hi), modulus = sqrt(2 * scale / (BESSEL_PI * w.hi));
  f64 cosine = c - s * phase.lo, sine = s + c * phase.lo;
  if (is_far) {
    f64 cx = cos(x), sx = sin(x), turned = cosine;
    cosine = cx * turned + sx * sine;
    sine = sx * turned - cx * sine;
  }
  Waves r = {modulus * (cosine * sums.even + sine * sums.odd), modulus * (sine * sums.even - cosine * sums.odd)};
  return r;
}
// For x < nu
VG_CALL Waves debye_tails(f64 nu, f64 x) {
  dd w = dd_sqrt(dd_multiply(two_sum(nu, -x), two_sum(nu, x)));
  dd log_ratio = dd_log(dd_divide(dd_add(w, nu), dd_of(x, 0)));
  dd e = dd_add(dd_multiply(log_ratio, dd_of(nu, 0)), dd_negate(w));
  Parts sums = debye_sums((nu / w.hi) * (nu / w.hi), 1 / w.hi, false);
  f64 modulus = sqrt(2 / (BESSEL_PI * w.hi));
  Waves r = {times_exp(0.5 * modulus * (sums.even + sums.odd), dd_negate(e)),
             times_exp(-modulus * (sums.even - sums.odd), e)};
  return r;
}

// Steed's method for |mu| <= 1/2, 2 <= x < 30: {J of mu, mu + 1}, {Y of mu, mu + 1}
VG_CALL void steed_waves(f64 mu, f64 x, Neighbours& j, Neighbours& y) {
  // The first fraction: the solution that decreases with the order, up to a factor
  f64 a = 0, b = 1e-100;
  for (i32 k = (i32)(x + 9 * cbrt(x)) + 10; k >= 1; k--) {
    f64 next = 2 * (mu + k) / x * b - a;
    a = b;
    b = next;
  }
  f64 slope = mu / x * b - a;
  // The second fraction: H' / H = p + iq
  i32 n = 4 + (i32)(90 / x);
  f64 m = mu * mu, re = 2 * x, im = 2 * n;
  for (i32 k = n - 1; k >= 1; k--) {
    f64 c = ((k + 0.5) * (k + 0.5) - m) / (re * re + im * im);
    re = 2 * x + c * re;
    im = 2 * k - c * im;
  }
  f64 c = (0.25 - m) / (x * (re * re + im * im));
  f64 p = -0.5 / x + c * im, q = 1 + c * re;
  f64 other = (p * b - slope) / q;
  f64 s = sqrt(2 / (BESSEL_PI * x * q) / (b * b + other * other));
  b *= s;
  j.first = b;
  j.second = a * s;
  y.first = other * s;
  y.second = mu / x * y.first - (q * b + p * y.first);
}

// From orders nu - n and nu - n + 1 to nu and nu + 1
VG_FN void recur(Neighbours& f, f64 nu, f64 n, f64 x) {
  f64 step = f.second - f.first;
  for (f64 k = n - 1; k >= 0; k -= 1) {
    if (!is_finite_f64(f.second)) { f.first = f.second; return; }
    step += 2 * (nu - k - x) / x * f.second;
    f.first = f.second;
    f.second += step;
  }
}
// J beyond the turning point, from the Wronskian and 1 - J_{nu+1} / J_nu
VG_FN f64 wronskian_j(const Neighbours& y, f64 nu, f64 x) {
  if (!is_finite_f64(y.second)) return 0.0;
  f64 gap = 1;
  for (i32 k = (i32)(9 * cbrt(x)) + 12; k >= 1; k--) {
    f64 s = 2 * (nu - x + k) / x + gap;
    gap = s / (1 + s);
  }
  return 2 / (BESSEL_PI * x) / ((y.first - y.second) - gap * y.first);
}

// nu >= 0, x > 0, both finite
VG_CALL Waves positive_waves(f64 nu, f64 x) {
  if (x > nu) {
    f64 w = sqrt((x - nu) * (x + nu));
    if (w - nu * atan2(w, nu) >= DEBYE_FROM) return debye_waves(nu, x);
  } else if (nu >= 15) {
    f64 w = sqrt((nu - x) * (nu + x));
    if (nu * log((nu + w) / x) - w >= DEBYE_FROM) return debye_tails(nu, x);
  }
  Waves r;
  Neighbours j, y;
  if (x < 2) {
    f64 n = rint(nu);
    y = temme_series(nu - n, x, true);
    recur(y, nu, n, x);
    r.j = bessel_series(nu, x, -0.25 * x * x);
    r.y = y.first;
    return r;
  }
  f64 n;
  if (x < 30) {
    n = rint(nu);
    steed_waves(nu - n, x, j, y);
  } else {
    n = fmax(1.0, ceil(nu - (x - 9 * cbrt(x))));
    Waves a = debye_waves(nu - n, x), b = debye_waves(nu - n + 1, x);
    j.first = a.j;
    j.second = b.j;
    y.first = a.y;
    y.second = b.y;
  }
  recur(y, nu, n, x);
  if (nu > x) {
    r.j = wronskian_j(y, nu, x);
  } else {
    recur(j, nu, n, x);
    r.j = j.first;
  }
  r.y = y.first;
  return r;
}

// ---- base R's functions -----------------------------------------------------------------------------------
VG_FN f64 below_zero(u32& w) {
  note_range(w);
  return nan_noted(w);
}
// Larger orders of J and Y give NaN, in base R too.
#define BESSEL_LARGEST_ORDER 1e7

// Negative orders: DLMF 10.27.2, 10.4.6
VG_FN f64 bessel_i(f64 x, f64 nu, bool scaled, u32& w) {
  if (x != x || nu != nu) return nan_of(x, nu);
  if (x < 0) return below_zero(w);
  f64 n = fabs(nu), s = nu < 0 ? sin_pi(n) : 0.0;
  if (s != s || (!is_finite_f64(n) && !is_finite_f64(x))) return nan_noted(w);
  f64 r = positive_i(n, x, scaled);
  if (s == 0) return r;
  f64 k = positive_k(n, x, scaled) * (2 / BESSEL_PI) * s;
  return r + (scaled ? (is_finite_f64(k) ? k * exp(-2 * x) : k) : k);
}
VG_FN f64 bessel_k(f64 x, f64 nu, bool scaled, u32& w) {
  if (x != x || nu != nu) return nan_of(x, nu);
  if (x < 0) return below_zero(w);
  f64 n = fabs(nu);
  if (!is_finite_f64(n) && !is_finite_f64(x)) return nan_noted(w);
  return positive_k(n, x, scaled);
}
// cos(pi nu) first + sin(pi nu) second; a factor of 0 gives 0 even if the other factor is not finite.
VG_FN f64 turned(f64 nu, f64 first, f64 second) {
  f64 c = cos_pi(nu), s = sin_pi(nu);
  return s == 0 ? c * first : c == 0 ? s * second : c * first + s * second;
}
VG_FN f64 bessel_j(f64 x, f64 nu, u32& w) {
  if (x != x || nu != nu) return nan_of(x, nu);
  if (x < 0) return below_zero(w);
  f64 n = fabs(nu);
  if (n > BESSEL_LARGEST_ORDER) return nan_noted(w);
  if (!is_finite_f64(x)) return 0.0;
  // Y is not needed if the terms of the series decrease from the first on.
  if (nu >= 0 && nu < 25 && x > 0 && x * x < 4 * (nu + 1)) return bessel_series(nu, x, -0.25 * x * x);
  Waves r = {n == 0 ? 1.0 : 0.0, -infinity_f64()};
  if (x > 0) r = positive_waves(n, x);
  return nu < 0 ? turned(n, r.j, -r.y) : r.j;
}
VG_FN f64 bessel_y(f64 x, f64 nu, u32& w) {
  if (x != x || nu != nu) return nan_of(x, nu);
  if (x < 0) return below_zero(w);
  f64 n = fabs(nu);
  if (n > BESSEL_LARGEST_ORDER) return nan_noted(w);
  if (!is_finite_f64(x)) return 0.0;
  Waves r = {n == 0 ? 1.0 : 0.0, -infinity_f64()};
  if (x > 0) r = positive_waves(n, x);
  return nu < 0 ? turned(n, r.y, r.j) : r.y;
}
VG_FN f32 bessel_i(f32 x, f32 nu, bool scaled, u32& w) { return (f32)bessel_i((f64)x, (f64)nu, scaled, w); }
VG_FN f32 bessel_k(f32 x, f32 nu, bool scaled, u32& w) { return (f32)bessel_k((f64)x, (f64)nu, scaled, w); }
VG_FN f32 bessel_j(f32 x, f32 nu, u32& w) { return (f32)bessel_j((f64)x, (f64)nu, w); }
VG_FN f32 bessel_y(f32 x, f32 nu, u32& w) { return (f32)bessel_y((f64)x, (f64)nu, w); }
