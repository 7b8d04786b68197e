//! Vectors of literal elements: their subscripts are resolved at compile time.

use std::rc::Rc;

use super::join::MOST_LOCAL;
use super::scalar::fold;
use super::value::{range, Number, Value, Vector};
use super::{Compiled, Compiler, Refusal, Span};
use verdigris_ops::dtype::Class;
use verdigris_ops::scalar::Scalar;

impl Compiler<'_> {
    /// The elements of a vector if all of them are known at compile time.
    pub(super) fn constant_elements(&self, v: &Vector) -> Option<Vec<Number>> {
        let n = v.fixed().filter(|n| *n <= MOST_LOCAL)?;
        match v {
            Vector::Local { array, .. } if !self.variable_arrays.contains(array) => {
                self.constant_elements.get(array).cloned()
            }
            Vector::Same { value, .. } => value.constant().map(|_| vec![*value; n]),
            Vector::Range { from, step, .. } => {
                let (from_whole, step) = (from.whole()?, step.whole()?);
                let one = |k: usize| match from.class() {
                    Class::I32 => Number::integer((from_whole + step * k as i64) as i32),
                    _ => Number::double((from_whole + step * k as i64) as f64),
                };
                Some((0..n).map(one).collect())
            }
            Vector::Map { op, args, .. } => {
                let mut columns = Vec::with_capacity(args.len());
                for arg in args {
                    columns.push(match arg {
                        Value::Number(x) => vec![x.constant().map(|_| *x)?],
                        Value::Vector(v) => self.constant_elements(v)?,
                        _ => return None,
                    });
                }
                let one = |k: usize| {
                    let args: Vec<Number> = columns.iter().map(|c| c[k.min(c.len() - 1)]).collect();
                    fold(*op, &args)
                };
                (0..n).map(one).collect()
            }
            _ => None,
        }
    }

    /// A vector of constants.
    pub(super) fn constants(&mut self, numbers: Vec<Number>, span: Span) -> Compiled<Rc<Vector>> {
        let whole: Option<Vec<i64>> = numbers.iter().map(|n| n.whole()).collect();
        let first = whole.as_ref().and_then(|w| w.first().copied()).unwrap_or(1);
        if whole.is_some_and(|w| w.iter().enumerate().all(|(k, x)| *x == first + k as i64)) {
            return Ok(Rc::new(range(first as i32, Number::long(numbers.len() as i64).at)));
        }
        match self.combined(numbers.into_iter().map(|n| (None, Value::Number(n))).collect(), span)? {
            Value::Vector(v) => Ok(v),
            _ => unreachable!("c() gives a vector"),
        }
    }

    /// The refusal of a vector whose length must be known.
    pub(super) fn unfixed(&self, v: &Vector, span: Span) -> Refusal {
        match v {
            Vector::Where { .. } => Refusal::new(
                span,
                "how many elements a logical or negative subscript takes is not known when the function is compiled",
                "Reduce them (sum(), mean(), max(), length()), walk over them in a loop, take one of them ([1]), or keep the length: ifelse(test, x, NA).",
            ),
            _ => super::vector::too_long(span),
        }
    }
}

/// A constant subscript, truncated. None if it is NA or not constant.
pub(super) fn cut_off(n: Number) -> Option<i64> {
    match n.constant()? {
        Scalar::I32(x) if x != verdigris_ops::scalar::NA_I32 => Some(x.into()),
        Scalar::F64(x) if x.abs() < 9e15 => Some(x as i64),
        Scalar::I64(x) if x != i64::MIN => Some(x),
        _ => None,
    }
}

/// A constant whole number, as an integer if it fits.
pub(super) fn small(k: i64) -> Number {
    match i32::try_from(k) {
        Ok(k) => Number::integer(k),
        Err(_) => Number::double(k as f64),
    }
}
