//! Vectors: construction, elementwise operations, iteration and reduction.

use std::rc::Rc;

use super::value::{self, join, Container, Number, Parts, Value, Vector};
use super::{Compiled, Compiler, Operand, Refusal, Span, Statement};
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::rule::{resolve, Typed};
use verdigris_ops::scalar::Scalar;
use verdigris_ops::{id, OpId, Rule};

/// The most parts of a vector that is computed on demand: recursion walks over the parts, and each use emits code for
/// all of them.
const MOST_PARTS: usize = 300;
/// Loops of at most this many iterations are unrolled.
const MAX_UNROLL: i64 = 4;

/// The body of a fold: computes new states from the states, an element and the element's index.
type Next<'n, 'a> = &'n mut dyn FnMut(&mut Compiler<'a>, &[Number], Number, Operand) -> Compiled<Vec<Number>>;

impl<'a> Compiler<'a> {
    /// A number as a vector of one element.
    pub(super) fn single(&mut self, n: Number) -> Rc<Vector> {
        self.needs_one_kind(n);
        let value = self.frozen(n);
        Rc::new(Vector::Same { value, length: Number::long(1).at, dim: None })
    }

    /// The same elements in another type.
    pub(super) fn converted(&self, v: &Vector, typed: Typed) -> Vector {
        if v.typed() == typed {
            return v.clone();
        }
        if let Vector::Where { of, keep, length } = v {
            return Vector::Where { of: Rc::new(self.converted(of, typed)), keep: keep.clone(), length: *length };
        }
        let dim = v.dim();
        Vector::Map {
            op: OpId::cast(value::dtype(typed)),
            args: vec![Value::vector(v.clone())],
            typed,
            length: v.length(),
            dim,
        }
    }

    /// `c()` of numbers and vectors of fixed length, without names.
    pub(super) fn combined(&mut self, parts: Parts, span: Span) -> Compiled<Value> {
        let parts: Parts = parts
            .into_iter()
            .flat_map(|part| match part {
                (_, Value::Parts(Container::Named, inner)) => inner,
                part => vec![part],
            })
            .collect();
        self.needs_one_type(parts.iter().map(|(_, part)| part));
        let mut total = 0;
        let mut types = Vec::new();
        for (_, part) in &parts {
            match part {
                Value::Number(n) => {
                    total += 1;
                    types.push(n.typed);
                }
                Value::Vector(v) => {
                    total += v.fixed().ok_or_else(|| self.unfixed(v, span))?;
                    types.push(v.typed());
                }
                Value::Null => {}
                other => {
                    return Err(Refusal::new(
                        span,
                        format!("c() of {}", other.what()),
                        "Combine numbers and vectors of them.",
                    ))
                }
            }
        }
        if total > super::join::MOST_LOCAL {
            return Err(too_long(span));
        }
        let typed = types.into_iter().reduce(join).unwrap_or(Typed::Value(Kind::Double));
        let array = self.new_array(typed, total as u16);
        let mut next = 0;
        let mut written = Some(Vec::with_capacity(total));
        if parts.iter().all(|(_, part)| self.is_left_out(part)) {
            self.negative_arrays.insert(array);
        }
        for (_, part) in parts {
            match part {
                Value::Number(n) => {
                    let n = self.as_typed(n, typed);
                    written = written.filter(|_| n.constant().is_some());
                    written.iter_mut().for_each(|w| w.push(n));
                    self.emit(Statement::Set { array, at: Number::long(next).at, value: n.at });
                    next += 1;
                }
                Value::Vector(v) => {
                    let from = next;
                    next += v.fixed().expect("it was asked") as i64;
                    let own = self.constant_elements(&v).unwrap_or_default();
                    let own: Vec<Number> = own.into_iter().map(|n| self.as_typed(n, typed)).collect();
                    written = written
                        .filter(|_| own.len() as i64 == next - from && own.iter().all(|n| n.constant().is_some()));
                    written.iter_mut().for_each(|w| w.extend(&own));
                    self.each(v.length(), &mut |c, index| {
                        let element = c.element(&v, index, span)?;
                        let element = c.as_typed(element, typed);
                        let at = c.long(Number { at: index, typed: Typed::Value(Kind::Integer) });
                        let at = c.long_op(id::ADD, at, Number::long(from).at, span)?;
                        c.emit(Statement::Set { array, at, value: element.at });
                        Ok(())
                    })?;
                }
                _ => {}
            }
        }
        if let Some(written) = written {
            self.constant_elements.insert(array, written);
        }
        Ok(Value::vector(Vector::Local { array, typed, length: total as u16, dim: None }))
    }

