//! Subscripts: elements of vectors and matrices.

use std::rc::Rc;

use super::super::syntax::{Argument, Form};
use super::control::nth;
use super::value::{self, Number, Parts, Value, Vector};
use super::{Bounds, Compiled, Compiler, Operand, Place, Refusal, Statement};
use crate::dtype::{Class, Kind};
use crate::ops::id;
use crate::ops::rule::Typed;
use crate::scalar::Scalar;

pub(super) const BEYOND: &str = "subscript out of bounds";
pub(super) const BELOW: &str = "a subscript below 1";

impl Compiler<'_> {
    /// `x[i]`, `x[[i]]`, `x[i, j]`, `x$name`.
    pub(super) fn subset(&mut self, form: &str, args: &[Argument], place: Place) -> Compiled<Value> {
        let target = nth(args, 0, place, form)?;
        let value = self.expr(target)?;
        if !self.reachable {
            return Ok(Value::Null);
        }
        let subscripts: Vec<&Argument> = args[1..].iter().filter(|a| a.name.as_deref() != Some("drop")).collect();
        match value {
            Value::List(parts) => self.part_of(parts, form, &subscripts, place),
            Value::Captured(path) => {
                let scope = self.outermost_scope();
                let key = match subscripts.first().and_then(|a| a.value.as_ref()).map(|e| &e.form) {
                    Some(Form::Name(name)) if form == "$" => name.clone(),
                    Some(Form::Text(name)) => name.clone(),
                    Some(Form::Double(x)) if form != "$" => format!("[[{x}]]"),
                    Some(Form::Integer(x)) if form != "$" => format!("[[{x}]]"),
                    _ => {
                        return Err(Refusal::new(
                            place,
                            "an element of a list is chosen by what is computed",
                            "Name it: x$name or x[[\"name\"]]; or keep numbers in a vector.",
                        ))
                    }
                };
                let path = path.into_iter().chain([key]).collect();
                self.outside(scope, path, place)
            }
            Value::Vector(v) => self.subset_vector(&v, form, &subscripts, place),
            Value::Number(n) if form != "$" => {
                let v = self.single(n);
                self.subset_vector(&v, form, &subscripts, place)
            }
            other => Err(Refusal::new(place, format!("{} has no elements", other.what()), "Take elements of vectors.")),
        }
    }

    /// The scope in which names outside of the function are found.
    fn outermost_scope(&self) -> u32 {
        let mut frame = self.frames.len() - 1;
        while let Some(parent) = self.frames[frame].parent {
            frame = parent;
        }
        self.frames[frame].lambda.scope
    }

    fn part_of(&mut self, parts: Parts, form: &str, subscripts: &[&Argument], place: Place) -> Compiled<Value> {
        let expr = subscripts.first().and_then(|a| a.value.as_ref());
        let name = match expr.map(|e| &e.form) {
            Some(Form::Name(name)) if form == "$" => Some(name),
            Some(Form::Text(name)) => Some(name),
            _ => None,
        };
        if let Some(name) = name {
            let found = parts.iter().find(|(n, _)| n.as_deref() == Some(name));
            return found.map(|(_, v)| v.clone()).ok_or_else(|| {
                let names: Vec<&str> = parts.iter().filter_map(|(n, _)| n.as_deref()).collect();
                Refusal::new(
                    place,
                    format!("the list has no element `{name}`"),
                    format!("It has: {}.", names.join(", ")),
                )
            });
        }
        if let Some(expr) = expr {
            if form == "[[" {
                if let Some(k) = self.number(expr)?.whole() {
                    if k >= 1 && k as usize <= parts.len() {
                        return Ok(parts[k as usize - 1].1.clone());
                    }
                }
            } else if let Ok(Value::Vector(v)) = self.combined(parts, place) {
                return self.subset_vector(&v, form, subscripts, place);
            }
        }
        Err(Refusal::new(
            place,
            "an element of a list is chosen by what is computed",
            "Name it: x$name or x[[\"name\"]]; or keep numbers in a vector: c().",
        ))
    }

    fn subset_vector(&mut self, v: &Rc<Vector>, form: &str, subscripts: &[&Argument], place: Place) -> Compiled<Value> {
        if form == "$" {
            return Err(Refusal::new(place, "$ operator is invalid for atomic vectors", "Take elements by x[i]."));
        }
        match subscripts {
            [one] => match &one.value {
                None => Ok(Value::Vector(v.clone())),
                Some(expr) => match self.expr(expr)? {
                    Value::Number(n) if n.kind() == Kind::Logical => Err(logical_subscript(expr.place)),
                    Value::Number(n) => match n.whole() {
                        Some(k) if k < 0 => self.without(v, -k, expr.place),
                        _ => {
                            let at = self.position(n, v.length(), form == "[[", place, Some(expr.place))?;
                            Ok(Value::Number(self.at_position(v, at, place)?))
                        }
                    },
                    Value::Vector(at) if form == "[" => {
                        if at.typed() == Typed::Value(Kind::Logical) {
                            return Err(logical_subscript(expr.place));
                        }
                        Ok(Value::vector(Vector::Pick { of: v.clone(), at }))
                    }
                    other => Err(Refusal::new(
                        expr.place,
                        format!("{} as a subscript", other.what()),
                        "Subscripts are numbers.",
                    )),
                },
            },
            _ => self.subset_matrix(v, subscripts, place),
        }
    }

    /// `x[-k]`, for k that stands in the code.
    fn without(&mut self, v: &Rc<Vector>, k: i64, place: Place) -> Compiled<Value> {
        if k == 1 {
            let length = self.long_op(id::SUB, v.length(), Number::long(1).at, place)?;
            let at = Rc::new(Vector::Range { from: Number::integer(2), step: Number::integer(1), length });
            return Ok(Value::vector(Vector::Pick { of: v.clone(), at }));
        }
        match v.fixed() {
            Some(n) if n <= super::join::MOST_LOCAL => {
                let numbers =
                    (1..=n as i32).filter(|j| i64::from(*j) != k).map(|j| (None, Value::Number(Number::integer(j))));
                let Value::Vector(at) = self.combined(numbers.collect(), place)? else {
                    unreachable!("several numbers")
                };
                Ok(Value::vector(Vector::Pick { of: v.clone(), at }))
            }
            _ => Err(Refusal::new(place, "a negative subscript", "Write the positions that you want: x[2:length(x)].")),
        }
    }

    /// `x[i, j]`; `x[i, ]` and `x[, j]` are vectors.
    fn subset_matrix(&mut self, v: &Rc<Vector>, subscripts: &[&Argument], place: Place) -> Compiled<Value> {
        let extents = self.extents(v);
        if extents.len() != subscripts.len() {
            return Err(Refusal::new(
                place,
                format!(
                    "incorrect number of dimensions: {} subscripts for {}",
                    subscripts.len(),
                    match extents.len() {
                        0 => "a vector".to_string(),
                        n => format!("{n} dimensions"),
                    }
                ),
                "Give as many subscripts as it has dimensions.",
            ));
        }
        let mut strides = vec![Number::long(1).at];
        for k in 1..extents.len() {
            strides.push(match k {
                1 => extents[0],
                _ => self.long_op(id::MUL, strides[k - 1], extents[k - 1], place)?,
            });
        }
        let (mut at, mut open) = (Vec::new(), Vec::new());
        for (k, subscript) in subscripts.iter().enumerate() {
            match &subscript.value {
                None => open.push(k),
                Some(expr) => {
                    let n = self.number(expr)?;
                    if n.kind() == Kind::Logical {
                        return Err(logical_subscript(expr.place));
                    }
                    at.push((self.position(n, extents[k], true, place, Some(expr.place))?, strides[k]));
                }
            }
        }
        let to = self.fresh(Class::I64);
        self.emit(Statement::Place { to, at });
        let start = Operand::Register(to);
        match open[..] {
            [] => Ok(Value::Number(self.at_position(v, start, place)?)),
            [k] => match &**v {
                Vector::Table { table, typed, .. } => Ok(Value::vector(Vector::Table {
                    table: *table,
                    typed: *typed,
                    start,
                    step: strides[k],
                    length: extents[k],
                    dim: Vec::new(),
                })),
                _ => {
                    let (Operand::Constant(Scalar::I64(n)), Operand::Constant(Scalar::I64(step))) =
                        (extents[k], strides[k])
                    else {
                        unreachable!("what is no table has a fixed size")
                    };
                    let first = Number { at: start, typed: Typed::Value(Kind::Integer64) };
                    let first = self.in_class(first, Class::I32);
                    let from = self.apply(id::ADD, &[first, Number::integer(1)], place)?;
                    let at =
                        Rc::new(Vector::Range { from, step: Number::integer(step as i32), length: Number::long(n).at });
                    Ok(Value::vector(Vector::Pick { of: v.clone(), at }))
                }
            },
            _ => Err(Refusal::new(
                place,
                "a subscript that leaves several dimensions",
                "Take one row, one column or one element.",
            )),
        }
    }

    /// Extents along the axes (I64); none for a plain vector.
    pub(super) fn extents(&self, v: &Vector) -> Vec<Operand> {
        match v {
            Vector::Table { dim, .. } => dim.clone(),
            _ => v.dim().map_or(Vec::new(), |(r, c)| vec![Number::long(r.into()).at, Number::long(c.into()).at]),
        }
    }

    /// R's subscript as a position from 0: of the expression at `place`, and written at `own`, if anywhere.
    fn position(
        &mut self,
        n: Number,
        extent: Operand,
        strict: bool,
        place: Place,
        own: Option<Place>,
    ) -> Compiled<Operand> {
        if n.kind() == Kind::Complex {
            let place = own.unwrap_or(place);
            return Err(Refusal::new(place, "invalid subscript type 'complex'", "Subscripts are numbers."));
        }
        if let (Some(k), Operand::Constant(Scalar::I64(e))) = (n.whole(), extent) {
            if k >= 1 && k <= e {
                return Ok(Number::long(k - 1).at);
            }
        }
        let own = Some(own.map_or(String::new(), |own| self.scope.text(own)));
        let low = self.failure_at(place, BELOW, own.clone());
        let fails = match self.request.bounds {
            Bounds::AsR => strict,
            Bounds::Missing => false,
            Bounds::Fail => true,
        };
        let high = match fails {
            true => Some(self.failure_at(place, BEYOND, own)),
            false => None,
        };
        let to = self.fresh(Class::I64);
        self.emit(Statement::Position { to, from: n.at, extent, low, high, inside: false });
        Ok(Operand::Register(to))
    }

    /// The element of a vector at a position from 0 (I64), NA at -1.
    pub(super) fn at_position(&mut self, v: &Vector, at: Operand, place: Place) -> Compiled<Number> {
        match v {
            Vector::Local { array, typed, .. } => {
                let to = self.fresh(value::dtype(*typed).class());
                self.emit(Statement::Get { to, array: *array, at });
                Ok(Number::register(to, *typed))
            }
            Vector::Table { table, typed, start, step, .. } => {
                let whole = *start == Number::long(0).at && *step == Number::long(1).at;
                let place_of = if whole {
                    at
                } else {
                    let to = self.fresh(Class::I64);
                    self.emit(Statement::Place { to, at: vec![(*start, Number::long(1).at), (at, *step)] });
                    Operand::Register(to)
                };
                let to = self.fresh(value::dtype(*typed).class());
                self.emit(Statement::Read { to, table: *table, at: place_of });
                Ok(Number::register(to, *typed))
            }
            // what is found element by element has none at -1
            other => {
                let number = Number { at, typed: Typed::Value(Kind::Integer64) };
                let index = self.in_class(number, Class::I32);
                if let Operand::Constant(_) = index.at {
                    return self.element(other, index.at, place);
                }
                let outside = self.apply(id::LT, &[index, Number::integer(0)], place)?;
                let typed = other.typed();
                let value =
                    self.branch(outside, None, place, &mut |c| Ok(Value::Number(c.missing(typed))), &mut |c| {
                        Ok(Value::Number(c.element(other, index.at, place)?))
                    })?;
                self.as_number(value, place)
            }
        }
    }

    /// NA of a type.
    pub(super) fn missing(&mut self, typed: Typed) -> Number {
        self.as_typed(Number::logical(None), typed)
    }

    /// The element of a vector after `index` others (I32, within it).
    pub(super) fn element(&mut self, v: &Vector, index: Operand, place: Place) -> Compiled<Number> {
        let index_number = Number { at: index, typed: Typed::Value(Kind::Integer) };
        match v {
            Vector::Local { .. } | Vector::Table { .. } => {
                let at = self.long(index_number);
                self.at_position(v, at, place)
            }
            Vector::Same { value, .. } => Ok(*value),
            Vector::Range { from, step, .. } => match (from.whole(), step.whole(), index_number.whole()) {
                (Some(a), Some(s), Some(k)) if from.class() == Class::I32 => Ok(Number::integer((a + s * k) as i32)),
                (Some(a), Some(s), Some(k)) if from.class() == Class::F64 => Ok(Number::double((a + s * k) as f64)),
                _ => {
                    let counter = match index {
                        Operand::Register(r) => r,
                        Operand::Constant(_) => {
                            let r = self.fresh(Class::I32);
                            self.emit(Statement::Move { to: r, from: index });
                            r
                        }
                    };
                    let to = self.fresh(from.class());
                    self.emit(Statement::Step { to, from: from.at, counter, step: step.at });
                    Ok(Number::register(to, from.typed))
                }
            },
            Vector::Map { op, args, typed, .. } => {
                let mut numbers = Vec::with_capacity(args.len());
                for arg in args {
                    numbers.push(match arg {
                        Value::Number(n) => *n,
                        Value::Vector(v) if v.fixed() == Some(1) => self.element(v, Number::integer(0).at, place)?,
                        Value::Vector(v) => self.element(v, index, place)?,
                        other => unreachable!("{} is no operand", other.what()),
                    });
                }
                let n = self.apply(*op, &numbers, place)?;
                Ok(self.as_typed(n, *typed))
            }
            Vector::Pick { of, at } => {
                let subscript = self.element(at, index, place)?;
                let at = self.position(subscript, of.length(), false, place, None)?;
                self.at_position(of, at, place)
            }
        }
    }
}

/// Of a test that picks elements.
pub(super) fn logical_subscript(place: Place) -> Refusal {
    Refusal::new(
        place,
        "a logical subscript: how many elements it takes is not known",
        "Use a loop with an if, or sum(ifelse(test, x, 0)).",
    )
}
