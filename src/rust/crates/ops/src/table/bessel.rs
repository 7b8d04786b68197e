//! Bessel functions and psigamma (kernels/bessel.h, kernels/polygamma.h).
//!
//! Against values of mpmath they are within 1e-13, J and Y relative to the root of the sum of their squares where they
//! oscillate (`tests/testthat/test-ops-special.R`, docs/special.md). `ulp` is base R's error where it has digits.

use super::*;

#[rustfmt::skip]
pub const ROWS: &[Op] = &[
    // lint: wide
    op!(besselI, "besselI", Bessel, 2, Real, NaNsProduced, 4500, [(FLOATS, "bessel_i(a, b, false, w)")], "Modified Bessel function of the first kind at a, of order b."),
    op!(besselI_scaled, "besselI", Bessel, 2, Real, NaNsProduced, 4500, [(FLOATS, "bessel_i(a, b, true, w)")], "The same times exp(-x)."),
    op!(besselK, "besselK", Bessel, 2, Real, NaNsProduced, 4500, [(FLOATS, "bessel_k(a, b, false, w)")], "Modified Bessel function of the second kind at a, of order b."),
    op!(besselK_scaled, "besselK", Bessel, 2, Real, NaNsProduced, 4500, [(FLOATS, "bessel_k(a, b, true, w)")], "The same times exp(x)."),
    // next to the zeros of these three no relative limit holds
    op!(besselJ, "besselJ", Bessel, 2, Real, NaNsProduced, 1e6, [(FLOATS, "bessel_j(a, b, w)")], "Bessel function of the first kind at a, of order b."),
    op!(besselY, "besselY", Bessel, 2, Real, NaNsProduced, 1e6, [(FLOATS, "bessel_y(a, b, w)")], "Bessel function of the second kind at a, of order b."),
    op!(psigamma, "psigamma", Bessel, 2, Real, NaNsProduced, 1e6, [(FLOATS, "polygamma(a, b, w)")], "Derivative b of digamma."),
    // lint: end
];
