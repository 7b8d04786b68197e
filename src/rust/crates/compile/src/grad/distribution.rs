//! Derivatives of densities, distribution functions and quantiles.
//!
//! Derivatives of densities follow from the score (the derivatives of the log density). Derivatives of distribution
//! functions with respect to parameters are closed forms if the quantile is a simple function of the parameters:
//! `velocity` is the derivative of x with respect to a parameter at constant probability, so that dF = f (dx - v da)
//! and dq = dp / f + v da. Other derivatives are refused.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::{Operand, Writer};
use verdigris_ops::{id, OpId};

/// A formula, as an expression tree.
#[derive(Clone)]
enum Term {
    Is(Operand),
    Number(f64),
    Of(OpId, Vec<Term>),
}

macro_rules! operator {
    ($trait:ident, $method:ident, $id:expr) => {
        impl<T: Into<Term>> $trait<T> for Term {
            type Output = Term;
            fn $method(self, other: T) -> Term {
                Term::Of($id, vec![self, other.into()])
            }
        }
        impl $trait<Term> for f64 {
            type Output = Term;
            fn $method(self, other: Term) -> Term {
                Term::Of($id, vec![Term::Number(self), other])
            }
        }
    };
}
operator!(Add, add, id::ADD);
operator!(Sub, sub, id::SUB);
operator!(Mul, mul, id::MUL);
operator!(Div, div, id::DIV);

impl From<f64> for Term {
    fn from(x: f64) -> Term {
        Term::Number(x)
    }
}

impl Neg for Term {
    type Output = Term;
    fn neg(self) -> Term {
        Term::Of(id::NEG, vec![self])
    }
}

fn of(op: OpId, x: Term) -> Term {
    Term::Of(op, vec![x])
}
fn log(x: Term) -> Term {
    of(id::LOG, x)
}
fn log1p(x: Term) -> Term {
    of(id::LOG1P, x)
}
fn digamma(x: Term) -> Term {
    of(id::DIGAMMA, x)
}
fn square(x: Term) -> Term {
    x.clone() * x
}

fn row(name: &str) -> OpId {
    OpId::find(name).expect("each distribution has these rows")
}

/// The derivative of the log density with respect to x (`by` is 0) or a parameter.
fn score(name: &str, by: usize, x: Term, a: Term, b: Term) -> Option<Term> {
    let z = || (x.clone() - a.clone()) / b.clone();
    let lz = || (log(x.clone()) - a.clone()) / b.clone();
    let ab = || digamma(a.clone() + b.clone());
    let half = |t: &Term| 0.5 * t.clone();
    Some(match (name, by) {
        ("unif", 0) => Term::Number(0.0),
        ("unif", 1) => 1.0 / (b - a),
        ("unif", _) => -1.0 / (b - a),
        ("exp", 0) => -a,
        ("exp", _) => 1.0 / a - x,
        ("gamma", 0) => (a - 1.0) / x - 1.0 / b,
        ("gamma", 1) => log(x / b) - digamma(a),
        ("gamma", _) => (x / b.clone() - a) / b,
        ("beta", 0) => (a - 1.0) / x.clone() - (b - 1.0) / (1.0 - x),
        ("beta", 1) => log(x) - digamma(a.clone()) + ab(),
        ("beta", _) => log1p(-x) - digamma(b.clone()) + ab(),
        ("lnorm", 0) => -(1.0 + lz() / b) / x,
        ("lnorm", 1) => lz() / b,
        ("lnorm", _) => (square(lz()) - 1.0) / b,
        ("chisq", 0) => (half(&a) - 1.0) / x - 0.5,
        ("chisq", _) => 0.5 * (log(half(&x)) - digamma(half(&a))),
        ("t", 0) => -(a.clone() + 1.0) * x.clone() / (a + square(x)),
        ("t", _) => {
            let s = square(x);
            let gammas = digamma(half(&(a.clone() + 1.0))) - digamma(half(&a));
            let last = (a.clone() + 1.0) * s.clone() / (a.clone() * (a.clone() + s.clone()));
            0.5 * (gammas - 1.0 / a.clone() - log1p(s / a) + last)
        }
        ("f", 0) => {
            let rest = a.clone() / (b.clone() + a.clone() * x.clone());
            (half(&a) - 1.0) / x - half(&(a + b)) * rest
        }
        ("f", _) => {
            let ratio = a.clone() * x.clone() / b.clone();
            let both = digamma(half(&(a.clone() + b.clone())));
            let common = both - log1p(ratio.clone());
            let share = (a.clone() + b.clone()) / (b.clone() + a.clone() * x.clone());
            match by {
                1 => 0.5 * (log(ratio) + 1.0 - share * x - digamma(half(&a)) + common),
                _ => 0.5 * (share * ratio - a / b.clone() - digamma(half(&b)) + common),
            }
        }
        ("weibull", _) => {
            let ratio = x.clone() / b.clone();
            let power = Term::Of(id::POW, vec![ratio.clone(), a.clone()]);
            match by {
                0 => (a.clone() - 1.0 - a * power) / x,
                1 => 1.0 / a + log(ratio) * (1.0 - power),
                _ => a * (power - 1.0) / b,
            }
        }
        ("logis" | "cauchy", _) => {
            let slope = match name {
                "logis" => of(id::TANH, half(&z())),
                _ => 2.0 * z() / (1.0 + square(z())),
            };
            match by {
                0 => -slope / b,
                1 => slope / b,
                _ => (z() * slope - 1.0) / b,
            }
        }
        ("binom", 1) => digamma(a.clone() + 1.0) - digamma(a - x + 1.0) + log1p(-b),
        ("binom", 2) => x.clone() / b.clone() - (a - x) / (1.0 - b),
        ("nbinom", 1) => digamma(x + a.clone()) - digamma(a) + log(b),
        ("nbinom", 2) => a / b.clone() - x / (1.0 - b),
        ("nbinom_mu", 1) => {
            let sum = a.clone() + b.clone();
            digamma(x.clone() + a.clone()) - digamma(a.clone()) + log(a / sum.clone()) + (b - x) / sum
        }
        ("nbinom_mu", 2) => x.clone() / b.clone() - (x + a.clone()) / (a + b),
        ("pois", 1) => x / a - 1.0,
        ("geom", 1) => 1.0 / a.clone() - x / (1.0 - a),
        _ => return None,
    })
}

