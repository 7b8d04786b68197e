//! Subscripts by R's rules: positive numbers, negative numbers, which exclude elements, and logicals. The number of
//! TRUEs is not known at compile time, so a logical subscript is a loop with a condition (`Vector::Where`).

use std::rc::Rc;

use super::constants::{cut_off, small};
use super::join::MOST_LOCAL;
use super::kinds::never_missing;
use super::value::range;
use super::value::{self, Container, Number, Value, Vector};
use super::{Compiled, Compiler, Operand, Refusal, Span, Statement};
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::rule::Typed;
use verdigris_ops::scalar::Scalar;
use verdigris_ops::{id, OpId};

/// The elements that a subscript selects.
pub(super) enum Selection {
    All,
    One(Number),
    /// The elements with these numbers (from 1).
    At(Rc<Vector>),
    /// The elements whose logical is not FALSE; NA if it is NA. The mask is as long as the vector, or longer.
    Where(Rc<Vector>),
}

/// The error for a subscript that mixes signs.
const MIXED: &str = "only 0's may be mixed with negative subscripts";
const WRITE_NUMBERS: &str = "Subscripts are numbers and logicals.";
/// Up to so many excluded numbers are compared one by one.
const MOST_LEFT_OUT: usize = 8;

fn integer(at: Operand) -> Number {
    Number { at, typed: Typed::Value(Kind::Integer) }
}

fn none() -> Selection {
    Selection::At(Rc::new(range(1, Number::long(0).at)))
}

/// The same elements without dimensions.
pub(super) fn flat(v: &Rc<Vector>) -> Rc<Vector> {
    let mut out = (**v).clone();
    match &mut out {
        Vector::Table { dim, .. } if !dim.is_empty() => dim.clear(),
        Vector::Local { dim, .. } | Vector::Map { dim, .. } | Vector::Same { dim, .. } if dim.is_some() => *dim = None,
        _ => return v.clone(),
    }
    Rc::new(out)
}

/// A value with other dimensions. A vector whose elements are those of a table has none.
pub(super) fn shaped(value: Value, to: Option<(u16, u16)>) -> Value {
    let Value::Vector(v) = value else { return value };
    let mut out = (*flat(&v)).clone();
    if let Vector::Local { dim, .. } | Vector::Map { dim, .. } | Vector::Same { dim, .. } = &mut out {
        *dim = to;
    }
    Value::vector(out)
}

