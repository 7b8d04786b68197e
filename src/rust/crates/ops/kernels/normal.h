// The normal distribution: density, distribution function, quantiles, with R's limits and warnings.
//
// Sources: the tail as exp(-y^2/2) times a polynomial in (y - k)/(y + m), after Schonfelder, Math. Comp. 32
// (1978), and Shepherd and Laframboise, Math. Comp. 36 (1981); the exponential of a square with its
// rounding error, after Cody, Math. Comp. 23 (1969); quantiles by Wichura, AS 241, Applied Statistics 37
// (1988), and beyond its range by the asymptotic series of Mills' ratio (DLMF 7.12).
#pragma once

// (Phi(x) - 1/2) / x in x^2, |x| <= 0.7
VG_TABLE f64 PNORM_MID[] = {
    0.3989422804014327, -0.06649038006690544, 0.009973557010035591, -0.001187328215474657,
    0.00011543468754062825, -9.444655693946038e-06, 6.659667705445112e-07, -4.121936904086857e-08,
    2.260985340155189e-09, -1.0096532928065827e-10};
// (y + 5) exp(y^2/2) Phi(-y) in (y - 6.4)/(y + 5), y >= 0.7
VG_TABLE f64 PNORM_FAR[] = {
    0.6944043643866529, -0.4883919709333447, 0.30279697911784603, -0.1634438912947836,
    0.07524070327328236, -0.028467441766543554, 0.008185176000557983, -0.0013979099043916518,
    -8.733286039583412e-05, 0.00013468541151737226, -2.9276029273614293e-05, -5.3038890365638594e-06,
    3.9713348653024985e-06, -1.5576120789997737e-07, -4.14595576461551e-07, 6.920269913329721e-08,
    4.343155347564437e-08, -1.1695455358931597e-08, -4.939406266870881e-09, 1.5135448945573119e-09,
    5.624216187020405e-10, -1.2039684576222837e-10, -4.3696017523457375e-11};
// Wichura's PPND16
VG_TABLE f64 QNORM_A[] = {
    3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
    45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727};
VG_TABLE f64 QNORM_B[] = {
    1.0, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077,
    21213.794301586595867, 39307.895800092710610, 28729.085735721942674, 5226.4952788528545610};
VG_TABLE f64 QNORM_C[] = {
    1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
    1.27045825245236838258, 0.241780725177450611770, 0.0227238449892691845833, 7.74545014278341407640e-4};
VG_TABLE f64 QNORM_D[] = {
    1.0, 2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550,
    0.148103976427480074590, 0.0151986665636164571966, 5.47593808499534494600e-4, 1.05075007164441684324e-9};
VG_TABLE f64 QNORM_E[] = {
    6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 0.296560571828504891230,
    0.0265321895265761230930, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7};
VG_TABLE f64 QNORM_F[] = {
    1.0, 0.599832206555887937690, 0.136929880922735805310, 0.0148753612908506148525,
    7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15};

// exp(-y^2/2), the rounding error of the square included
VG_FN f64 exp_half_square(f64 y) {
  f64 s = y * y, t = 134217729.0 * y, h = t - (t - y), l = y - h;
  f64 rest = ((h * h - s) + 2 * h * l) + l * l;
  f64 e = exp(-0.5 * s);
  return e - e * (0.5 * rest);
}