    /// Whether a part of `c()` is `-x` or a negative number, so that the result as a subscript excludes elements.
    fn is_left_out(&self, part: &Value) -> bool {
        match part {
            Value::Number(Number { at: Operand::Register(r), .. }) => self.negated.contains(r),
            Value::Number(n) => n.whole().is_some_and(|k| k < 0),
            Value::Vector(v) => self.is_negative(v),
            _ => false,
        }
    }

    /// Calls `write` for each index (I32, from 0) below a length (I64). Emits a loop, or unrolled code for few
    /// iterations.
    pub(super) fn each(
        &mut self,
        length: Operand,
        write: &mut dyn FnMut(&mut Self, Operand) -> Compiled<()>,
    ) -> Compiled<()> {
        if let Operand::Constant(Scalar::I64(n)) = length {
            if n <= MAX_UNROLL {
                for k in 0..n {
                    write(self, Number::integer(k as i32).at)?;
                }
                return Ok(());
            }
        }
        let times = self.count_to_int(length).at;
        let counter = self.fresh(Class::I32);
        let (body, ()) = self.within(|c| write(c, Operand::Register(counter)))?;
        self.emit(Statement::For { counter, times, body });
        Ok(())
    }

    /// Folds a vector: calls `next(states, element, index)` for each element and returns the final states. `start`
    /// holds the initial states, which keep their types.
    pub(super) fn fold(
        &mut self,
        v: &Vector,
        start: &[Number],
        span: Span,
        next: Next<'_, 'a>,
    ) -> Compiled<Vec<Number>> {
        let mut states = Vec::new();
        for n in start {
            let register = self.fresh(n.class());
            self.variable_registers.insert(register);
            self.emit(Statement::Move { to: register, from: n.at });
            states.push(Number::register(register, n.typed));
        }
        self.walk(v, span, &mut |c, element, index| {
            let new = next(c, &states, element, index)?;
            // All new states are computed before any is written.
            let mut values = Vec::new();
            for (state, n) in states.iter().zip(new) {
                values.push(c.as_typed(n, state.typed));
            }
            for (state, n) in states.iter().zip(values) {
                let Operand::Register(to) = state.at else { unreachable!("a state is a register") };
                c.write(to, n.at);
            }
            Ok(())
        })?;
        Ok(states)
    }

    /// A double in the float type of an array.
    pub(super) fn in_dtype_of(&mut self, n: Number, typed: Typed) -> Number {
        match typed {
            Typed::Array(d) if d.is_float() && d != DType::Float64 => self.cast(n, d),
            _ => n,
        }
    }

    /// The length as R sees it: an integer.
    pub(super) fn length_of(&mut self, v: &Vector) -> Number {
        self.count_to_int(v.length())
    }

    /// A row of the table on vectors: each element is computed when it is used.
    pub(super) fn map(&mut self, op: OpId, args: Vec<Value>, span: Span) -> Compiled<Value> {
        if let Some(kept) = self.map_kept(op, &args, span)? {
            return Ok(kept);
        }
        self.needs_one_result(op, &args);
        let mut types = Vec::new();
        let mut length: Option<Operand> = None;
        let mut dim = None;
        for arg in &args {
            match arg {
                Value::Number(n) => types.push(n.typed),
                Value::Vector(v) => {
                    types.push(v.typed());
                    dim = dim.or(v.dim());
                    if v.fixed() == Some(1) {
                        length = length.or(Some(v.length()));
                        continue;
                    }
                    match length {
                        Some(Operand::Constant(Scalar::I64(1))) | None => length = Some(v.length()),
                        Some(known) if known == v.length() => {}
                        Some(Operand::Constant(a)) if matches!(v.length(), Operand::Constant(b) if a != b) => {
                            return Err(Refusal::new(
                                span,
                                "vectors of different lengths are combined",
                                "Let both have the same length, or take single elements.",
                            ))
                        }
                        Some(known) => {
                            let differs = self.long_op(id::NE, known, v.length(), span)?;
                            self.fail_if(differs, "vectors of different lengths are combined", span);
                        }
                    }
                }
                other => {
                    return Err(Refusal::new(span, format!("non-numeric argument: {}", other.what()), "Give numbers."))
                }
            }
        }
        let (_, dtype) = resolve(op, &types)
            .map_err(|e| Refusal::new(span, e.message, "Convert the operands first: as.integer(), as.double()."))?;
        let weak = types.iter().all(|t| matches!(t, Typed::Value(_)));
        let natural = matches!(op.row().rule, Rule::To(d) if d == d.kind().default_dtype());
        let typed = if weak || natural { Typed::Value(dtype.kind()) } else { Typed::Array(dtype) };
        let args = args
            .into_iter()
            .map(|a| if let Value::Number(n) = a { Value::Number(self.frozen(n)) } else { a })
            .collect();
        let v = Vector::Map { op, args, typed, length: length.expect("some operand is a vector"), dim };
        self.limit_parts(v, span).map(Value::vector)
    }