impl Compiler<'_> {
    /// The elements that a subscript, written at `span`, selects of a vector of `extent` elements.
    pub(super) fn selection(&mut self, value: Value, extent: Operand, span: Span) -> Compiled<Selection> {
        let complex = || Refusal::new(span, "invalid subscript type 'complex'", WRITE_NUMBERS);
        match value {
            Value::Null => Ok(none()),
            Value::Number(n) => {
                self.needs_known_logical(n);
                match n.kind() {
                    Kind::Complex => Err(complex()),
                    Kind::Logical => self.by_logical(n, extent, span),
                    _ => self.by_number(n, extent, span),
                }
            }
            Value::Vector(v) => match value::dtype(v.typed()).kind() {
                Kind::Complex => Err(complex()),
                Kind::Logical => self.by_mask(&v, extent, span),
                _ => self.by_numbers(v, extent, span),
            },
            Value::Parts(Container::Named, parts) => {
                let v = self.combined(parts, span)?;
                self.selection(v, extent, span)
            }
            other => Err(Refusal::new(span, format!("{} as a subscript", other.what()), WRITE_NUMBERS)),
        }
    }

    /// One logical selects all elements or none. Of an empty vector it selects one NA element.
    fn by_logical(&mut self, n: Number, extent: Operand, span: Span) -> Compiled<Selection> {
        let n = self.cast(n, DType::Bool8);
        let all = match extent {
            Operand::Constant(Scalar::I64(n)) => Number::long(n.max(1)).at,
            _ => {
                let count = self.count_to_int(extent);
                let all = self.apply(id::PMAX, &[count, Number::integer(1)], span)?;
                self.int_to_count(all)
            }
        };
        let same = |value| Rc::new(Vector::Same { value, length: all, dim: None });
        Ok(match n.constant() {
            Some(Scalar::I32(0)) => none(),
            Some(Scalar::I32(1)) if all == extent => Selection::All,
            Some(Scalar::I32(1)) => Selection::At(Rc::new(range(1, all))),
            Some(_) => Selection::At(same(Number::integer(verdigris_ops::scalar::NA_I32))),
            None => {
                let n = self.frozen(n);
                Selection::Where(same(n))
            }
        })
    }

    fn by_number(&mut self, n: Number, extent: Operand, span: Span) -> Compiled<Selection> {
        let Some(k) = cut_off(n) else {
            return match n.at {
                Operand::Register(r) if self.negated.contains(&r) => self.by_negated(n, extent, span),
                _ => Ok(Selection::One(n)),
            };
        };
        match k {
            0 => Ok(none()),
            k if k < 0 => self.without(&[-k], extent, span),
            _ => Ok(Selection::One(n)),
        }
    }

    /// `-i`, for a number i whose sign is not known at compile time. If i is negative, `-i` is an ordinary positive
    /// subscript.
    fn by_negated(&mut self, n: Number, extent: Operand, span: Span) -> Compiled<Selection> {
        let n = match n.kind() {
            Kind::Double => self.cast(n, DType::Float64),
            _ => n,
        };
        let n = if n.kind() == Kind::Double { self.apply(id::TRUNC, &[n], span)? } else { n };
        let n = self.frozen(n);
        let missing = self.apply(id::IS_NA, &[n], span)?;
        let there = self.apply(id::NOT, &[missing], span)?;
        let below = self.apply(id::LT, &[n, Number::integer(0)], span)?;
        let below = self.apply(id::AND, &[below, there], span)?;
        let zero = self.apply(id::EQ, &[n, Number::integer(0)], span)?;
        let zero = self.apply(id::AND, &[zero, there], span)?;
        let count = self.count_to_int(extent);
        let from_end = self.apply(id::NEG, &[count], span)?;
        let left_out = self.apply(id::GE, &[n, from_end], span)?;
        let left_out = self.apply(id::AND, &[left_out, below], span)?;
        let fewer = self.apply(id::SUB, &[count, Number::integer(1)], span)?;
        let rest = self.apply(id::SELECT, &[left_out, fewer, count], span)?;
        let other = self.apply(id::SELECT, &[zero, Number::integer(0), Number::integer(1)], span)?;
        let length = self.apply(id::SELECT, &[below, rest, other], span)?;
        let length = self.int_to_count(length);
        // The index of the first element behind the excluded one.
        let k = self.apply(id::NEG, &[n], span)?;
        let k = self.apply(id::SUB, &[k, Number::integer(1)], span)?;
        let at = self.behind(length, k, range(2, length), range(1, length), span)?;
        let at = self.map(id::SELECT, vec![Value::Number(below), at, Value::Number(n)], span)?;
        let Value::Vector(at) = at else { unreachable!("of vectors it is one") };
        Ok(Selection::At(at))
    }

    /// The elements of `a` from index `k` on, and those of `b` before.
    fn behind(&mut self, length: Operand, k: Number, a: Vector, b: Vector, span: Span) -> Compiled<Value> {
        let index = Value::vector(range(0, length));
        let test = self.map(id::GE, vec![index, Value::Number(k)], span)?;
        self.map(id::SELECT, vec![test, Value::vector(a), Value::vector(b)], span)
    }

    /// All elements but those with these numbers, which count from 1 and are sorted.
    fn without(&mut self, numbers: &[i64], extent: Operand, span: Span) -> Compiled<Selection> {
        if let Operand::Constant(Scalar::I64(n)) = extent {
            if n <= MOST_LOCAL as i64 {
                let rest = (1..=n).filter(|k| !numbers.contains(k)).map(|k| Number::integer(k as i32)).collect();
                return Ok(Selection::At(self.constants(rest, span)?));
            }
        }
        if numbers.len() > MOST_LEFT_OUT {
            let numbers = numbers.iter().map(|&k| Number::double(-(k as f64))).collect();
            let of = self.constants(numbers, span)?;
            return Ok(Selection::Where(Rc::new(Vector::Except { of, length: extent })));
        }
        let count = self.count_to_int(extent);
        let mut length = count;
        for &k in numbers {
            let there = self.apply(id::GE, &[count, small(k)], span)?;
            let fewer = self.apply(id::SUB, &[length, Number::integer(1)], span)?;
            length = self.apply(id::SELECT, &[there, fewer, length], span)?;
        }
        let length = self.int_to_count(length);
        let mut at = Value::vector(range(1, length));
        for (j, &k) in numbers.iter().enumerate() {
            let from = range(j as i32 + 2, length);
            at = match at {
                // The leading elements are excluded: the range just starts later.
                _ if k == j as i64 + 1 => Value::vector(from),
                Value::Vector(before) => self.behind(length, small(k - 1 - j as i64), from, (*before).clone(), span)?,
                _ => unreachable!("it is a vector"),
            };
        }
        let Value::Vector(at) = at else { unreachable!("it is a vector") };
        Ok(Selection::At(at))
    }

    fn by_numbers(&mut self, at: Rc<Vector>, extent: Operand, span: Span) -> Compiled<Selection> {
        let Some(written) = self.constant_elements(&at) else {
            return match self.is_negative(&at) {
                true => self.by_absence(at, extent, span),
                false => Ok(Selection::At(at)),
            };
        };
        let numbers: Vec<Option<i64>> = written.iter().map(|n| cut_off(*n)).collect();
        let mut left_out: Vec<i64> = numbers.iter().flatten().filter(|k| **k < 0).map(|k| -k).collect();
        if left_out.is_empty() {
            if numbers.contains(&Some(0)) {
                let rest = written.into_iter().zip(numbers).filter(|(_, k)| *k != Some(0)).map(|(n, _)| n).collect();
                return Ok(Selection::At(self.constants(rest, span)?));
            }
            return Ok(Selection::At(at));
        }
        if numbers.iter().any(|k| k.is_none_or(|k| k > 0)) {
            return Err(Refusal::new(span, MIXED, "Write what is taken, or what is left out."));
        }
        left_out.sort_unstable();
        left_out.dedup();
        self.without(&left_out, extent, span)
    }

    /// Negative numbers that are known only at run time. If there are none, no element is selected.
    fn by_absence(&mut self, at: Rc<Vector>, extent: Operand, span: Span) -> Compiled<Selection> {
        let at = self.frozen_vector(at);
        let fails = self.failure(span, MIXED);
        let states = self.fold(&at, &[Number::logical(Some(false))], span, &mut |c, state, x, _| {
            let above = c.apply(id::GE, &[x, Number::integer(1)], span)?;
            c.emit(Statement::If {
                value: above.at,
                missing: Some(fails),
                then: vec![Statement::Fail(fails)],
                otherwise: vec![],
            });
            let below = c.apply(id::LE, &[x, Number::integer(-1)], span)?;
            Ok(vec![c.apply(id::OR, &[state[0], below], span)?])
        })?;
        let some = self.frozen(states[0]);
        let except = Value::vector(Vector::Except { of: at, length: extent });
        let keep = self.map(id::AND, vec![except, Value::Number(some)], span)?;
        let Value::Vector(keep) = keep else { unreachable!("of vectors it is one") };
        Ok(Selection::Where(keep))
    }

    /// Whether numbers are written as an exclusion: `-x`, or `c(-a, -b)`.
    pub(super) fn is_negative(&self, v: &Vector) -> bool {
        match v {
            Vector::Map { op: id::NEG, .. } => true,
            Vector::Map { args, .. } if args.len() == 1 => {
                matches!(&args[0], Value::Vector(v) if self.is_negative(v))
            }
            Vector::Where { of, .. } | Vector::Pick { of, .. } => self.is_negative(of),
            Vector::Range { from, .. } => from.whole().is_some_and(|k| k < 0),
            Vector::Local { array, .. } => self.negative_arrays.contains(array),
            _ => false,
        }
    }

    /// A logical subscript, recycled if it is shorter than the vector.
    fn by_mask(&mut self, mask: &Rc<Vector>, extent: Operand, span: Span) -> Compiled<Selection> {
        let mask = &flat(mask);
        let length = mask.length();
        if length == extent && self.constant_elements(mask).is_none() {
            return Ok(Selection::Where(mask.clone()));
        }
        let whole = |at: Operand| if let Operand::Constant(Scalar::I64(n)) = at { Some(n) } else { None };
        let (m, n) = (whole(length), whole(extent));
        if m == Some(0) {
            return Ok(none());
        }
        if let (Some(m), Some(n)) = (m, n) {
            let all = m.max(n);
            if let (Some(written), true) = (self.constant_elements(mask), all <= MOST_LOCAL as i64) {
                let numbers = (0..all).filter_map(|k| match written[(k % m) as usize].constant()? {
                    Scalar::I32(0) => None,
                    Scalar::I32(1) => Some(Number::integer(k as i32 + 1)),
                    _ => Some(Number::integer(verdigris_ops::scalar::NA_I32)),
                });
                let numbers = numbers.collect();
                return Ok(Selection::At(self.constants(numbers, span)?));
            }
            if m >= n {
                return Ok(Selection::Where(mask.clone()));
            }
        }
        if let (Some(1), Some(_)) = (m, n) {
            let value = self.element(mask, Number::integer(0).at, span)?;
            let value = self.frozen(value);
            return Ok(Selection::Where(Rc::new(Vector::Same { value, length: extent, dim: None })));
        }
        // An empty mask gives an empty result, otherwise the longer of mask and vector decides.
        let (m, n) = (self.count_to_int(length), self.count_to_int(extent));
        let longer = self.apply(id::PMAX, &[m, n], span)?;
        let empty = self.apply(id::EQ, &[m, Number::integer(0)], span)?;
        let all = self.apply(id::SELECT, &[empty, Number::integer(0), longer], span)?;
        let all = if whole(length).is_some() && whole(extent).is_some() { extent } else { self.int_to_count(all) };
        let index = self.map(id::MOD, vec![Value::vector(range(0, all)), Value::Number(m)], span)?;
        let at = self.map(id::ADD, vec![index, Value::Number(Number::double(1.0))], span)?;
        let Value::Vector(at) = at else { unreachable!("of vectors it is one") };
        Ok(Selection::Where(Rc::new(Vector::Pick { of: mask.clone(), at, strict: false })))
    }

    /// The elements of a vector that a subscript, written at `own`, selects. If `strict`, a subscript beyond the end
    /// fails.
    pub(super) fn selected(
        &mut self,
        v: &Rc<Vector>,
        selection: Selection,
        strict: bool,
        span: Span,
        own: Span,
    ) -> Compiled<Value> {
        match selection {
            Selection::All => Ok(Value::Vector(flat(v))),
            Selection::One(n) => {
                let at = self.position(n, v.length(), strict, span, Some(own))?;
                Ok(Value::Number(self.at_position(v, at, span)?))
            }
            Selection::At(at) => Ok(match &*at {
                Vector::Where { of: at, keep, length } => {
                    let of = Rc::new(Vector::Pick { of: flat(v), at: at.clone(), strict });
                    Value::vector(Vector::Where { of, keep: keep.clone(), length: *length })
                }
                _ => Value::vector(Vector::Pick { of: flat(v), at: flat(&at), strict }),
            }),
            Selection::Where(keep) => {
                // A mask taken by the mask that the vector was taken by: `v[a][b[a]]` keeps `a & b`.
                if let (Vector::Where { of, keep: first, .. }, Vector::Where { of: then, keep: same, .. }) =
                    (&**v, &*keep)
                {
                    if Rc::ptr_eq(first, same) || first == same {
                        let both = vec![Value::Vector(first.clone()), Value::Vector(then.clone())];
                        let Value::Vector(both) = self.map(id::AND, both, span)? else {
                            unreachable!("of vectors it is one")
                        };
                        return self.kept(of.clone(), both, span);
                    }
                }
                let of = match keep.length() == v.length() {
                    true => flat(v),
                    false => {
                        self.fits(&keep, v.length(), strict, own)?;
                        let at = Rc::new(range(1, keep.length()));
                        Rc::new(Vector::Pick { of: flat(v), at, strict: false })
                    }
                };
                self.kept(of, keep, span)
            }
        }
    }

    /// The elements of a vector whose logical, of the same length, is not FALSE; NA if it is NA.
    pub(super) fn kept(&mut self, of: Rc<Vector>, keep: Rc<Vector>, span: Span) -> Compiled<Value> {
        if never_missing(&keep) {
            return self.kept_true(of, keep, span).map(Value::Vector);
        }
        let typed = of.typed();
        let na = self.missing(typed);
        let extent = keep.length();
        let test = Vector::Map {
            op: id::IS_NA,
            args: vec![Value::Vector(keep.clone())],
            typed: Typed::Value(Kind::Logical),
            length: extent,
            dim: None,
        };
        let args = vec![Value::vector(test), Value::Number(na), Value::Vector(of)];
        let of = Rc::new(Vector::Map { op: id::SELECT, args, typed, length: extent, dim: None });
        self.kept_true(of, keep, span).map(Value::Vector)
    }

    /// `kept()` for logicals that are never NA, or whose elements in `of` are NA already.
    pub(super) fn kept_true(&mut self, of: Rc<Vector>, keep: Rc<Vector>, span: Span) -> Compiled<Rc<Vector>> {
        let length = self.count_kept(&keep, span)?;
        self.limit_parts(Vector::Where { of, keep, length }, span).map(Rc::new)
    }

    /// Fails if there are more logicals than elements, if `strict`.
    pub(super) fn fits(&mut self, keep: &Vector, extent: Operand, strict: bool, own: Span) -> Compiled<()> {
        const MESSAGE: &str = "(subscript) logical subscript too long";
        if !strict || keep.length() == extent {
            return Ok(());
        }
        if let (Operand::Constant(Scalar::I64(m)), Operand::Constant(Scalar::I64(n))) = (keep.length(), extent) {
            if m > n {
                return Err(Refusal::new(own, MESSAGE, "Give as many logicals as there are elements."));
            }
        }
        let more = self.long_op(id::GT, keep.length(), extent, own)?;
        self.fail_if(more, MESSAGE, own);
        Ok(())
    }

    /// The number of logicals that are not FALSE (I64).
    pub(super) fn count_kept(&mut self, keep: &Vector, span: Span) -> Compiled<Operand> {
        let (count, one) = self.counter();
        self.each(keep.length(), &mut |c, index| {
            c.where_kept(keep, index, span, &mut |c| {
                c.count_on(count, one);
                Ok(())
            })
        })?;
        Ok(self.int_to_count(integer(Operand::Register(count))))
    }

    /// A register (I32) that counts from 0, and one that holds 1.
    pub(super) fn counter(&mut self) -> (super::Register, super::Register) {
        let [count, one] = [0, 1].map(|k| {
            let register = self.fresh(Class::I32);
            self.variable_registers.insert(register);
            self.emit(Statement::Move { to: register, from: Number::integer(k).at });
            register
        });
        (count, one)
    }

    /// Adds 1 without an overflow test, which a count does not need.
    pub(super) fn count_on(&mut self, count: super::Register, one: super::Register) {
        let step = Number::integer(1).at;
        self.emit(Statement::Step { to: count, from: Operand::Register(count), counter: one, step });
    }

    /// Emits code that runs if an element of a mask is not FALSE.
    pub(super) fn where_kept(
        &mut self,
        keep: &Vector,
        index: Operand,
        span: Span,
        write: &mut dyn FnMut(&mut Self) -> Compiled<()>,
    ) -> Compiled<()> {
        let test = self.element(keep, index, span)?;
        let test = self.cast(test, DType::Bool8);
        match test.constant() {
            Some(Scalar::I32(0)) => return Ok(()),
            Some(_) => return write(self),
            None => {}
        }
        let (body, ()) = self.within(write)?;
        if never_missing(keep) {
            self.emit(Statement::If { value: test.at, missing: None, then: body, otherwise: vec![] });
        } else {
            // If the test is NA, so is its negation, and the `otherwise` block runs.
            let not = self.apply(id::NOT, &[test], span)?;
            self.emit(Statement::If { value: not.at, missing: None, then: vec![], otherwise: body });
        }
        Ok(())
    }

    /// Calls `write` with each element of a vector and its index (I32, from 0).
    pub(super) fn walk(
        &mut self,
        v: &Vector,
        span: Span,
        write: &mut dyn FnMut(&mut Self, Number, Operand) -> Compiled<()>,
    ) -> Compiled<()> {
        let Vector::Where { of, keep, .. } = v else {
            return self.each(v.length(), &mut |c, index| {
                let element = c.element(v, index, span)?;
                write(c, element, index)
            });
        };
        let (count, one) = self.counter();
        self.each(keep.length(), &mut |c, index| {
            c.where_kept(keep, index, span, &mut |c| {
                let element = c.element(of, index, span)?;
                write(c, element, Operand::Register(count))?;
                c.count_on(count, one);
                Ok(())
            })
        })
    }

    /// The kept element with an index from 0 (I32): NA if there are fewer.
    pub(super) fn nth_kept(&mut self, of: &Vector, keep: &Vector, index: Operand, span: Span) -> Compiled<Number> {
        let typed = of.typed();
        let na = self.missing(typed);
        let found = self.fresh(na.class());
        self.variable_registers.insert(found);
        self.emit(Statement::Move { to: found, from: na.at });
        let (count, one) = self.counter();
        let times = self.count_to_int(keep.length()).at;
        let counter = self.fresh(Class::I32);
        let (body, ()) = self.within(|c| {
            c.where_kept(keep, Operand::Register(counter), span, &mut |c| {
                let here = c.apply(id::EQ, &[integer(Operand::Register(count)), integer(index)], span)?;
                let (mut then, ()) = c.within(|c| {
                    let element = c.element(of, Operand::Register(counter), span)?;
                    let element = c.as_typed(element, typed);
                    c.write(found, element.at);
                    Ok(())
                })?;
                then.push(Statement::Break);
                c.emit(Statement::If { value: here.at, missing: None, then, otherwise: vec![] });
                c.count_on(count, one);
                Ok(())
            })
        })?;
        self.emit(Statement::For { counter, times, body });
        Ok(Number::register(found, typed))
    }

    /// The element of `Vector::Except` with an index from 0 (I32).
    pub(super) fn is_absent(&mut self, of: &Vector, index: Operand, span: Span) -> Compiled<Number> {
        let index = self.cast(integer(index), DType::Float64);
        let number = self.apply(id::SUB, &[Number::double(-1.0), index], span)?;
        let number = self.frozen(number);
        let states = self.fold(of, &[Number::logical(Some(true))], span, &mut |c, state, x, _| {
            let x = c.cast(x, DType::Float64);
            let x = c.apply(id::TRUNC, &[x], span)?;
            let other = c.apply(id::NE, &[x, number], span)?;
            Ok(vec![c.apply(id::AND, &[state[0], other], span)?])
        })?;
        Ok(states[0])
    }

    /// A row on vectors that are all kept by the same mask: `v[test] - w[test]` is `(v - w)[test]`.
    pub(super) fn map_kept(&mut self, op: OpId, args: &[Value], span: Span) -> Compiled<Option<Value>> {
        let mut all: Option<(Rc<Vector>, Operand)> = None;
        let mut inner = Vec::with_capacity(args.len());
        for arg in args {
            match arg {
                Value::Vector(v) => match (&**v, &all) {
                    (Vector::Where { of, keep, length }, None) => {
                        all = Some((keep.clone(), *length));
                        inner.push(Value::Vector(of.clone()));
                    }
                    (Vector::Where { of, keep, .. }, Some((known, _))) if Rc::ptr_eq(keep, known) || keep == known => {
                        inner.push(Value::Vector(of.clone()));
                    }
                    _ => return Ok(None),
                },
                other => inner.push(other.clone()),
            }
        }
        let Some((keep, length)) = all else { return Ok(None) };
        let Value::Vector(of) = self.map(op, inner, span)? else { unreachable!("of vectors it is one") };
        Ok(Some(Value::vector(Vector::Where { of, keep, length })))
    }
}
