//! `seq()` and `seq.int()`.

use std::rc::Rc;

use super::builtin::Matched;
use super::value::{range, Number, Value, Vector};
use super::vector::too_many;
use super::{Compiled, Compiler, Refusal, Span, Statement};
use crate::syntax::Argument;
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::id;
use verdigris_ops::rule::Typed;
use verdigris_ops::scalar::Scalar;

/// Ends that are so close, relative to their size, are one number for R.
const CLOSE: f64 = 100.0 * f64::EPSILON;
const WRONG_SIGN: &str = "wrong sign in 'by' argument";

impl Compiler<'_> {
    /// `seq(from, to, by, length.out = n)`, where at least one of the first three is not given.
    fn sequence_of_length(
        &mut self,
        from: Option<Number>,
        to: Option<Number>,
        by: Option<Number>,
        n: Number,
        span: Span,
    ) -> Compiled<Value> {
        for (end, message) in [(from, "'from' must be a finite number"), (to, "'to' must be a finite number")] {
            let Some(end) = end else { continue };
            let finite = self.apply(id::IS_FINITE, &[end], span)?;
            let not_finite = self.apply(id::NOT, &[finite], span)?;
            self.fail_if(not_finite.at, message, span);
        }
        // R rounds a count up.
        let n = match n.constant() {
            Some(Scalar::F64(x)) => Number::double(x.ceil()),
            _ if n.kind() == Kind::Double => self.apply(id::CEILING, &[n], span)?,
            _ => n,
        };
        let counted = self.counted(n, span)?;
        let Value::Vector(range) = &counted else { unreachable!("counted() returns a range") };
        let length = range.length();
        let n = self.double(Number { at: length, typed: Typed::Value(Kind::Integer64) }, span)?;
        let steps = self.apply(id::SUB, &[n, Number::double(1.0)], span)?;
        let (from, step) = match (from, to, by) {
            (Some(_), Some(_), Some(_)) => {
                return Err(Refusal::new(
                    span,
                    "too many arguments",
                    "Leave out one of `from`, `to`, `by` and `length.out`.",
                ))
            }
            (None, None, None) => return Ok(counted),
            (Some(from), Some(to), None) => {
                let (from, to) = (self.double(from, span)?, self.double(to, span)?);
                let (from, to) = (self.frozen(from), self.frozen(to));
                let distance = self.apply(id::SUB, &[to, from], span)?;
                let steps = self.apply(id::PMAX, &[steps, Number::double(1.0)], span)?;
                let step = self.apply(id::DIV, &[distance, steps], span)?;
                if !divides(from, to, range.fixed()) {
                    let step = self.frozen(step);
                    return self.between(Vector::Range { from, step, length }, to, n, span);
                }
                (from, step)
            }
            (from, to, by) => {
                // Base R returns integers if the given end and `by` are integers.
                let end = from.or(to).unwrap_or(Number::integer(1));
                let integers = by.is_some_and(|by| by.kind() <= Kind::Integer)
                    && end.kind() <= Kind::Integer
                    && (from.is_some() || to.is_some());
                let step = self.double(by.unwrap_or(Number::double(1.0)), span)?;
                let step = self.frozen(step);
                let mut start = self.double(end, span)?;
                if from.is_none() && to.is_some() {
                    let distance = self.apply(id::MUL, &[steps, step], span)?;
                    start = self.apply(id::SUB, &[start, distance], span)?;
                }
                match integers {
                    true => (self.cast(start, DType::Int32), self.cast(step, DType::Int32)),
                    false => (start, step),
                }
            }
        };
        let (from, step) = (self.frozen(from), self.frozen(step));
        Ok(Value::vector(Vector::Range { from, step, length }))
    }

    /// `seq()` and `seq.int()`.
    pub(super) fn sequence(&mut self, name: &str, args: &[Argument], span: Span) -> Compiled<Value> {
        let matched = Matched::new("seq", &["from", "to", "by", "length.out"], args, span)?;
        let by = matched.expr("by");
        let count = matched.expr("length.out");
        if let (None, None, None) = (matched.expr("to"), by, count) {
            return match self.expr(matched.needed("from")?)? {
                Value::Number(n) => self.colon(Number::integer(1), n, span),
                // seq() of one number is 1:x.
                Value::Vector(v) if v.fixed() == Some(1) => {
                    let n = self.element(&v, Number::integer(0).at, span)?;
                    self.colon(Number::integer(1), n, span)
                }
                Value::Vector(v) => {
                    let n = self.length_of(&v);
                    if v.fixed().is_none() {
                        let one = self.apply(id::EQ, &[n, Number::integer(1)], span)?;
                        let message = "seq() of a vector of one element, which counts to it: write seq_along(x)";
                        self.fail_if(one.at, message, span);
                    }
                    self.counted(n, span)
                }
                other => Err(Refusal::new(span, format!("seq() of {}", other.what()), "Give numbers.")),
            };
        }
        let from = matched.optional(self, "from")?;
        let from = from.map(|n| self.frozen(n));
        if let Some(count) = count {
            let to = matched.optional(self, "to")?;
            let by = matched.optional(self, "by")?;
            let n = self.number(count)?;
            return self.sequence_of_length(from, to, by, n, span);
        }
        let from = from.unwrap_or(Number::integer(1));
        let to = matched.required(self, "to")?;
        let Some(by) = by else { return self.colon(from, to, span) };
        let by = self.number(by)?;
        let integers = [from, to, by].iter().all(|n| n.kind() <= Kind::Integer);
        // seq.int() gives integers too if `from` is whole and `by` is an integer.
        let whole = |n: Number| n.whole().filter(|k| i32::try_from(*k).is_ok());
        let (from, by) = match (integers, whole(from), whole(by)) {
            (true, ..) => (from, by),
            (_, Some(a), Some(_)) if name == "seq.int" && by.kind() == Kind::Integer => (Number::integer(a as i32), by),
            _ => (self.double(from, span)?, self.double(by, span)?),
        };
        let (from, by) = (self.frozen(from), self.frozen(by));
        let (x, y, s) = (self.double(from, span)?, self.double(to, span)?, self.double(by, span)?);
        let y = self.frozen(y);
        if let (Some(Scalar::F64(a)), Some(Scalar::F64(b)), Some(Scalar::F64(s))) =
            (x.constant(), y.constant(), s.constant())
        {
            let steps = steps_between(a, b, s, span)?;
            let length = Number::long(steps + 1).at;
            let sequence = Vector::Range { from, step: by, length };
            return match a + steps as f64 * s == b || [a, s].iter().all(|x| x.fract() == 0.0) {
                true => Ok(Value::vector(sequence)),
                false => self.clamped(sequence, by, y, span),
            };
        }
        let steps = self.steps(x, y, s, integers, span)?;
        let turns = self.apply(id::ADD, &[steps, Number::double(1.0)], span)?;
        let length = self.long(turns);
        let sequence = Vector::Range { from, step: by, length };
        match from.kind() == Kind::Double {
            true => self.clamped(sequence, by, y, span),
            false => Ok(Value::vector(sequence)),
        }
    }

    /// The number of steps of `seq(x, y, by)`, rounded down.
    fn steps(&mut self, x: Number, y: Number, by: Number, integers: bool, span: Span) -> Compiled<Number> {
        let zero = Number::double(0.0);
        let distance = self.apply(id::SUB, &[y, x], span)?;
        let steps = self.apply(id::DIV, &[distance, by], span)?;
        let mut none = self.apply(id::EQ, &[distance, zero], span)?;
        if !integers {
            let (a, b) = (self.apply(id::ABS, &[x], span)?, self.apply(id::ABS, &[y], span)?);
            let size = self.apply(id::PMAX, &[a, b], span)?;
            let close = self.apply(id::MUL, &[size, Number::double(CLOSE)], span)?;
            let apart = self.apply(id::ABS, &[distance], span)?;
            let close = self.apply(id::LT, &[apart, close], span)?;
            none = self.apply(id::OR, &[none, close], span)?;
        }
        let steps = self.apply(id::SELECT, &[none, zero, steps], span)?;
        let leads = self.apply(id::GE, &[steps, zero], span)?;
        let few = self.apply(id::LT, &[steps, Number::double(i32::MAX.into())], span)?;
        for (test, message) in [(leads, WRONG_SIGN), (few, "'by' argument is much too small")] {
            let fails = self.failure(span, message);
            let otherwise = vec![Statement::Fail(fails)];
            self.emit(Statement::If { value: test.at, missing: Some(fails), then: vec![], otherwise });
        }
        let steps = self.apply(id::ADD, &[steps, Number::double(1e-10)], span)?;
        self.apply(id::FLOOR, &[steps], span)
    }

    /// A sequence of doubles whose last element, by a rounding error, may lie beyond `to`.
    fn clamped(&mut self, sequence: Vector, by: Number, to: Number, span: Span) -> Compiled<Value> {
        let Vector::Range { from, .. } = sequence else { unreachable!("a sequence is one") };
        let sequence = Value::vector(sequence);
        let by = by.constant().map(|by| by.to(Class::F64));
        if let Some(Scalar::F64(by)) = by {
            let op = if by > 0.0 { id::PMIN } else { id::PMAX };
            return self.map(op, vec![sequence, Value::Number(to)], span);
        }
        let least = self.apply(id::PMIN, &[from, to], span)?;
        let most = self.apply(id::PMAX, &[from, to], span)?;
        let sequence = self.map(id::PMIN, vec![sequence, Value::Number(most)], span)?;
        self.map(id::PMAX, vec![sequence, Value::Number(least)], span)
    }

    /// `seq(from, to, length.out = n)`, given the sequence up to rounding: as in R, the last element is exactly `to`.
    fn between(&mut self, sequence: Vector, to: Number, n: Number, span: Span) -> Compiled<Value> {
        let Vector::Range { from, length, .. } = sequence else { unreachable!("a sequence is one") };
        let sequence = Value::vector(sequence);
        let short = self.apply(id::LT, &[n, Number::double(2.0)], span)?;
        let end = self.apply(id::SELECT, &[short, from, to], span)?;
        let positions = Value::Vector(Rc::new(range(1, length)));
        let count = self.count_to_int(length);
        let last = self.map(id::EQ, vec![positions, Value::Number(count)], span)?;
        self.map(id::SELECT, vec![last, Value::Number(end), sequence], span)
    }
}

/// Whether the step of `seq(from, to, length.out = n)` is a whole number, so that all elements are exact.
fn divides(from: Number, to: Number, n: Option<usize>) -> bool {
    match (from.whole(), to.whole(), n) {
        (_, _, Some(0 | 1)) => true,
        (Some(a), Some(b), Some(n)) => (b - a) % (n as i64 - 1) == 0,
        _ => false,
    }
}

/// The number of steps of `seq(a, b, by)` of constants, rounded down.
fn steps_between(a: f64, b: f64, by: f64, span: Span) -> Compiled<i64> {
    let distance = b - a;
    if distance == 0.0 {
        return Ok(0);
    }
    let steps = distance / by;
    if steps.is_nan() || steps < 0.0 {
        return Err(Refusal::new(span, WRONG_SIGN, "Let `by` lead from `from` to `to`."));
    }
    if steps >= i32::MAX.into() {
        return Err(too_many(span));
    }
    if distance.abs() / a.abs().max(b.abs()) < CLOSE {
        return Ok(0);
    }
    Ok((steps + 1e-10).floor() as i64)
}
