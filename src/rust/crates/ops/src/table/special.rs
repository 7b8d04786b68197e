//! Special functions and the normal distribution (kernels/gamma.h, kernels/normal.h).
//!
//! `ulp` is the difference from R 4.2, and most of it is R's: against 50-digit values these rows are
//! within 4 ulp, lchoose within 7, and beta and choose within 26 or, where they go through logarithms (a
//! sum above 171, k from 30 on), 900. R's gamma is off by up to 1100 ulp above 50, its trigamma by
//! 256 above 1e16. The figures hold for gamma above -10 and for digamma and trigamma above 0 (near the
//! poles below, R loses up to seven digits); for choose of a fraction with k up to 80; for quantiles of
//! log probabilities above -700 (R 4.2 has five or six digits below); and away from the zeros of lgamma (at
//! 1 and 2 exact here, not in R), digamma, lbeta, lchoose and mean + sd * z, where a relative difference
//! says nothing.

use super::*;

#[rustfmt::skip]
pub const ROWS: &[Op] = &[
    // lint: wide
    op!(gamma, "gamma", Math, 1, Real, NaNsProduced, 1500, [(FLOATS, "r_gamma(a, w)")], "Gamma function."),
    op!(lgamma, "lgamma", Math, 1, Real, NaNsProduced, 64, [(FLOATS, "r_lgamma(a, w)")], "Logarithm of the absolute value of the gamma function."),
    op!(digamma, "digamma", Math, 1, Real, NaNsProduced, 64, [(FLOATS, "r_digamma(a, w)")], "First derivative of lgamma."),
    op!(trigamma, "trigamma", Math, 1, Real, None, 300, [(FLOATS, "r_trigamma(a)")], "Second derivative of lgamma."),
    op!(beta, "beta", Function, 2, Real, NaNsProduced, 2000, [(FLOATS, "r_beta(a, b, w)")], "Beta function."),
    op!(lbeta, "lbeta", Function, 2, Real, NaNsProduced, 64, [(FLOATS, "r_lbeta(a, b, w)")], "Logarithm of the beta function."),
    op!(choose, "choose", Function, 2, Real, NaNsProduced, 1000, [(FLOATS, "r_choose(a, b, w)")], "Binomial coefficient."),
    op!(lchoose, "lchoose", Function, 2, Real, NaNsProduced, 64, [(FLOATS, "r_lchoose(a, b, w)")], "Logarithm of the absolute value of the binomial coefficient."),
    op!(dnorm, "dnorm", Function, 3, Real, NaNsProduced, 16, [(FLOATS, "r_dnorm(a, b, c, w)")], "Normal density at a, with mean b and standard deviation c."),
    op!(dnorm_log, "dnorm", Function, 3, Real, NaNsProduced, 16, [(FLOATS, "r_dnorm_log(a, b, c, w)")], "Logarithm of the normal density."),
    op!(pnorm, "pnorm", Function, 3, Real, NaNsProduced, 16, [(FLOATS, "r_pnorm(a, b, c, w)")], "Normal distribution function at a, with mean b and standard deviation c."),
    op!(pnorm_upper, "pnorm", Function, 3, Real, NaNsProduced, 16, [(FLOATS, "r_pnorm_upper(a, b, c, w)")], "Upper tail of the normal distribution."),
    op!(pnorm_log, "pnorm", Function, 3, Real, NaNsProduced, 16, [(FLOATS, "r_pnorm_log(a, b, c, w)")], "Logarithm of the normal distribution function."),
    op!(pnorm_upper_log, "pnorm", Function, 3, Real, NaNsProduced, 16, [(FLOATS, "r_pnorm_upper_log(a, b, c, w)")], "Logarithm of the upper tail of the normal distribution."),
    op!(qnorm, "qnorm", Function, 3, Real, NaNsProduced, 16, [(FLOATS, "r_qnorm(a, b, c, w)")], "Normal quantile of the probability a, with mean b and standard deviation c."),
    op!(qnorm_upper, "qnorm", Function, 3, Real, NaNsProduced, 16, [(FLOATS, "r_qnorm_upper(a, b, c, w)")], "Normal quantile of an upper tail probability."),
    op!(qnorm_log, "qnorm", Function, 3, Real, NaNsProduced, 16, [(FLOATS, "r_qnorm_log(a, b, c, w)")], "Normal quantile of the logarithm of a probability."),
    op!(qnorm_upper_log, "qnorm", Function, 3, Real, NaNsProduced, 16, [(FLOATS, "r_qnorm_upper_log(a, b, c, w)")], "Normal quantile of the logarithm of an upper tail probability."),
    // lint: end
];
