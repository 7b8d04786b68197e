//! The distributions of stats (kernels/distributions.h, kernels/discrete.h and those included after them): ten rows
//! each, for density, distribution function and quantile, of either tail, and in logarithms.
//!
//! Against 40-digit values the continuous ones are within 1e-13, and within 1e-10 down to 1e-300
//! (`tests/testthat/test-diff-distributions.R`, docs/distributions.md). `ulp` is base R's error.

use super::*;

/// A distribution by R's name (without `d`, `p` or `q`), and the parameters of its rows, with their defaults.
pub struct Distribution {
    pub name: &'static str,
    pub parameters: &'static [(&'static str, Option<f64>)],
}

macro_rules! distributions {
    ($($letters:ident $name:literal, $operands:literal, $arity:literal, $flag:ident,
       [$(($parameter:literal, $default:expr)),+], $doc:literal;)*) => {
        /// The distributions, in the order of their rows.
        pub const DISTRIBUTIONS: &[Distribution] =
            &[$(Distribution { name: $name, parameters: &[$(($parameter, $default)),+] }),*];
        pub const ROWS: &[Op] = rows!([] $($letters $name, $operands, $arity, $flag, $doc;)*);
    };
}

/// The rows, one distribution after the other: `dpq` with a density, `pq` without.
#[rustfmt::skip]
macro_rules! rows {
    ([$($row:expr,)*]) => { &[$($row,)*] };
    ([$($row:expr,)*] dpq $name:literal, $operands:literal, $arity:literal, $flag:ident, $doc:literal;
     $($others:tt)*) => {
        rows!([
            $($row,)*
            row!("d", $name, "", $operands, "false", $arity, $flag, concat!("Density, ", $doc)),
            row!("d", $name, "_log", $operands, "true", $arity, $flag, concat!("Logarithm of the density, ", $doc)),
        ] pq $name, $operands, $arity, $flag, $doc; $($others)*)
    };
    ([$($row:expr,)*] pq $name:literal, $operands:literal, $arity:literal, $flag:ident, $doc:literal;
     $($others:tt)*) => {
        rows!([
            $($row,)*
            row!("p", $name, "", $operands, "false, false", $arity, $flag, concat!("Distribution function, ", $doc)),
            row!("p", $name, "_upper", $operands, "true, false", $arity, $flag, concat!("Upper tail, ", $doc)),
            row!("p", $name, "_log", $operands, "false, true", $arity, $flag,
                concat!("Logarithm of the distribution function, ", $doc)),
            row!("p", $name, "_upper_log", $operands, "true, true", $arity, $flag,
                concat!("Logarithm of the upper tail, ", $doc)),
            row!("q", $name, "", $operands, "false, false", $arity, $flag, concat!("Quantile, ", $doc)),
            row!("q", $name, "_upper", $operands, "true, false", $arity, $flag,
                concat!("Quantile of an upper tail, ", $doc)),
            row!("q", $name, "_log", $operands, "false, true", $arity, $flag,
                concat!("Quantile of the logarithm of a probability, ", $doc)),
            row!("q", $name, "_upper_log", $operands, "true, true", $arity, $flag,
                concat!("Quantile of the logarithm of an upper tail, ", $doc)),
        ] $($others)*)
    };
}

macro_rules! row {
    ($letter:literal, $name:literal, $suffix:literal, $operands:literal, $flags:literal, $arity:literal, $flag:ident,
     $doc:expr) => {
        Op {
            name: concat!($letter, $name, $suffix),
            r: concat!($letter, $name),
            group: Group::Distribution,
            arity: $arity,
            rule: Rule::Real,
            flag: Flag::$flag,
            ulp: 4500.0,
            code: &[(FLOATS, concat!($letter, "_", $name, "(", $operands, ", ", $flags, ", w)"))],
            doc: $doc,
        }
    };
}

// lint: wide
distributions! {
    dpq "unif", "a, b, c", 3, NaNsProduced, [("min", Some(0.0)), ("max", Some(1.0))], "uniform between b and c.";
    dpq "exp", "a, b", 2, NaNsProduced, [("rate", Some(1.0))], "exponential of rate b.";
    dpq "gamma", "a, b, c", 3, NaNsProduced, [("shape", None), ("scale", Some(1.0))], "gamma of shape b and scale c.";
    dpq "beta", "a, b, c", 3, NaNsProduced, [("shape1", None), ("shape2", None)], "beta of shapes b and c.";
    dpq "lnorm", "a, b, c", 3, NaNsProduced, [("meanlog", Some(0.0)), ("sdlog", Some(1.0))], "log-normal of a normal with mean b and standard deviation c.";
    dpq "chisq", "a, b", 2, NaNsProduced, [("df", None)], "chi-square of b degrees of freedom.";
    dpq "t", "a, b", 2, NaNsProduced, [("df", None)], "Student's t of b degrees of freedom.";
    dpq "f", "a, b, c", 3, NaNsProduced, [("df1", None), ("df2", None)], "F of b and c degrees of freedom.";
    dpq "weibull", "a, b, c", 3, NaNsProduced, [("shape", None), ("scale", Some(1.0))], "Weibull of shape b and scale c.";
    dpq "logis", "a, b, c", 3, NaNsProduced, [("location", Some(0.0)), ("scale", Some(1.0))], "logistic of location b and scale c.";
    dpq "cauchy", "a, b, c", 3, NaNsProduced, [("location", Some(0.0)), ("scale", Some(1.0))], "Cauchy of location b and scale c.";
    dpq "binom", "a, b, c", 3, NonInteger, [("size", None), ("prob", None)], "binomial of b trials of probability c.";
    dpq "nbinom", "a, b, c", 3, NonInteger, [("size", None), ("prob", None)], "negative binomial of size b and probability c.";
    dpq "nbinom_mu", "a, b, c", 3, NonInteger, [("size", None), ("mu", None)], "negative binomial of size b and mean c.";
    dpq "pois", "a, b", 2, NonInteger, [("lambda", None)], "Poisson of mean b.";
    dpq "geom", "a, b", 2, NonInteger, [("prob", None)], "geometric of probability b.";
    dpq "hyper", "a, b, c, d", 4, NonInteger, [("m", None), ("n", None), ("k", None)], "hypergeometric: white ones among d drawn of b white and c black.";
    dpq "signrank", "a, b", 2, NaNsProduced, [("n", None)], "Wilcoxon's signed rank statistic of b values.";
    dpq "wilcox", "a, b, c", 3, NaNsProduced, [("m", None), ("n", None)], "Wilcoxon's rank sum statistic of b and c values.";
    dpq "chisq_ncp", "a, b, c", 3, NaNsProduced, [("df", None), ("ncp", None)], "chi-square of b degrees of freedom and noncentrality c.";
    dpq "t_ncp", "a, b, c", 3, NaNsProduced, [("df", None), ("ncp", None)], "Student's t of b degrees of freedom and noncentrality c.";
    dpq "beta_ncp", "a, b, c, d", 4, NaNsProduced, [("shape1", None), ("shape2", None), ("ncp", None)], "beta of shapes b and c and noncentrality d.";
    dpq "f_ncp", "a, b, c, d", 4, NaNsProduced, [("df1", None), ("df2", None), ("ncp", None)], "F of b and c degrees of freedom and noncentrality d.";
    pq "tukey", "a, b, c, d", 4, NaNsProduced, [("nmeans", None), ("df", None), ("nranges", Some(1.0))], "studentized range of b means, c degrees of freedom, the largest of d.";
}
// lint: end
