//! Draws (kernels/draws.h, kernels/draws_finite.h): transformations of a standard draw, and draws with a key and
//! parameters.

use super::*;

#[rustfmt::skip]
pub const ROWS: &[Op] = &[
    // lint: wide
    op!(normal_draw, "", Internal, 3, Real, NAsProduced, 0, [(FLOATS, "scaled(a, b, c, w)")], "Of standard normal a: with mean b and standard deviation c."),
    op!(lognormal_draw, "", Internal, 3, Real, NAsProduced, 0, [(FLOATS, "lognormal_draw(a, b, c, w)")], "Of standard normal a: the exponential of a normal with mean b and standard deviation c."),
    op!(uniform_draw, "", Internal, 3, Real, NAsProduced, 0, [(FLOATS, "uniform_draw(a, b, c, w)")], "Of uniform a: uniform between b and c."),
    op!(exponential_draw, "", Internal, 2, Real, NAsProduced, 0, [(FLOATS, "exponential_draw(a, b, w)")], "Of standard exponential a: exponential with rate b."),
    op!(weibull_draw, "", Internal, 3, Real, NAsProduced, 0, [(FLOATS, "weibull_draw(a, b, c, w)")], "Of standard exponential a: Weibull with shape b and scale c."),
    op!(cauchy_draw, "", Internal, 3, Real, NAsProduced, 0, [(FLOATS, "cauchy_draw(a, b, c, w)")], "Of uniform a: Cauchy with location b and scale c."),
    op!(logistic_draw, "", Internal, 3, Real, NAsProduced, 0, [(FLOATS, "logistic_draw(a, b, c, w)")], "Of uniform a: logistic with location b and scale c."),

    op!(rgamma, "", Internal, 3, Drawn, NAsProduced, 0, [(F64, "gamma_of(a, i, b, c, w)")], "Gamma with shape b and scale c (Marsaglia and Tsang 2000)."),
    op!(rchisq, "", Internal, 2, Drawn, NAsProduced, 0, [(F64, "chisq_of(a, i, b, w)")], "Chi-square with b degrees of freedom: a gamma."),
    op!(rchisq_noncentral, "", Internal, 3, Drawn, NAsProduced, 0, [(F64, "noncentral_chisq_of(a, i, b, c, w)")], "Chi-square with b degrees of freedom and noncentrality c: Poisson, then a gamma."),
    op!(rbeta, "", Internal, 3, Drawn, NAsProduced, 0, [(F64, "beta_of(a, i, b, c, w)")], "Beta with shapes b and c: of two gammas."),
    op!(rt, "", Internal, 2, Drawn, NAsProduced, 0, [(F64, "t_of(a, i, b, w)")], "Student's t with b degrees of freedom: of a normal and a gamma."),
    op!(rpois, "", Internal, 2, Drawn, NAsProduced, 0, [(F64, "poisson_of(a, i, b, w)")], "Poisson with mean b (Hoermann 1993: PTRS; inversion below 10)."),
    op!(rbinom, "", Internal, 3, Drawn, NAsProduced, 0, [(F64, "binomial_of(a, i, b, c, w)")], "Successes in b trials of probability c (Hoermann 1993: BTRS; inversion where fewer than 10 are expected)."),
    op!(rgeom, "", Internal, 2, Drawn, NAsProduced, 0, [(F64, "geometric_of(a, i, b, w)")], "Failures before a success of probability b (inversion)."),
    op!(rnbinom, "", Internal, 3, Drawn, NAsProduced, 0, [(F64, "negative_binomial_of(a, i, b, c, w)")], "Negative binomial with size b and probability c: Poisson of a gamma."),
    op!(rnbinom_mu, "", Internal, 3, Drawn, NAsProduced, 0, [(F64, "negative_binomial_of_mean(a, i, b, c, w)")], "Negative binomial with size b and mean c: Poisson of a gamma."),
    op!(rhyper, "", Internal, 4, Drawn, NAsProduced, 0, [(F64, "hypergeometric_of(a, i, b, c, d, w)")], "White ones among d drawn of b white and c black (Stadlober 1990: HRUA; drawn one by one where they are few)."),
    op!(rsignrank, "", Internal, 2, Drawn, NAsProduced, 0, [(F64, "signed_rank_of(a, i, b, w)")], "Wilcoxon's signed rank statistic of b values: a bit for each."),
    op!(rwilcox, "", Internal, 3, Drawn, NAsProduced, 0, [(F64, "rank_sum_of(a, i, b, c, w)")], "Wilcoxon's rank sum statistic of b and c values: a sample of ranks."),
    op!(rindex, "", Internal, 2, Drawn, None, 0, [(F64, "index_of(a, i, b)")], "A whole number from 1 to b, all as likely (Lemire 2019)."),
    // lint: end
];
