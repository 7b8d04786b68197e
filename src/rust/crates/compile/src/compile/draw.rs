//! Random draws, one at a time: `rnorm(1, mean, sd)`.

use super::builtin::Matched;
use super::value::Number;
use super::{Compiled, Compiler, Refusal, Source, Span, Statement};
use crate::syntax::Argument;
use crate::Draw;
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::rule::Typed;
use verdigris_ops::{id, OpId};

/// How a generator of R is computed.
enum Way {
    /// A standard draw, and the row that transforms it by the parameters.
    Shaped(Draw, OpId),
    /// A row that draws from its parameters, and whether the result is an integer.
    Row(OpId, bool),
}

impl Compiler<'_> {
    /// A call of one of R's generators, whose count must be 1. None if `name` is none of them.
    pub(super) fn random(&mut self, name: &str, args: &[Argument], span: Span) -> Compiled<Option<Number>> {
        let (parameters, way): (&[(&str, Option<f64>)], Way) = match name {
            "runif" => (&[("min", Some(0.0)), ("max", Some(1.0))], Way::Shaped(Draw::Uniform, id::UNIFORM_DRAW)),
            "rnorm" => (&[("mean", Some(0.0)), ("sd", Some(1.0))], Way::Shaped(Draw::Normal, id::NORMAL_DRAW)),
            "rexp" => (&[("rate", Some(1.0))], Way::Shaped(Draw::Exponential, id::EXPONENTIAL_DRAW)),
            "rlnorm" => {
                (&[("meanlog", Some(0.0)), ("sdlog", Some(1.0))], Way::Shaped(Draw::Normal, id::LOGNORMAL_DRAW))
            }
            "rweibull" => (&[("shape", None), ("scale", Some(1.0))], Way::Shaped(Draw::Exponential, id::WEIBULL_DRAW)),
            "rcauchy" => {
                (&[("location", Some(0.0)), ("scale", Some(1.0))], Way::Shaped(Draw::Uniform, id::CAUCHY_DRAW))
            }
            "rlogis" => {
                (&[("location", Some(0.0)), ("scale", Some(1.0))], Way::Shaped(Draw::Uniform, id::LOGISTIC_DRAW))
            }
            "rgamma" => (&[("shape", None), ("rate", Some(1.0)), ("scale", Some(1.0))], Way::Row(id::RGAMMA, false)),
            "rbeta" => (&[("shape1", None), ("shape2", None)], Way::Row(id::RBETA, false)),
            "rchisq" => (&[("df", None)], Way::Row(id::RCHISQ, false)),
            "rt" => (&[("df", None)], Way::Row(id::RT, false)),
            "rpois" => (&[("lambda", None)], Way::Row(id::RPOIS, true)),
            "rbinom" => (&[("size", None), ("prob", None)], Way::Row(id::RBINOM, true)),
            "rgeom" => (&[("prob", None)], Way::Row(id::RGEOM, true)),
            "rnbinom" => (&[("size", None), ("prob", None)], Way::Row(id::RNBINOM, true)),
            "rhyper" => (&[("m", None), ("n", None), ("k", None)], Way::Row(id::RHYPER, true)),
            "rsignrank" => (&[("n", None)], Way::Row(id::RSIGNRANK, true)),
            "rwilcox" => (&[("m", None), ("n", None)], Way::Row(id::RWILCOX, true)),
            "sample.int" | "sample" => (&[], Way::Row(id::RINDEX, true)),
            _ => return Ok(None),
        };
        let count = match name {
            "sample.int" | "sample" => "size",
            // `n` is a parameter of these distributions, so R calls the count `nn`.
            _ if parameters.iter().any(|(parameter, _)| *parameter == "n") => "nn",
            _ => "n",
        };
        let names: Vec<&str> = if name.starts_with("sample") {
            vec![if name == "sample" { "x" } else { "n" }, "size"]
        } else {
            std::iter::once(count).chain(parameters.iter().map(|(n, _)| *n)).collect()
        };
        let matched = Matched::new(name, &names, args, span)?;
        let n = matched.required(self, count)?;
        if n.whole() != Some(1) {
            return Err(Refusal::new(
                span,
                format!("`{name}` of another count than 1"),
                format!(
                    "Draw one at a time, in a loop where several are wanted: {name}({}).",
                    if parameters.is_empty() { "n, 1" } else { "1, ..." }
                ),
            ));
        }
        let mut values = Vec::new();
        let mut plain = true;
        if name.starts_with("sample") {
            let most = matched.required(self, names[0])?;
            let most = self.double(most, span)?;
            self.counts_from_one(name, most, span)?;
            values.push(most);
        }
        for (parameter, default) in parameters {
            match (matched.optional(self, parameter)?, default) {
                (Some(n), _) => {
                    plain = false;
                    values.push(self.double(n, span)?);
                }
                (None, Some(default)) => values.push(Number::double(*default)),
                (None, None) => {
                    return Err(Refusal::new(
                        span,
                        format!("argument \"{parameter}\" is missing, with no default"),
                        format!("Write {name}(1, {parameter} = ...)."),
                    ))
                }
            }
        }
        if name == "rgamma" {
            if matched.has("rate") && matched.has("scale") {
                return Err(Refusal::new(span, "'rate' and 'scale' of `rgamma`", "Give one of them."));
            }
            // The row takes shape and scale.
            let rate = values.remove(1);
            if matched.has("rate") {
                values[1] = self.apply(id::DIV, &[Number::double(1.0), rate], span)?;
            }
        }
        self.parameter(Source::Key);
        let to = self.fresh(Class::F64);
        let result = match way {
            Way::Shaped(draw, shape) => {
                let family = match draw {
                    Draw::Uniform => 0,
                    Draw::Normal => 1,
                    _ => 2,
                };
                let count = self.count(family);
                self.emit(Statement::Draw { to, draw, count, args: vec![] });
                let standard = Number::register(to, Typed::Value(Kind::Double));
                let is_shaped = !plain || matches!(name, "rlnorm" | "rcauchy" | "rlogis");
                if is_shaped {
                    let args: Vec<Number> = std::iter::once(standard).chain(values).collect();
                    self.apply(shape, &args, span)?
                } else {
                    standard
                }
            }
            Way::Row(op, counts) => {
                let count = self.count(3);
                self.emit(Statement::Draw {
                    to,
                    draw: Draw::Row(op),
                    count,
                    args: values.iter().map(|n| n.at).collect(),
                });
                let drawn = Number::register(to, Typed::Value(Kind::Double));
                if counts {
                    self.cast(drawn, DType::Int32)
                } else {
                    drawn
                }
            }
        };
        Ok(Some(result))
    }

    /// Fails unless `sample(n, 1)` draws from 1 to n. Below 1, R's `sample()` returns n itself, and its `sample.int()`
    /// fails.
    fn counts_from_one(&mut self, name: &str, n: Number, span: Span) -> Compiled<()> {
        if n.whole().is_some_and(|n| n >= 1) {
            return Ok(());
        }
        let message = match name {
            "sample" => "sample() of a number below 1, which it gives back",
            _ => "invalid first argument",
        };
        let fails = self.failure(span, message);
        let fits = self.apply(id::GE, &[n, Number::double(1.0)], span)?;
        let otherwise = vec![Statement::Fail(fails)];
        self.emit(Statement::If { value: fits.at, missing: Some(fails), then: vec![], otherwise });
        Ok(())
    }

    /// The number as a double of R's (not of an array).
    pub(super) fn double(&mut self, n: Number, span: Span) -> Compiled<Number> {
        if n.kind() > Kind::Double {
            return Err(Refusal::new(
                span,
                "a complex number stands where a real one is needed",
                "Take Re() or Mod().",
            ));
        }
        let n = self.cast(n, DType::Float64);
        Ok(Number { typed: Typed::Value(Kind::Double), ..n })
    }

    /// The register that counts the draws of a family.
    fn count(&mut self, family: usize) -> super::Register {
        if let Some(register) = self.counts[family] {
            return register;
        }
        let register = self.fresh(Class::I32);
        self.variable_registers.insert(register);
        self.preamble.push(Statement::Move { to: register, from: Number::integer(0).at });
        self.counts[family] = Some(register);
        register
    }
}