// ---- density --------------------------------------------------------------------------------------
// The limits that R checks before it standardises x; true when `out` is the answer.
VG_FN bool dnorm_limit(f64 x, f64 mean, f64 sd, u32& w, f64& out) {
  if (x != x || mean != mean || sd != sd) { out = x + mean + sd; return true; }
  if (sd < 0) { out = nan_noted(w); return true; }
  if (!is_finite_f64(sd)) { out = 0.0; return true; }
  if (!is_finite_f64(x) && mean == x) { out = nan_noted(w); return true; }
  if (sd == 0) { out = x == mean ? infinity_f64() : 0.0; return true; }
  return false;
}
VG_FN f64 r_dnorm(f64 x, f64 mean, f64 sd, u32& w) {
  f64 out;
  if (dnorm_limit(x, mean, sd, w, out)) return out;
  f64 z = fabs((x - mean) / sd);
  if (!(z < 39)) return 0.0;
  return 0.398942280401432677940 * exp_half_square(z) / sd;
}
VG_FN f64 r_dnorm_log(f64 x, f64 mean, f64 sd, u32& w) {
  f64 out;
  if (dnorm_limit(x, mean, sd, w, out)) return log(out);
  f64 z = fabs((x - mean) / sd);
  if (!is_finite_f64(z)) return -infinity_f64();
  return -(0.918938533204672741780 + 0.5 * z * z + log(sd));
}

// ---- distribution function ----------------------------------------------------------------------------
VG_FN f64 pnorm_mid(f64 x) { return x * polynomial(PNORM_MID, x * x); }
// exp(y^2/2) Phi(-y), y >= 0.7
VG_FN f64 pnorm_scaled(f64 y) { f64 u = 1 / (y + 5); return polynomial(PNORM_FAR, (y - 6.4) * u) * u; }
VG_FN f64 pnorm_tail(f64 y) { return y < 39 ? exp_half_square(y) * pnorm_scaled(y) : 0.0; }
// R returns 0 beyond 37.5193, though the smallest doubles reach to 38.48
VG_FN f64 pnorm_standard(f64 z) {
  f64 y = fabs(z);
  if (y < 0.7) return 0.5 + pnorm_mid(z);
  f64 tail = y > 37.5193 ? 0.0 : pnorm_tail(y);
  return z < 0 ? tail : 1 - tail;
}
VG_FN f64 pnorm_standard_log(f64 z) {
  f64 y = fabs(z);
  if (y < 0.7) return z < 0 ? log(0.5 + pnorm_mid(z)) : log1p(-(0.5 - pnorm_mid(z)));
  if (z > 0) return log1p(-pnorm_tail(y));
  if (y > 1e150) return -0.5 * y * y;
  return log(pnorm_scaled(y)) - 0.5 * y * y;
}
// Standardises x: +-Inf if the answer is one of the ends, NaN if R gives NaN
VG_FN f64 pnorm_z(f64 x, f64 mean, f64 sd, u32& w) {
  if (x != x || mean != mean || sd != sd) return x + mean + sd;
  if ((!is_finite_f64(x) && mean == x) || sd < 0) return nan_noted(w);
  f64 z = (x - mean) / sd;
  return is_finite_f64(z) ? z : x < mean ? -infinity_f64() : infinity_f64();
}
VG_FN f64 r_pnorm(f64 x, f64 mean, f64 sd, u32& w) {
  f64 z = pnorm_z(x, mean, sd, w);
  return z != z ? z : pnorm_standard(z);
}
VG_FN f64 r_pnorm_upper(f64 x, f64 mean, f64 sd, u32& w) {
  f64 z = pnorm_z(x, mean, sd, w);
  return z != z ? z : pnorm_standard(-z);
}
VG_FN f64 r_pnorm_log(f64 x, f64 mean, f64 sd, u32& w) {
  f64 z = pnorm_z(x, mean, sd, w);
  return z != z ? z : pnorm_standard_log(z);
}
VG_FN f64 r_pnorm_upper_log(f64 x, f64 mean, f64 sd, u32& w) {
  f64 z = pnorm_z(x, mean, sd, w);
  return z != z ? z : pnorm_standard_log(-z);
}

