//! Math functions of C's library, signs, rounding.
//!
//! The limits add R's libm (1 ulp) to what the CUDA C++ Programming Guide states for the double and
//! the float function, whichever is worse. Where glibc computes both, the cpu device has R's bits.

use super::*;

#[rustfmt::skip]
pub const ROWS: &[Op] = &[
    // lint: wide
    op!(abs, "abs", Math, 1, Modulus, None, 0, [(INTS, "int_abs(a)"), (FLOATS, "fabs(a)"), (COMPLEX, "c_abs(a)")], "Absolute value."),
    op!(sign, "sign", Math, 1, Real, None, 0, [(I64, "int_sign(a)"), (FLOATS, "sign_of(a)")], "Sign: -1, 0 or 1."),
    op!(sqrt, "sqrt", Math, 1, Float, NaNsProduced, 0, [(FLOATS, "checked(sqrt(a), a, w)"), (COMPLEX, "c_noted(c_sqrt(a), a, w)")], "Square root."),

    op!(exp, "exp", Math, 1, Float, NaNsProduced, 3, [(FLOATS, "kept(exp(a), a)"), (COMPLEX, "c_noted(c_exp(a), a, w)")], "Exponential."),
    op!(expm1, "expm1", Math, 1, Real, None, 3, [(FLOATS, "kept(expm1(a), a)")], "exp(x) - 1, accurate near 0."),
    op!(log, "log", Math, 1, Float, NaNsProduced, 3, [(FLOATS, "checked(log(a), a, w)"), (COMPLEX, "c_noted(c_log(a), a, w)")], "Natural logarithm."),
    op!(log2, "log2", Math, 1, Float, NaNsProduced, 3, [(FLOATS, "checked(exact_log2(a), a, w)"), (COMPLEX, "c_noted(c_div(c_log(a), c_log(complex_like(a, 2.0))), a, w)")], "Logarithm to base 2."),
    op!(log10, "log10", Math, 1, Float, NaNsProduced, 3, [(FLOATS, "checked(exact_log10(a), a, w)"), (COMPLEX, "c_noted(c_div(c_log(a), c_log(complex_like(a, 10.0))), a, w)")], "Logarithm to base 10."),
    op!(log1p, "log1p", Math, 1, Real, NaNsProduced, 3, [(FLOATS, "checked(log1p(a), a, w)")], "log(1 + x), accurate near 0."),
    // two logarithms and a division
    op!(log_base, "log", Math, 2, Float, NaNsProduced, 7, [(FLOATS, "checked2(log_base(a, b), a, b, w)"), (COMPLEX, "c_noted(c_div(c_log(a), c_log(b)), a, b, w)")], "Logarithm to a given base."),

    op!(sin, "sin", Math, 1, Float, NaNsProduced, 3, [(FLOATS, "checked(sin(a), a, w)"), (COMPLEX, "c_noted(c_sin(a), a, w)")], "Sine."),
    op!(cos, "cos", Math, 1, Float, NaNsProduced, 3, [(FLOATS, "checked(cos(a), a, w)"), (COMPLEX, "c_noted(c_cos(a), a, w)")], "Cosine."),
    op!(tan, "tan", Math, 1, Float, NaNsProduced, 5, [(FLOATS, "checked(tan(a), a, w)"), (COMPLEX, "c_noted(c_tan(a), a, w)")], "Tangent."),
    op!(asin, "asin", Math, 1, Float, NaNsProduced, 3, [(FLOATS, "checked(asin(a), a, w)"), (COMPLEX, "c_noted(c_asin(a), a, w)")], "Arc sine."),
    op!(acos, "acos", Math, 1, Float, NaNsProduced, 3, [(FLOATS, "checked(acos(a), a, w)"), (COMPLEX, "c_noted(c_acos(a), a, w)")], "Arc cosine."),
    op!(atan, "atan", Math, 1, Float, NaNsProduced, 3, [(FLOATS, "kept(atan(a), a)"), (COMPLEX, "c_noted(c_atan(a), a, w)")], "Arc tangent."),
    op!(sinh, "sinh", Math, 1, Float, NaNsProduced, 4, [(FLOATS, "kept(sinh(a), a)"), (COMPLEX, "c_noted(c_sinh(a), a, w)")], "Hyperbolic sine."),
    op!(cosh, "cosh", Math, 1, Float, NaNsProduced, 3, [(FLOATS, "kept(cosh(a), a)"), (COMPLEX, "c_noted(c_cosh(a), a, w)")], "Hyperbolic cosine."),
    op!(tanh, "tanh", Math, 1, Float, NaNsProduced, 3, [(FLOATS, "kept(tanh(a), a)"), (COMPLEX, "c_noted(c_tanh(a), a, w)")], "Hyperbolic tangent."),
    op!(asinh, "asinh", Math, 1, Float, NaNsProduced, 4, [(FLOATS, "kept(asinh(a), a)"), (COMPLEX, "c_noted(c_asinh(a), a, w)")], "Inverse hyperbolic sine."),
    op!(acosh, "acosh", Math, 1, Float, NaNsProduced, 5, [(FLOATS, "checked(acosh(a), a, w)"), (COMPLEX, "c_noted(c_acosh(a), a, w)")], "Inverse hyperbolic cosine."),
    op!(atanh, "atanh", Math, 1, Float, NaNsProduced, 4, [(FLOATS, "checked(atanh(a), a, w)"), (COMPLEX, "c_noted(c_atanh(a), a, w)")], "Inverse hyperbolic tangent."),
    op!(atan2, "atan2", Function, 2, Real, None, 4, [(FLOATS, "checked2(atan2(a, b), a, b, w)")], "Angle of the point (x, y) with the x axis, given y and x."),
    // R on a libm without sinpi is off by 4e-16 absolute, so next to a zero no relative limit holds
    op!(sinpi, "sinpi", Math, 1, Real, NaNsProduced, 8, [(FLOATS, "checked(sin_pi(a), a, w)")], "sin(pi * x), exact at multiples of a half."),
    op!(cospi, "cospi", Math, 1, Real, NaNsProduced, 8, [(FLOATS, "checked(cos_pi(a), a, w)")], "cos(pi * x), exact at multiples of a half."),
    op!(tanpi, "tanpi", Math, 1, Real, NaNsProduced, 5, [(FLOATS, "checked(tan_pi(a), a, w)")], "tan(pi * x), exact at multiples of a quarter."),

    op!(floor, "floor", Math, 1, Real, None, 0, [(I64, "a"), (FLOATS, "floor(a)")], "The largest whole number not above x."),
    op!(ceiling, "ceiling", Math, 1, Real, None, 0, [(I64, "a"), (FLOATS, "ceil(a)")], "The smallest whole number not below x."),
    op!(trunc, "trunc", Math, 1, Real, None, 0, [(I64, "a"), (FLOATS, "trunc(a)")], "x without its fraction."),
    op!(round, "round", Math, 1, Float, None, 0, [(I64, "a"), (FLOATS, "nearbyint(a)"), (C64, "c_round(a, 0.0f)"), (C128, "c_round(a, 0.0)")], "The nearest whole number; halves go to the even one."),
    op!(round_digits, "round", Math, 2, Float, None, 0, [(FLOATS, "round_digits(a, b)"), (COMPLEX, "c_round(a, b.re)")], "Rounded to a number of digits after the decimal point."),
    op!(signif, "signif", Math, 2, Float, None, 0, [(FLOATS, "signif_digits(a, b)"), (COMPLEX, "c_signif(a, b.re)")], "Rounded to a number of significant digits."),
    // lint: end
];