/// The derivative of a quantile with respect to a parameter.
fn velocity(name: &str, by: usize, x: Term, a: Term, b: Term) -> Option<Term> {
    Some(match (name, by) {
        ("unif", 1) => (b.clone() - x) / (b - a),
        ("unif", 2) => (x - a.clone()) / (b - a),
        ("exp", 1) => -x / a,
        ("gamma" | "weibull", 2) => x / b,
        ("weibull", 1) => -x.clone() * log(x / b) / a,
        ("lnorm", 1) => x,
        ("lnorm", 2) => x.clone() * (log(x) - a) / b,
        ("logis" | "cauchy", 1) => Term::Number(1.0),
        ("logis" | "cauchy", 2) => (x - a) / b,
        _ => return None,
    })
}

/// The derivative of a discrete distribution function with respect to a parameter.
fn step_velocity(name: &str, by: usize, x: Term, a: Term, b: Term) -> Option<Term> {
    let k = of(id::FLOOR, x + 1e-7);
    let beta = |p: Term, a: Term, b: Term| Term::Of(row("dbeta"), vec![p, a, b]);
    Some(match (name, by) {
        ("pois", 1) => -Term::Of(row("dpois"), vec![k, a]),
        ("binom", 2) => -beta(b, k.clone() + 1.0, a - k),
        ("nbinom", 2) => beta(b, a, k + 1.0),
        ("geom", 1) => beta(a, Term::Number(1.0), k + 1.0),
        _ => return None,
    })
}

/// The density with the shape that the noncentrality mixes increased by one step, divided by the density: the Poisson
/// mixture over j, weighted by j, is half the noncentrality times the former. `t` is x, the parameters, and the
/// noncentrality.
fn next_density(name: &str, t: &[Term]) -> Term {
    let density = |x: Term, shape: Term| {
        let mut terms = vec![x, shape];
        terms.extend_from_slice(&t[2..]);
        Term::Of(row(&format!("d{name}_log")), terms)
    };
    let (x, a) = (t[0].clone(), t[1].clone());
    let here = density(x.clone(), a.clone());
    match name {
        "chisq_ncp" => of(id::EXP, density(x, a + 2.0) - here),
        "beta_ncp" => of(id::EXP, density(x, a + 1.0) - here),
        _ => {
            let scale = a.clone() / (a.clone() + 2.0);
            scale.clone() * of(id::EXP, density(x * scale, a + 2.0) - here)
        }
    }
}