    /// The vector, or a local copy if its elements take too many operations to compute again at each use. An error if
    /// its length is not known.
    pub(super) fn limit_parts(&mut self, v: Vector, span: Span) -> Compiled<Vector> {
        if v.parts(MOST_PARTS) < MOST_PARTS {
            return Ok(v);
        }
        match v.fixed().filter(|n| *n <= super::join::MOST_LOCAL) {
            Some(n) => {
                let array = self.new_array(v.typed(), n as u16);
                self.fill(array, &v, span)?;
                Ok(Vector::Local { array, typed: v.typed(), length: n as u16, dim: v.dim() })
            }
            None => Err(Refusal::new(
                span,
                "too many operations on a vector whose length is not written in the code",
                "Write a loop over its elements, with variables for what each gives.",
            )),
        }
    }

    /// `a:b` by R's rules: integers if a is whole and both ends fit.
    pub(super) fn colon(&mut self, a: Number, b: Number, span: Span) -> Compiled<Value> {
        if a.kind() > Kind::Double
            || b.kind() > Kind::Double
            || a.kind() == Kind::Integer64
            || b.kind() == Kind::Integer64
        {
            return Err(Refusal::new(span, "a sequence of these types", "Use integers or doubles: as.integer()."));
        }
        let a = if a.kind() == Kind::Logical { self.cast(a, DType::Int32) } else { a };
        let b = if b.kind() == Kind::Logical { self.cast(b, DType::Int32) } else { b };
        // A whole constant double begins an integer sequence. A computed double may not be whole, so it gives doubles
        // of the same values.
        let within = |n: Number| n.whole().is_some_and(|k| k.abs() <= i32::MAX.into());
        let from = match a.whole() {
            Some(k) if a.kind() == Kind::Double && within(a) => Number::integer(k as i32),
            _ => a,
        };
        // A sequence that ends beyond the integers is one of doubles.
        let from = match b.constant() {
            Some(_) if b.kind() == Kind::Double && b.whole().is_some() && !within(b) => self.cast(from, DType::Float64),
            _ => from,
        };
        if let (Some(x), Some(y)) = (from.whole(), b.whole()) {
            if (y - x).abs() >= i32::MAX.into() {
                return Err(too_many(span));
            }
            let step = if y >= x { 1 } else { -1 };
            let length = Number::long((y - x).abs() + 1).at;
            return Ok(Value::vector(Vector::Range { from, step: number_like(from, step), length }));
        }
        if from.whole() == Some(1) && from.kind() == Kind::Integer && self.is_count(b) {
            let up = self.apply(id::LE, &[from, b], span)?;
            let step = self.apply(id::SELECT, &[up, Number::integer(1), Number::integer(-1)], span)?;
            let n = self.apply(id::SELECT, &[up, b, Number::integer(2)], span)?;
            return Ok(Value::vector(Vector::Range { from, step, length: self.int_to_count(n) }));
        }
        let fails = self.failure(span, "NA/NaN argument");
        let from = self.plain_double(from);
        let from = self.frozen(Number { typed: Typed::Value(from.kind()), ..from });
        let both_integers = from.kind() == Kind::Integer && b.kind() == Kind::Integer;
        // Differences of integers are exact in double.
        let x = self.cast(from, DType::Float64);
        let y = self.plain_double(b);
        let y = self.cast(y, DType::Float64);
        let y = self.frozen(Number { typed: Typed::Value(Kind::Double), ..y });
        let d = self.apply(id::SUB, &[y, x], span)?;
        let distance = self.apply(id::ABS, &[d], span)?;
        let most = Number::double(i32::MAX.into());
        let mut fits = self.apply(id::LT, &[distance, most], span)?;
        // Integers must end within the integers. From -1, 0 and 1 on they do if they are not too many.
        if from.kind() == Kind::Integer && b.kind() == Kind::Double && !matches!(from.whole(), Some(-1..=1)) {
            let size = self.apply(id::ABS, &[y], span)?;
            let inside = self.apply(id::LE, &[size, most], span)?;
            fits = self.apply(id::AND, &[fits, inside], span)?;
        }
        let beyond = self.failure(span, "a sequence of too many elements, or of integers beyond 2147483647");
        let otherwise = vec![Statement::Fail(beyond)];
        self.emit(Statement::If { value: fits.at, missing: Some(fails), then: vec![], otherwise });
        let up = self.apply(id::LE, &[x, y], span)?;
        // R allows for a rounding error of 1e-10.
        let distance =
            if both_integers { distance } else { self.apply(id::ADD, &[distance, Number::double(1e-10)], span)? };
        let count = self.apply(id::FLOOR, &[distance], span)?;
        let count = self.apply(id::ADD, &[count, Number::double(1.0)], span)?;
        let length = self.long(count);
        let step = self.apply(id::SELECT, &[up, number_like(from, 1), number_like(from, -1)], span)?;
        Ok(Value::vector(Vector::Range { from, step, length }))
    }

