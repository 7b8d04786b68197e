// Complex arithmetic and elementary functions.
//
// Multiplication and division follow C99 Annex G as gcc compiles it, since R does. Everything is computed in double;
// complex64 rounds at the end. Its products are then exact, and memory bound even on a GPU with slow doubles. Branch
// cuts are those of `?Complex` (Abramowitz and Stegun 1964, figures 4.4 and 4.7), where R ignores the sign of a zero
// and C99 does not. R 4.2 turns some infinite arguments into NaN by multiplying them by i; there the value of C99 Annex
// G is returned.
//
// Sources: W. Kahan, "Branch cuts for complex elementary functions, or much ado about nothing's sign bit" (1987); T. E.
// Hull, T. F. Fairgrieve and P. T. P. Tang, "Implementing the complex arcsine and arccosine functions using exception
// handling", ACM TOMS 23 (1997); M. Baudin and R. L. Smith, "A robust complex division in Scilab" (2012); T. J. Dekker,
// Numer. Math. 18 (1971) for exact products.
#pragma once

#define CX_PI 3.14159265358979323846
#define CX_PI_2 1.57079632679489661923
#define CX_LN2 0.693147180559945309417
#define CX_HUGE 1.7976931348623157e308

VG_FN c128 c_make(f64 re, f64 im) { c128 z; z.re = re; z.im = im; return z; }
VG_FN c64 c_make(f32 re, f32 im) { c64 z; z.re = re; z.im = im; return z; }
VG_FN c128 c_wide(c64 a) { return c_make((f64)a.re, (f64)a.im); }
VG_FN c64 c_narrow(c128 a) { return c_make((f32)a.re, (f32)a.im); }
VG_FN bool cx_inf(f64 x) { return fabs(x) > CX_HUGE; }
VG_FN bool cx_fin(f64 x) { return fabs(x) <= CX_HUGE; }
VG_FN f64 cx_infinity() { return f64_of_bits(0x7FF0000000000000ull); }
// 2^i
VG_FN f64 cx_pow2(i32 i) { return f64_of_bits((u64)(1023 + i) << 52); }
#ifdef VG_DEVICE
VG_FN void cx_sincos(f64 x, f64& s, f64& c) { sincos(x, &s, &c); }
#else
VG_FN void cx_sincos(f64 x, f64& s, f64& c) { s = sin(x); c = cos(x); }
#endif

// ---- parts ----------------------------------------------------------------------------------
// hypot(Inf, NaN) is Inf, but R's Mod() returns NA.
VG_FN f64 c_abs(c128 a) {
  if (is_na_payload(a.re) || is_na_payload(a.im)) return na_f64();
  return hypot(a.re, a.im);
}
VG_FN f32 c_abs(c64 a) {
  f64 x = (f64)a.re, y = (f64)a.im;
  if (cx_inf(x) || cx_inf(y)) return (f32)cx_infinity();
  return (f32)sqrt(x * x + y * y);  // nothing overflows in double
}
VG_FN f64 c_arg(c128 a) { return is_na(a) ? a.re + a.im : atan2(a.im, a.re); }
VG_FN f32 c_arg(c64 a) { return (f32)c_arg(c_wide(a)); }
VG_FN f64 real_arg(f64 x) { return x != x ? x : x < 0 ? CX_PI : 0.0; }
VG_FN f32 real_arg(f32 x) { return x != x ? x : x < 0 ? (f32)CX_PI : 0.0f; }
VG_FN c128 c_conj(c128 a) { return c_make(a.re, -a.im); }
VG_FN c64 c_conj(c64 a) { return c_make(a.re, -a.im); }

