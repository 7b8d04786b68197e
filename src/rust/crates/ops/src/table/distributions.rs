//! The distributions of stats (kernels/distributions.h, kernels/discrete.h): ten rows each, for density, distribution
//! function and quantile, of either tail, and in logarithms.
//!
//! Against 40-digit values the continuous ones are within 1e-13, and within 1e-10 down to 1e-300
//! (`tests/testthat/test-diff-distributions.R`, docs/distributions.md). `ulp` is base R's error.

use super::*;

/// A distribution as R names it: what follows `d`, `p` and `q`, and the parameters of its rows, with their defaults.
pub struct Distribution {
    pub name: &'static str,
    pub parameters: &'static [(&'static str, Option<f64>)],
}

macro_rules! distributions {
    ($($name:literal, $operands:literal, $arity:literal, $flag:ident,
       [$(($parameter:literal, $default:expr)),+], $doc:literal;)*) => {
        /// In the order of the rows.
        pub const DISTRIBUTIONS: &[Distribution] =
            &[$(Distribution { name: $name, parameters: &[$(($parameter, $default)),+] }),*];
        #[rustfmt::skip]
        pub const ROWS: &[Op] = &[$(
            row!("d", $name, "", $operands, "false", $arity, $flag, concat!("Density, ", $doc)),
            row!("d", $name, "_log", $operands, "true", $arity, $flag, concat!("Logarithm of the density, ", $doc)),
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
        )*];
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
    "unif", "a, b, c", 3, NaNsProduced, [("min", Some(0.0)), ("max", Some(1.0))], "uniform between b and c.";
    "exp", "a, b", 2, NaNsProduced, [("rate", Some(1.0))], "exponential of rate b.";
    "gamma", "a, b, c", 3, NaNsProduced, [("shape", None), ("scale", Some(1.0))], "gamma of shape b and scale c.";
    "beta", "a, b, c", 3, NaNsProduced, [("shape1", None), ("shape2", None)], "beta of shapes b and c.";
    "lnorm", "a, b, c", 3, NaNsProduced, [("meanlog", Some(0.0)), ("sdlog", Some(1.0))], "log-normal of a normal with mean b and standard deviation c.";
    "chisq", "a, b", 2, NaNsProduced, [("df", None)], "chi-square of b degrees of freedom.";
    "t", "a, b", 2, NaNsProduced, [("df", None)], "Student's t of b degrees of freedom.";
    "f", "a, b, c", 3, NaNsProduced, [("df1", None), ("df2", None)], "F of b and c degrees of freedom.";
    "weibull", "a, b, c", 3, NaNsProduced, [("shape", None), ("scale", Some(1.0))], "Weibull of shape b and scale c.";
    "logis", "a, b, c", 3, NaNsProduced, [("location", Some(0.0)), ("scale", Some(1.0))], "logistic of location b and scale c.";
    "cauchy", "a, b, c", 3, NaNsProduced, [("location", Some(0.0)), ("scale", Some(1.0))], "Cauchy of location b and scale c.";
    "binom", "a, b, c", 3, NonInteger, [("size", None), ("prob", None)], "binomial of b trials of probability c.";
    "nbinom", "a, b, c", 3, NonInteger, [("size", None), ("prob", None)], "negative binomial of size b and probability c.";
    "nbinom_mu", "a, b, c", 3, NonInteger, [("size", None), ("mu", None)], "negative binomial of size b and mean c.";
    "pois", "a, b", 2, NonInteger, [("lambda", None)], "Poisson of mean b.";
    "geom", "a, b", 2, NonInteger, [("prob", None)], "geometric of probability b.";
}
// lint: end