/// `score` of the noncentral chi-square, beta and F. None with respect to shapes and degrees of freedom.
fn noncentral_score(name: &str, by: usize, t: &[Term]) -> Option<Term> {
    if !matches!(name, "chisq_ncp" | "beta_ncp" | "f_ncp") {
        return None;
    }
    let (x, a, ncp) = (t[0].clone(), t[1].clone(), t[t.len() - 1].clone());
    if by == t.len() - 1 {
        return Some(0.5 * (next_density(name, t) - 1.0));
    }
    if by != 0 {
        return None;
    }
    let central = score(name.trim_end_matches("_ncp"), 0, x.clone(), a.clone(), t[2].clone())?;
    let mixed = 0.5 * ncp / x.clone() * next_density(name, t);
    Some(match name {
        "f_ncp" => central + mixed * (t[2].clone() / (t[2].clone() + a * x)),
        _ => central + mixed,
    })
}

impl Writer<'_, '_> {
    fn write(&mut self, term: &Term) -> Operand {
        match term {
            Term::Is(operand) => *operand,
            Term::Number(x) => self.c(*x),
            Term::Of(op, terms) => {
                let operands: Vec<Operand> = terms.iter().map(|t| self.write(t)).collect();
                self.apply(*op, &operands)
            }
        }
    }

    /// The derivative of `y = op(args)` for a row of a distribution. `d` holds the derivatives of the operands.
    pub(super) fn distribution(
        &mut self,
        op: OpId,
        args: &[Operand],
        y: Operand,
        d: &[Option<Operand>],
    ) -> Result<Operand, String> {
        let full = op.row().r;
        let flags = op.row().name.strip_prefix(full).unwrap_or("");
        let (upper, logged) = (flags.contains("_upper"), flags.contains("_log"));
        let (letter, name) = full.split_at(1);
        let counts =
            matches!(name, "binom" | "nbinom" | "nbinom_mu" | "pois" | "geom" | "hyper" | "signrank" | "wilcox");
        let refused = || full.trim_end_matches("_ncp").to_string();
        if name == "tukey" {
            return Err(refused()); // The studentized range has no density in R.
        }
        let x = if letter == "q" { y } else { args[0] };
        let (x, a) = (Term::Is(x), Term::Is(args[1]));
        let b = args.get(2).map_or(a.clone(), |b| Term::Is(*b));
        if counts && letter == "q" {
            return Ok(self.c(0.0));
        }
        let operands = || {
            let mut terms = vec![x.clone(), a.clone()];
            terms.extend(args[2..].iter().map(|b| Term::Is(*b)));
            terms
        };
        let density = || Term::Of(row(&format!("d{name}_log")), operands());
        let sign = if upper { -1.0 } else { 1.0 };
        let mut total: Option<Term> = None;
        for by in 0..args.len() {
            let Some(d) = d[by] else { continue };
            let find = |f: fn(&str, usize, Term, Term, Term) -> Option<Term>| {
                f(name, by, x.clone(), a.clone(), b.clone()).ok_or_else(refused)
            };
            let factor = match (letter, by) {
                ("d", _) if name.ends_with("_ncp") => noncentral_score(name, by, &operands()).ok_or_else(refused)?,
                // d/dncp of the distribution function is minus twice the density with two more degrees of freedom.
                ("p", 2) if name == "chisq_ncp" => -next_density(name, &operands()),
                ("q", 2) if name == "chisq_ncp" => next_density(name, &operands()),
                ("d", _) => find(score)?,
                ("p", 0) if counts => Term::Number(0.0),
                ("p", 0) => Term::Number(1.0),
                ("p", _) if counts => find(step_velocity)?,
                ("p", _) => -find(velocity)?,
                ("q", 0) => {
                    let p = if logged { Term::Is(args[0]) } else { Term::Number(0.0) };
                    sign * of(id::EXP, p - density())
                }
                _ => find(velocity)?,
            };
            let term = factor * Term::Is(d);
            total = Some(match total {
                Some(sum) => sum + term,
                None => term,
            });
        }
        let total = total.unwrap_or(Term::Number(0.0));
        let term = match (letter, logged) {
            ("d", false) => Term::Is(y) * total,
            ("p", false) if counts => sign * total,
            ("p", true) if counts => sign * total / of(id::EXP, Term::Is(y)),
            ("p", false) => sign * of(id::EXP, density()) * total,
            ("p", true) => sign * of(id::EXP, density() - Term::Is(y)) * total,
            _ => total,
        };
        Ok(self.write(&term))
    }
}