// ---- tests ----------------------------------------------------------------------------------
// is.nan() is TRUE if a part is a NaN that is not NA.
VG_FN bool c_is_nan(c128 a) {
  return (a.re != a.re && !is_na_payload(a.re)) || (a.im != a.im && !is_na_payload(a.im));
}
VG_FN bool c_is_nan(c64 a) { return a.re != a.re || a.im != a.im; }
VG_FN bool c_is_finite(c128 a) { return cx_fin(a.re) && cx_fin(a.im); }
VG_FN bool c_is_finite(c64 a) { return c_is_finite(c_wide(a)); }
VG_FN bool c_is_infinite(c128 a) { return cx_inf(a.re) || cx_inf(a.im); }
VG_FN bool c_is_infinite(c64 a) { return c_is_infinite(c_wide(a)); }
template <class T> VG_FN i32 cx_eq(T a, T b) {
  return is_na(a) || is_na(b) ? NA_I32 : (i32)(a.re == b.re && a.im == b.im);
}
template <class T> VG_FN i32 cx_ne(T a, T b) {
  return is_na(a) || is_na(b) ? NA_I32 : (i32)(a.re != b.re || a.im != b.im);
}
VG_FN i32 c_eq(c128 a, c128 b) { return cx_eq(a, b); }
VG_FN i32 c_eq(c64 a, c64 b) { return cx_eq(a, b); }
VG_FN i32 c_ne(c128 a, c128 b) { return cx_ne(a, b); }
VG_FN i32 c_ne(c64 a, c64 b) { return cx_ne(a, b); }

// ---- arithmetic -------------------------------------------------------------------------------
VG_FN c128 c_neg(c128 a) { return c_make(-a.re, -a.im); }
VG_FN c64 c_neg(c64 a) { return c_make(-a.re, -a.im); }
VG_FN c128 c_add(c128 a, c128 b) { return c_make(a.re + b.re, a.im + b.im); }
VG_FN c64 c_add(c64 a, c64 b) { return c_make(a.re + b.re, a.im + b.im); }
VG_FN c128 c_sub(c128 a, c128 b) { return c_make(a.re - b.re, a.im - b.im); }
VG_FN c64 c_sub(c64 a, c64 b) { return c_make(a.re - b.re, a.im - b.im); }

// Annex G: an infinity becomes 1, anything else 0; signs are kept
VG_FN f64 cx_box(f64 x) { return copysign(cx_inf(x) ? 1.0 : 0.0, x); }
VG_FN f64 cx_nan_to_zero(f64 x) { return x != x ? copysign(0.0, x) : x; }