    /// A float of any width as float64; logicals and integers as int32.
    fn plain_double(&mut self, n: Number) -> Number {
        match n.kind() {
            Kind::Double => self.cast(n, DType::Float64),
            _ => self.cast(n, DType::Int32),
        }
    }

    /// `seq_len(n)`.
    pub(super) fn counted(&mut self, n: Number, span: Span) -> Compiled<Value> {
        if n.kind() > Kind::Double {
            return Err(Refusal::new(span, "argument of length 0 or not a number", "Give a count."));
        }
        if let Some(k) = n.whole() {
            if k < 0 {
                return Err(Refusal::new(span, "a negative count", "Give a count of 0 or more."));
            }
            if k > i32::MAX.into() {
                return Err(too_many(span));
            }
            return Ok(Value::vector(Vector::Range {
                from: Number::integer(1),
                step: Number::integer(1),
                length: Number::long(k).at,
            }));
        }
        if self.is_count(n) {
            let length = self.int_to_count(n);
            return Ok(Value::vector(Vector::Range { from: Number::integer(1), step: Number::integer(1), length }));
        }
        let length = self.int_to_count(n);
        let mut bad = self.long_op(id::LT, length, Number::long(0).at, span)?;
        if n.kind() == Kind::Double {
            let above = self.long_op(id::GT, length, Number::long(i32::MAX.into()).at, span)?;
            let [above, below] = [above, bad].map(|at| Number { at, typed: Typed::Value(Kind::Logical) });
            bad = self.apply(id::OR, &[below, above], span)?.at;
        }
        let fails = self.failure(span, "argument must be coercible to non-negative integer");
        // NA fails too.
        self.emit(Statement::If {
            value: bad,
            missing: Some(fails),
            then: vec![Statement::Fail(fails)],
            otherwise: vec![],
        });
        Ok(Value::vector(Vector::Range { from: Number::integer(1), step: Number::integer(1), length }))
    }
}

/// A small whole number of the same class as `n`.
pub(super) fn number_like(n: Number, k: i32) -> Number {
    if n.class() == Class::I32 {
        Number::integer(k)
    } else {
        Number::double(k.into())
    }
}

/// Refuses a sequence that a counter of 32 bits cannot walk over.
pub(super) fn too_many(span: Span) -> Refusal {
    let remedy = "Count in a double: i <- 0; while (i < n) i <- i + 1.";
    Refusal::new(span, "a sequence of more than 2147483647 elements", remedy)
}

pub(super) fn too_long(span: Span) -> Refusal {
    Refusal::new(
        span,
        "a vector whose length is not written in the code, or above 1024 elements",
        "Vectors of a function's own are short and of fixed length: numeric(3). Longer ones are arguments, or are read from outside.",
    )
}
