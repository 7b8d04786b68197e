//! Densities, distribution functions and quantiles, with base R's arguments.

use super::builtin::Matched;
use super::value::{Number, Value};
use super::{Compiled, Compiler, Refusal, Span};
use crate::syntax::Argument;
use verdigris_ops::distributions::{Distribution, DISTRIBUTIONS};
use verdigris_ops::{id, OpId};

/// The normal distribution, whose rows are among the special functions.
const NORMAL: Distribution = Distribution { name: "norm", parameters: &[("mean", Some(0.0)), ("sd", Some(1.0))] };

impl Compiler<'_> {
    /// None if `name` is none of these functions.
    pub(super) fn distribution(&mut self, name: &str, args: &[Argument], span: Span) -> Compiled<Option<Value>> {
        let Some(first) = ["d", "p", "q"].iter().position(|letter| name.starts_with(letter)) else { return Ok(None) };
        let (letter, rest) = name.split_at(1);
        let mut all = std::iter::once(&NORMAL).chain(DISTRIBUTIONS);
        // Names with `_`, which R does not have, are distributions with alternative parameters: `nbinom_mu`,
        // `beta_ncp`.
        let Some(mut of) = all.find(|d| d.name == rest && !rest.contains('_')) else { return Ok(None) };
        if OpId::find(name).is_none() {
            return Ok(None); // R has no density of the studentized range
        }
        // R's formals: rate or scale of gamma and prob or mu of nbinom are alternatives, and some distributions have
        // `ncp`.
        let mut names = vec![["x", "q", "p"][first]];
        names.extend(of.parameters.iter().map(|(name, _)| *name));
        match rest {
            "gamma" => names.insert(2, "rate"),
            "nbinom" => names.push("mu"),
            "beta" | "chisq" | "t" | "f" => names.push("ncp"),
            _ => {}
        }
        names.extend(if first == 0 { &["log"][..] } else { &["lower.tail", "log.p"] });
        let matched = Matched::new(name, &names, args, span)?;
        let twice = match rest {
            "gamma" => matched.has("rate") && matched.has("scale"),
            "nbinom" => matched.has("prob") && matched.has("mu"),
            _ => false,
        };
        if twice {
            let both = if rest == "gamma" { "'rate' and 'scale'" } else { "'prob' and 'mu'" };
            return Err(Refusal::new(span, format!("{both} of `{name}`"), "Give one of them."));
        }
        for parameter in ["mu", "ncp"] {
            if names.contains(&parameter) && matched.has(parameter) {
                let with = format!("{rest}_{parameter}");
                of = DISTRIBUTIONS.iter().find(|d| d.name == with).expect("it is in the table");
            }
        }
        let log = matched.flag(self, names[names.len() - 1], false)?;
        let upper = first != 0 && !matched.flag(self, "lower.tail", true)?;
        let row = format!("{letter}{}{}{}", of.name, if upper { "_upper" } else { "" }, if log { "_log" } else { "" });
        let op = OpId::find(&row).expect("each distribution has these rows");
        let mut operands = vec![self.expr(matched.needed(names[0])?)?];
        for &(parameter, default) in of.parameters {
            let value = match (matched.expr(parameter), default) {
                (Some(e), _) => self.expr(e)?,
                (None, _) if parameter == "scale" && matched.has("rate") => {
                    let rate = self.number(matched.needed("rate")?)?;
                    Value::Number(self.apply(id::DIV, &[Number::double(1.0), rate], span)?)
                }
                (None, Some(default)) => Value::Number(Number::double(default)),
                (None, None) => self.expr(matched.needed(parameter)?)?,
            };
            operands.push(value);
        }
        self.row_on(op, operands, span).map(Some)
    }
}