// Annex G.5.1: a product that came out as NaN + NaN i is infinite if an operand was, or if a partial product overflowed
VG_FN c128 cx_mul_recover(c128 a, c128 b, c128 r) {
  bool again = false;
  f64 ac = a.re * b.re, bd = a.im * b.im, ad = a.re * b.im, bc = a.im * b.re;
  if (c_is_infinite(a)) {
    a = c_make(cx_box(a.re), cx_box(a.im));
    b = c_make(cx_nan_to_zero(b.re), cx_nan_to_zero(b.im));
    again = true;
  }
  if (c_is_infinite(b)) {
    b = c_make(cx_box(b.re), cx_box(b.im));
    a = c_make(cx_nan_to_zero(a.re), cx_nan_to_zero(a.im));
    again = true;
  }
  if (!again && (cx_inf(ac) || cx_inf(bd) || cx_inf(ad) || cx_inf(bc))) {
    a = c_make(cx_nan_to_zero(a.re), cx_nan_to_zero(a.im));
    b = c_make(cx_nan_to_zero(b.re), cx_nan_to_zero(b.im));
    again = true;
  }
  if (!again) return r;
  f64 inf = cx_infinity();
  return c_make(inf * (a.re * b.re - a.im * b.im), inf * (a.re * b.im + a.im * b.re));
}
VG_FN c128 c_mul(c128 a, c128 b) {
  c128 r = c_make(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
  return r.re != r.re && r.im != r.im ? cx_mul_recover(a, b, r) : r;
}
VG_FN c64 c_mul(c64 a, c64 b) { return c_narrow(c_mul(c_wide(a), c_wide(b))); }

// Annex G.5.1 for a quotient that came out as NaN + NaN i
VG_FN c128 cx_div_recover(c128 a, c128 b, c128 r) {
  f64 inf = cx_infinity();
  if (b.re == 0 && b.im == 0 && !(a.re != a.re && a.im != a.im)) {
    f64 k = copysign(inf, b.re);
    return c_make(k * a.re, k * a.im);
  }
  if (c_is_infinite(a) && c_is_finite(b)) {
    a = c_make(cx_box(a.re), cx_box(a.im));
    return c_make(inf * (a.re * b.re + a.im * b.im), inf * (a.im * b.re - a.re * b.im));
  }
  if (c_is_infinite(b) && c_is_finite(a)) {
    b = c_make(cx_box(b.re), cx_box(b.im));
    return c_make(0.0 * (a.re * b.re + a.im * b.im), 0.0 * (a.im * b.re - a.re * b.im));
  }
  return r;
}
// The power of two that brings `largest` near 1 if it is far from it, as two factors that are each a double
VG_FN void cx_scale(f64 largest, f64& s, f64& t) {
  s = t = 1;
  if ((largest > 1e-140 && largest < 1e140) || largest == 0 || !cx_fin(largest)) return;
  i32 e = (i32)(bits_of(largest) >> 52) - 1023;
  if (e < -1022) e = -1022 - 51;
  s = cx_pow2(-e / 2);
  t = cx_pow2(-e - (-e / 2));
}
// Smith's division. Dividend and divisor are scaled by powers of two, which is exact. If the ratio underflows, its
// factors are multiplied in the other order (Baudin and Smith 2012).
VG_FN c128 c_div(c128 a, c128 b) {
  f64 s, t, u, v, tiny = 2.2250738585072014e-308;
  cx_scale(fmax(fabs(b.re), fabs(b.im)), s, t);
  cx_scale(fmax(fabs(a.re), fabs(a.im)), u, v);
  c128 n = c_make(a.re * u * v, a.im * u * v), d = c_make(b.re * s * t, b.im * s * t), r;
  if (fabs(d.re) < fabs(d.im)) {
    f64 ratio = d.re / d.im, q = d.re * ratio + d.im;
    bool safe = fabs(ratio) > tiny;
    r.re = ((safe ? n.re * ratio : d.re * (n.re / d.im)) + n.im) / q;
    r.im = ((safe ? n.im * ratio : d.re * (n.im / d.im)) - n.re) / q;
  } else {
    f64 ratio = d.im / d.re, q = d.im * ratio + d.re;
    bool safe = fabs(ratio) > tiny;
    r.re = ((safe ? n.im * ratio : d.im * (n.im / d.re)) + n.re) / q;
    r.im = (n.im - (safe ? n.re * ratio : d.im * (n.re / d.re))) / q;
  }
  if (r.re != r.re && r.im != r.im) return cx_div_recover(a, b, r);
  if (s == 1 && u == 1) return r;
  // Each factor has about half of the exponent, so that neither overflows.
  f64 k = s / u, l = t / v;
  return c_make(r.re * k * l, r.im * k * l);
}
VG_FN c64 c_div(c64 a, c64 b) { return c_narrow(c_div(c_wide(a), c_wide(b))); }

// Bit 2 of w, "NaNs produced in function": a part of the result is NaN, and no part of the operand is.
template <class Z> VG_FN Z c_noted(Z r, Z a, u32& w) { w |= (u32)(is_na(r) & !is_na(a)) << 1; return r; }
template <class Z> VG_FN Z c_noted(Z r, Z a, Z b, u32& w) {
  w |= (u32)(is_na(r) & !is_na(a) & !is_na(b)) << 1; return r;
}

// R's functions of one complex argument give NA + NA i if a part is NA.
VG_FN bool cx_missing(c128 a) { return is_na_payload(a.re) || is_na_payload(a.im); }
VG_FN c128 cx_na() { return c_make(na_f64(), na_f64()); }

// ---- square root, exponential, logarithm ----------------------------------------------------------
VG_FN c128 c_sqrt(c128 a) {
  if (cx_missing(a)) return cx_na();
  f64 x = a.re, y = a.im;
  if (cx_inf(y)) return c_make(cx_infinity(), y);
  if (cx_inf(x)) {
    f64 other = y != y ? y : copysign(0.0, y);
    return x > 0 ? c_make(x, other) : c_make(fabs(other), copysign(cx_infinity(), y));
  }
  if (x != x || y != y) return c_make(x + y, x + y);
  if (x == 0 && y == 0) return c_make(0.0, y);
  if (x == 0) { f64 r = sqrt(0.5 * fabs(y)); return c_make(r, copysign(r, y)); }  // glibc's special case
  f64 largest = fmax(fabs(x), fabs(y)), unscale = 1;
  if (largest > 1e300) { x *= 0.0625; y *= 0.0625; unscale = 4; }
  if (largest < 1e-290) { x *= cx_pow2(108); y *= cx_pow2(108); unscale = cx_pow2(-54); }
  f64 r = sqrt(0.5 * (hypot(x, y) + fabs(x)));
  f64 other = 0.5 * (y / r);
  return x >= 0 ? c_make(r * unscale, other * unscale)
                : c_make(fabs(other) * unscale, copysign(r, y) * unscale);
}
VG_FN c128 cx_exp(c128 a) {
  f64 x = a.re, y = a.im;
  if (y == 0) return c_make(exp(x), y);
  if (!cx_fin(y)) {
    if (cx_inf(x)) return x > 0 ? c_make(x, nan_f64()) : c_make(0.0, 0.0);
    return c_make(x + (y - y), x + (y - y));
  }
  f64 s, c;
  cx_sincos(y, s, c);
  // exp(x) may overflow although exp(x) * cos(y) does not.
  if (x > 709) { f64 h = exp(0.5 * x); return c_make(h * c * h, h * s * h); }
  f64 e = exp(x);
  return c_make(e * c, e * s);
}
VG_FN c128 c_exp(c128 a) { return cx_missing(a) ? cx_na() : cx_exp(a); }
// x^2 + y^2 - 1 for 1/2 <= x < 1 and y <= x, with the squares and the sum in double-double
VG_FN f64 cx_square_low(f64 x, f64 square) {
  f64 t = 134217729.0 * x, h = t - (t - x), l = x - h;
  return ((h * h - square) + 2 * h * l) + l * l;
}
VG_FN f64 cx_norm_minus_one(f64 x, f64 y) {
  f64 x2 = x * x, y2 = y * y;
  f64 s = x2 - 1, e = x2 - (s + 1);
  f64 r = s + y2, back = r - s, f = (s - (r - back)) + (y2 - back);
  return r + ((e + f) + (cx_square_low(x, x2) + cx_square_low(y, y2)));
}
VG_FN f64 cx_log_abs(f64 re, f64 im) {
  f64 x = fmax(fabs(re), fabs(im)), y = fmin(fabs(re), fabs(im));
  if (cx_inf(re) || cx_inf(im)) return cx_infinity();
  // The same cases as in glibc, for the bits that R gives.
  if (x > 0.5 * CX_HUGE) return log(hypot(0.5 * x, 0.5 * y)) + CX_LN2;
  if (x < 2.2250738585072014e-308)
    return x == 0 ? -cx_infinity() : log(hypot(x * cx_pow2(53), y * cx_pow2(53))) - 53 * CX_LN2;
  if (x < 0.5 || x >= 2 || y >= 1 || x * x + y * y < 0.5) return log(hypot(x, y));
  if (x >= 1) return 0.5 * log1p((x - 1) * (x + 1) + y * y);
  return 0.5 * log1p(cx_norm_minus_one(x, y));
}
VG_FN c128 cx_log(c128 a) {
  if (is_na(a) && !c_is_infinite(a)) return c_make(a.re + a.im, a.re + a.im);
  return c_make(cx_log_abs(a.re, a.im), c_arg(a));
}
VG_FN c128 c_log(c128 a) { return cx_missing(a) ? cx_na() : cx_log(a); }

// Integer powers up to 65536 are computed by multiplication, as in R. Powers of 0 follow R's real powers. The rest is
// exp(b log(a)).
VG_FN c128 c_pow(c128 a, c128 b) {
  if (a.re == 0 && a.im == 0) {
    if (b.im != 0) return c_make(nan_f64(), nan_f64());
    return c_make(b.re != b.re ? b.re : b.re == 0 ? 1.0 : b.re > 0 ? 0.0 : cx_infinity(), 0.0);
  }
  if (b.im == 0 && fabs(b.re) <= 65536 && b.re == rint(b.re)) {
    i32 k = (i32)fabs(b.re);
    c128 z = c_make(1.0, 0.0), power = a;
    if (k == 1) z = a;
    else while (k > 0) {
      if (k & 1) z = c_mul(z, power);
      k >>= 1;
      if (k > 0) power = c_mul(power, power);
    }
    return b.re < 0 ? c_div(c_make(1.0, 0.0), z) : z;
  }
  return cx_exp(c_mul(b, cx_log(a)));
}

// ---- hyperbolic and circular functions ----------------------------------------------------------
VG_FN c128 c_sinh(c128 a) {
  if (cx_missing(a)) return cx_na();
  f64 x = a.re, y = a.im;
  if (y == 0) return c_make(sinh(x), y);
  if (!cx_fin(y)) {
    if (x == 0) return c_make(x, y - y);
    return c_make(cx_inf(x) ? fabs(x) : x + (y - y), x + (y - y));
  }
  if (x != x) return c_make(x, x);
  f64 s, c;
  cx_sincos(y, s, c);
  if (x == 0) return c_make(copysign(0.0, x * c), s);
  if (fabs(x) > 709) {
    f64 h = exp(0.5 * fabs(x));
    return c_make(copysign(1.0, x) * (0.5 * h * c) * h, (0.5 * h * s) * h);
  }
  return c_make(sinh(x) * c, cosh(x) * s);
}
VG_FN c128 c_cosh(c128 a) {
  if (cx_missing(a)) return cx_na();
  f64 x = a.re, y = a.im;
  if (y == 0) return c_make(cosh(x), x != x ? 0.0 : copysign(1.0, x) * y);
  if (!cx_fin(y)) {
    if (x == 0) return c_make(y - y, 0.0);
    return c_make(cx_inf(x) ? fabs(x) : x + (y - y), x + (y - y));
  }
  if (x != x) return c_make(x, x);
  f64 s, c;
  cx_sincos(y, s, c);
  if (fabs(x) > 709) {
    f64 h = exp(0.5 * fabs(x));
    return c_make((0.5 * h * c) * h, copysign(1.0, x) * (0.5 * h * s) * h);
  }
  return c_make(cosh(x) * c, sinh(x) * s);
}
// Kahan 1987, algorithm TANH
VG_FN c128 c_tanh(c128 a) {
  if (cx_missing(a)) return cx_na();
  f64 x = a.re, y = a.im;
  if (y == 0) return c_make(tanh(x), y);
  if (cx_inf(x)) {
    f64 sign = cx_fin(y) ? sin(2 * y) : 1.0;
    return c_make(copysign(1.0, x), copysign(0.0, sign));
  }
  if (!cx_fin(y)) return c_make(x == 0 ? x : x + (y - y), x + (y - y));
  if (x != x) return c_make(x, x);
  if (fabs(x) > 22) {
    f64 s, c;
    cx_sincos(y, s, c);
    return c_make(copysign(1.0, x), 4 * s * c * exp(-2 * fabs(x)));
  }
  f64 t = tan(y), beta = 1 + t * t, sh = sinh(x), rho = sqrt(1 + sh * sh), d = 1 + beta * sh * sh;
  return c_make(beta * rho * sh / d, t / d);
}
VG_FN c128 cx_swap(c128 a) { return c_make(a.im, a.re); }
// f(z) = -i F(iz) for an odd F that commutes with conjugation: swap the parts.
VG_FN c128 c_sin(c128 a) { return cx_swap(c_sinh(cx_swap(a))); }
VG_FN c128 c_cos(c128 a) { return c_cosh(c_make(-a.im, a.re)); }
// As in R, the imaginary part is 1 far from the real axis, whatever the real part is.
VG_FN c128 c_tan(c128 a) {
  c128 r = cx_swap(c_tanh(cx_swap(a)));
  if (fabs(a.im) > 350 && !cx_missing(a)) r.im = copysign(1.0, a.im);
  return r;
}

// ---- their inverses -------------------------------------------------------------------------------
// Hull, Fairgrieve and Tang 1997 in the first quadrant: asin = (as, im), acos = (ac, -im)
VG_FN void cx_arcs(f64 x, f64 y, f64& as, f64& ac, f64& im) {
  f64 eps = 1.1e-17;  // below it y is negligible beside |x - 1|
  if (x > 1e150 || y > 1e150) {
    as = atan2(x, y);
    ac = atan2(y, x);
    im = cx_inf(x) || cx_inf(y) ? cx_infinity() : log(hypot(0.25 * x, 0.25 * y)) + 3 * CX_LN2;
    return;
  }
  if (x == 1 && y < 1e-30) { ac = im = sqrt(y); as = CX_PI_2 - ac; return; }
  if (y <= eps * fabs(x - 1)) {
    f64 root = sqrt(fabs(x - 1)) * sqrt(x + 1);
    if (x < 1) { as = asin(x); ac = acos(x); im = y / root; }
    else { ac = y / root; as = CX_PI_2 - ac; im = x > 1e9 ? log(x) + CX_LN2 : log1p((x - 1) + root); }
    return;
  }
  f64 r = hypot(x + 1, y), s = hypot(x - 1, y), a = 0.5 * (r + s), b = x / a, y2 = y * y;
  f64 rx = r + (x + 1);
  if (b <= 0.6417) {
    as = asin(b);
    ac = acos(b);
  } else {
    f64 root = x <= 1 ? sqrt(0.5 * (a + x) * (y2 / rx + (s + (1 - x))))
                      : y * sqrt(0.5 * ((a + x) / rx + (a + x) / (s + (x - 1))));
    as = atan2(x, root);
    ac = atan2(root, x);
  }
  if (a <= 1.5) {
    f64 m = 0.5 * (x < 1 ? y2 / rx + y2 / (s + (1 - x)) : y2 / rx + (s + (x - 1)));
    im = log1p(m + sqrt(m * (a + 1)));
  } else {
    im = log(a + sqrt(a * a - 1));
  }
}
// asin with C99's signs. A NaN part with an infinite part gives an infinite imaginary part.
VG_FN c128 cx_asin(c128 a) {
  f64 x = a.re, y = a.im;
  if (x != x || y != y) {
    if (cx_inf(x) || cx_inf(y)) return c_make(x + y, cx_inf(y) ? y : cx_infinity());
    return c_make(x == 0 ? x : x + y, x + y);
  }
  f64 as, ac, im;
  cx_arcs(fabs(x), fabs(y), as, ac, im);
  return c_make(copysign(as, x), copysign(im, y));
}
VG_FN c128 c_asin(c128 a) {
  if (cx_missing(a)) return cx_na();
  c128 r = cx_asin(a);
  if (a.im == 0 && fabs(a.re) > 1) r.im = copysign(r.im, -a.re);  // R's cut
  return r;
}
VG_FN c128 c_acos(c128 a) {
  if (cx_missing(a)) return cx_na();
  f64 x = a.re, y = a.im;
  if (x != x || y != y) {
    if (cx_inf(x) || cx_inf(y)) return c_make(x + y, cx_inf(y) ? -y : cx_infinity());
    return c_make(x == 0 ? CX_PI_2 : x + y, x + y);
  }
  f64 as, ac, im;
  cx_arcs(fabs(x), fabs(y), as, ac, im);
  bool left = copysign(1.0, x) < 0;
  return c_make(left ? CX_PI - ac : ac, y == 0 && fabs(x) > 1 ? copysign(im, x) : -copysign(im, y));
}
VG_FN c128 c_asinh(c128 a) {
  if (cx_missing(a)) return cx_na();
  c128 r = cx_swap(cx_asin(cx_swap(a)));
  if (a.re == 0 && fabs(a.im) > 1) r.re = copysign(r.re, a.im);  // R's cut
  return r;
}
// R's acosh is i acos(z): its real part is negative below the real axis and on (1, Inf)
VG_FN c128 c_acosh(c128 a) {
  c128 r = c_acos(a);
  return c_make(-r.im, r.re);
}

// Kahan 1987, algorithm ATANH, with C99's signs
VG_FN c128 cx_atanh(c128 a) {
  f64 x = fabs(a.re), y = fabs(a.im), re, im;
  if (x != x || y != y) {
    if (cx_inf(x)) return c_make(copysign(0.0, a.re), y);
    if (cx_inf(y)) return c_make(0.0, copysign(CX_PI_2, a.im));
    return c_make(x == 0 ? a.re : a.re + a.im, a.re + a.im);
  }
  if (x > 1e150 || y > 1e150) {
    f64 h = hypot(0.5 * x, 0.5 * y);
    re = cx_inf(h) ? 0.0 : 0.25 * (x / h) / h;
    im = CX_PI_2;
  } else if (x == 1 && y < 1e-100) {
    re = y == 0 ? cx_infinity() : 0.5 * (CX_LN2 - log(y));
    im = y == 0 ? 0.0 : 0.5 * CX_PI_2;
  } else {
    re = 0.25 * log1p(4 * x / ((1 - x) * (1 - x) + y * y));
    im = 0.5 * atan2(2 * y, (1 - x) * (1 + x) - y * y);
  }
  return c_make(copysign(re, a.re), copysign(im, a.im));
}
VG_FN c128 c_atanh(c128 a) {
  if (cx_missing(a)) return cx_na();
  c128 r = cx_atanh(a);
  if (a.im == 0 && fabs(a.re) > 1) r.im = copysign(CX_PI_2, -a.re);  // R's cut
  return r;
}
VG_FN c128 c_atan(c128 a) {
  if (cx_missing(a)) return cx_na();
  c128 r = cx_swap(cx_atanh(cx_swap(a)));
  if (a.re == 0 && fabs(a.im) > 1) r.re = copysign(CX_PI_2, a.im);  // R's cut
  return r;
}

// ---- rounding -------------------------------------------------------------------------------------
// Powers of ten up to 1e22 are exact in double; a larger one is off by an ulp or so.
VG_FN f64 cx_pow10(i32 k) {
  f64 r = 1, p = 10;
  for (i32 n = k < 0 ? -k : k; n > 0; n >>= 1) { if (n & 1) r *= p; p *= p; }
  return r;
}
// Rounds to k decimals: the nearer of the two neighbours of x, the even one on a tie (R 4's rule).
VG_FN f64 cx_round(f64 x, i32 k) {
  if (!cx_fin(x) || x == 0 || k > 323 || k + (i32)ceil(log10(fabs(x))) > 15) return x;
  if (k < -308) return copysign(0.0, x);
  if (k == 0) return rint(x);
  f64 p = cx_pow10(k > 308 ? 308 : k), more = k > 308 ? cx_pow10(k - 308) : 1, v = fabs(x);
  f64 scaled = k < 0 ? v / p : v * p * more, low = floor(scaled), high = ceil(scaled);
  f64 below = k < 0 ? low * p : low / p / more, above = k < 0 ? high * p : high / p / more;
  f64 db = v - below, da = above - v;
  bool even = 2 * floor(0.5 * low) == low;
  return copysign(db < da || (db == da && even) ? below : above, x);
}
VG_FN c128 c_round(c128 a, f64 digits) {
  if (digits != digits) return c_make(digits, digits);
  f64 d = floor(digits + 0.5);
  i32 k = d > 400 ? 400 : d < -400 ? -400 : (i32)d;
  return c_make(cx_round(a.re, k), cx_round(a.im, k));
}
VG_FN c64 c_round(c64 a, f64 digits) { return c_narrow(c_round(c_wide(a), digits)); }
// Both parts are rounded to the decimals that the larger part needs for `digits` significant digits.
VG_FN c128 c_signif(c128 a, f64 digits) {
  if (digits != digits) return c_make(digits, digits);
  if (digits > 400) return a;
  f64 m = 0, d = digits < 1 ? 1 : floor(digits + 0.5);
  if (cx_fin(a.re)) m = fabs(a.re);
  if (cx_fin(a.im)) m = fmax(m, fabs(a.im));
  if (m == 0) return a;
  i32 e = (i32)floor(log10(m));
  // log10 rounded down
  if (e < 308 && m >= (e < -307 ? 1e-307 : e < 0 ? 1 / cx_pow10(-e - 1) : cx_pow10(e + 1))) e += 1;
  i32 k = (i32)d - 1 - e;
  return c_make(cx_round(a.re, k), cx_round(a.im, k));
}
VG_FN c64 c_signif(c64 a, f64 digits) { return c_narrow(c_signif(c_wide(a), digits)); }

// ---- complex64 --------------------------------------------------------------------------------------
#define CX_NARROW(f) VG_FN c64 f(c64 a) { return c_narrow(f(c_wide(a))); }
CX_NARROW(c_sqrt) CX_NARROW(c_exp) CX_NARROW(c_log)
CX_NARROW(c_sin) CX_NARROW(c_cos) CX_NARROW(c_tan) CX_NARROW(c_asin) CX_NARROW(c_acos) CX_NARROW(c_atan)
CX_NARROW(c_sinh) CX_NARROW(c_cosh) CX_NARROW(c_tanh) CX_NARROW(c_asinh) CX_NARROW(c_acosh) CX_NARROW(c_atanh)
#undef CX_NARROW
VG_FN c64 c_pow(c64 a, c64 b) { return c_narrow(c_pow(c_wide(a), c_wide(b))); }