// ---- quantiles ------------------------------------------------------------------------------------
VG_FN f64 qnorm_mid(f64 q) {
  f64 r = 0.180625 - q * q;
  return q * polynomial(QNORM_A, r) / polynomial(QNORM_B, r);
}
// The y whose tail Phi(-y) has the logarithm l, for l < -2.58
VG_FN f64 qnorm_far(f64 l) {
  f64 r = sqrt(-l);
  if (r <= 5) return polynomial(QNORM_C, r - 1.6) / polynomial(QNORM_D, r - 1.6);
  if (r < 27) return polynomial(QNORM_E, r - 5) / polynomial(QNORM_F, r - 5);
  // l = -y^2/2 - log(y sqrt(2 pi)) + log(1 - 1/y^2 + 3/y^4 - ...): solved for y^2 = s, which is above 1400, by
  // iterations that each gain three digits or more
  if (l < -1e18) return r * 1.41421356237309504880;
  f64 s = -2 * l;
  for (int k = 0; k < 6; k++) {
    f64 v = 1 / s;
    s = -2 * l - log(6.28318530717958647693 * s) + 2 * log1p(v * (-1 + v * (3 - v * (15 - v * (105 - 945 * v)))));
  }
  return sqrt(s);
}
VG_FN f64 qnorm_standard(f64 p) {
  f64 q = p - 0.5;
  if (fabs(q) <= 0.425) return qnorm_mid(q);
  return q < 0 ? -qnorm_far(log(p)) : qnorm_far(log(1 - p));
}
VG_FN f64 qnorm_standard_log(f64 l) {
  f64 q = exp(l) - 0.5;
  if (fabs(q) <= 0.425) return qnorm_mid(q);
  return q < 0 ? -qnorm_far(l) : qnorm_far(log(-expm1(l)));
}
// mean + sd * z; R checks the ends of the range before it checks sd
VG_FN f64 qnorm_scaled(f64 z, f64 mean, f64 sd, u32& w) {
  if (!is_finite_f64(z)) return z;
  if (sd < 0) return nan_noted(w);
  if (sd == 0) return mean;
  return checked(mean + sd * z, 0.0, w);
}
VG_FN f64 r_qnorm_signed(f64 p, f64 mean, f64 sd, f64 sign, u32& w) {
  if (p != p || mean != mean || sd != sd) return p + mean + sd;
  if (p < 0 || p > 1) return nan_noted(w);
  f64 z = p == 0 ? -infinity_f64() : p == 1 ? infinity_f64() : qnorm_standard(p);
  return qnorm_scaled(sign * z, mean, sd, w);
}
VG_FN f64 r_qnorm_log_signed(f64 p, f64 mean, f64 sd, f64 sign, u32& w) {
  if (p != p || mean != mean || sd != sd) return p + mean + sd;
  if (p > 0) return nan_noted(w);
  f64 z = p == 0 ? infinity_f64() : !is_finite_f64(p) ? p : qnorm_standard_log(p);
  return qnorm_scaled(sign * z, mean, sd, w);
}
VG_FN f64 r_qnorm(f64 p, f64 mean, f64 sd, u32& w) { return r_qnorm_signed(p, mean, sd, 1.0, w); }
VG_FN f64 r_qnorm_upper(f64 p, f64 mean, f64 sd, u32& w) { return r_qnorm_signed(p, mean, sd, -1.0, w); }
VG_FN f64 r_qnorm_log(f64 p, f64 mean, f64 sd, u32& w) { return r_qnorm_log_signed(p, mean, sd, 1.0, w); }
VG_FN f64 r_qnorm_upper_log(f64 p, f64 mean, f64 sd, u32& w) { return r_qnorm_log_signed(p, mean, sd, -1.0, w); }

#define NORMAL_F32(f) \
  VG_FN f32 f(f32 x, f32 mean, f32 sd, u32& w) { return (f32)f((f64)x, (f64)mean, (f64)sd, w); }
NORMAL_F32(r_dnorm) NORMAL_F32(r_dnorm_log)
NORMAL_F32(r_pnorm) NORMAL_F32(r_pnorm_upper) NORMAL_F32(r_pnorm_log) NORMAL_F32(r_pnorm_upper_log)
NORMAL_F32(r_qnorm) NORMAL_F32(r_qnorm_upper) NORMAL_F32(r_qnorm_log) NORMAL_F32(r_qnorm_upper_log)
#undef NORMAL_F32
