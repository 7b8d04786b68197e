//! Subscripts: elements of vectors and matrices, and assignments to them.

use std::rc::Rc;

use super::super::syntax::{Argument, Expr, Form};
use super::control::nth;
use super::value::{self, join, Number, Parts, Value, Vector};
use super::{Bounds, Compiled, Compiler, Operand, Place, Refusal, Statement};
use crate::dtype::{Class, Kind};
use crate::ops::id;
use crate::ops::rule::Typed;
use crate::scalar::Scalar;

const BEYOND: &str = "subscript out of bounds";
const BELOW: &str = "a subscript below 1";

/// Elements that are assigned: of which variable, by which of `[` and `[[`, and at which subscripts.
struct Assigned<'t> {
    name: &'t str,
    form: &'t str,
    subscripts: &'t [&'t Argument],
    place: Place,
}

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
                let scope = self.scope_of(&path[0]);
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

    /// The scope in which a name outside of the function was found.
    fn scope_of(&self, _name: &str) -> u32 {
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

    /// `x[i] <- value`, `x[i, j] <- value`, `x$name <- value`.
    pub(super) fn assign_part(&mut self, target: &Expr, value: &Expr, place: Place) -> Compiled<Value> {
        let Form::Call(form, args) = &target.form else { unreachable!("the caller has looked") };
        let base = nth(args, 0, place, form)?;
        let Form::Name(name) = &base.form else {
            return Err(Refusal::new(
                target.place,
                "an assignment to a part of a part",
                "Take the part into a variable, change it, and assign it whole.",
            ));
        };
        let new = self.expr(value)?;
        if !self.reachable {
            return Ok(Value::Null);
        }
        let frame = self.frames.len() - 1;
        let Some(old) = self.variables[frame].get(name).cloned() else {
            let outside = self.name(name, base.place).is_ok();
            let (message, remedy) = match outside {
                true => (
                    format!("`{name}` is read from outside, and cannot be changed"),
                    "Give the new values as the function's result; or copy a few elements into a vector of its own."
                        .to_string(),
                ),
                false => (format!("object '{name}' not found"), format!("Make `{name}` first: {name} <- numeric(3).")),
            };
            return Err(Refusal::new(target.place, message, remedy));
        };
        let subscripts: Vec<&Argument> = args[1..].iter().collect();
        let to = Assigned { name, form, subscripts: &subscripts, place: target.place };
        match old {
            Value::List(mut parts) => {
                let key = match subscripts.first().and_then(|a| a.value.as_ref()).map(|e| &e.form) {
                    Some(Form::Name(key)) if form == "$" => key.clone(),
                    Some(Form::Text(key)) => key.clone(),
                    _ => {
                        return Err(Refusal::new(
                            target.place,
                            "an element of a list is chosen by what is computed",
                            "Name it: x$name <- value.",
                        ))
                    }
                };
                match parts.iter_mut().find(|(n, _)| n.as_deref() == Some(&key)) {
                    Some((_, part)) => *part = new.clone(),
                    None => parts.push((Some(key), new.clone())),
                }
                self.assign(name, Value::List(parts), place)?;
                Ok(new)
            }
            Value::Number(n) if form != "$" => {
                let v = self.single(n);
                let v = self.made_own(frame, name, &v, place)?;
                self.assign_element(&to, &v, new.clone(), value.place)?;
                Ok(new)
            }
            Value::Vector(v) => {
                let v = match (&*v, v.fixed()) {
                    (Vector::Local { .. }, _) => v,
                    (_, Some(n)) if n <= super::join::MOST_LOCAL => self.made_own(frame, name, &v, place)?,
                    _ => v,
                };
                self.assign_element(&to, &v, new.clone(), value.place)?;
                Ok(new)
            }
            Value::Null => Err(Refusal::new(
                target.place,
                format!("`{name}` is NULL, and an element of it is assigned"),
                format!("A vector within a function keeps its length: {name} <- numeric(10) first."),
            )),
            other => Err(Refusal::new(
                target.place,
                format!("an element of {} is assigned", other.what()),
                format!("Make a vector first: {name} <- numeric(3)."),
            )),
        }
    }

    /// A variable's vector, from now on in an array of its own.
    fn made_own(&mut self, frame: usize, name: &str, v: &Vector, place: Place) -> Compiled<Rc<Vector>> {
        let own = self.stored(frame, name, v, place)?;
        self.variables[frame].insert(name.to_string(), own.clone());
        let Value::Vector(own) = own else { unreachable!("what is stored is a vector") };
        Ok(own)
    }

    fn assign_element(&mut self, to: &Assigned, v: &Rc<Vector>, new: Value, value_place: Place) -> Compiled<()> {
        let Assigned { name, form, subscripts, place } = *to;
        let Vector::Local { array, typed, length, dim } = **v else {
            return Err(Refusal::new(
                place,
                format!("`{name}` cannot be changed: it is read from outside, or its length is not written in the code"),
                "Give the new values as the function's result; a vector of the function's own has a length that is a number: numeric(3).",
            ));
        };
        let strict = form == "[[";
        let whole = subscripts.iter().all(|s| s.value.is_none());
        if whole {
            let new = match new {
                Value::Vector(new) => (*new).clone(),
                Value::Number(n) => Vector::Same { value: n, length: Number::long(length.into()).at, dim },
                other => {
                    return Err(Refusal::new(
                        value_place,
                        format!("{} is assigned to elements", other.what()),
                        "Assign numbers.",
                    ))
                }
            };
            if new.fixed() != Some(length.into()) {
                return Err(Refusal::new(value_place, "the lengths differ", "Assign as many elements as there are."));
            }
            let typed = join(typed, new.typed());
            let new = self.converted(&new, typed);
            let frame_value = Value::vector(new);
            return self.assign_shaped(name, frame_value, dim, place);
        }
        let n = self.as_number(new, value_place)?;
        let joined = join(typed, n.typed);
        let (array, typed) = if joined != typed && value::dtype(joined) != value::dtype(typed) {
            // R makes the whole vector of the wider type
            let wide = self.converted(v, joined);
            self.assign_shaped(name, Value::vector(wide), dim, place)?;
            let frame = self.frames.len() - 1;
            match &self.variables[frame][name] {
                Value::Vector(v) => match **v {
                    Vector::Local { array, typed, .. } => (array, typed),
                    _ => unreachable!("it was stored"),
                },
                _ => unreachable!("it was stored"),
            }
        } else {
            (array, typed)
        };
        let n = self.as_typed(n, typed);
        let at = match subscripts {
            [one] => {
                let expr = one.value.as_ref().expect("it is not left out");
                let k = match self.expr(expr)? {
                    Value::Vector(test) if value::dtype(test.typed()).kind() == Kind::Logical => {
                        return self.assign_where(array, length, &test, n, expr.place);
                    }
                    value => self.as_number(value, expr.place)?,
                };
                self.stored_position(k, Number::long(length.into()).at, strict, place, expr.place)?
            }
            [i, j] if dim.is_some() => {
                let (rows, columns) = dim.expect("it was looked at");
                let (Some(i), Some(j)) = (&i.value, &j.value) else {
                    return Err(Refusal::new(
                        place,
                        "a row or column is assigned at once",
                        "Assign its elements in a loop.",
                    ));
                };
                let (a, b) = (self.number(i)?, self.number(j)?);
                let a = self.stored_position(a, Number::long(rows.into()).at, strict, place, i.place)?;
                let b = self.stored_position(b, Number::long(columns.into()).at, strict, place, j.place)?;
                match (a, b) {
                    (Operand::Constant(Scalar::I64(a)), Operand::Constant(Scalar::I64(b))) => {
                        Number::long(a + b * i64::from(rows)).at
                    }
                    _ => {
                        let to = self.fresh(Class::I64);
                        let at = vec![(a, Number::long(1).at), (b, Number::long(rows.into()).at)];
                        self.emit(Statement::Place { to, at });
                        Operand::Register(to)
                    }
                }
            }
            _ => {
                return Err(Refusal::new(
                    place,
                    "incorrect number of subscripts",
                    "Give one subscript for a vector, two for a matrix.",
                ))
            }
        };
        self.emit(Statement::Set { array, at, value: n.at });
        Ok(())
    }

    /// `x[test] <- n`: to the elements where a test of the same length is TRUE.
    fn assign_where(&mut self, array: u16, length: u16, test: &Rc<Vector>, n: Number, place: Place) -> Compiled<()> {
        if test.fixed() != Some(length.into()) {
            return Err(Refusal::new(
                place,
                format!("a logical subscript of another length than {length}"),
                "Give as many logicals as there are elements: x[x > 0] <- value.",
            ));
        }
        // all are found before any element changes
        let known = self.new_array(test.typed(), length);
        self.fill(known, test, place)?;
        let known = Vector::Local { array: known, typed: test.typed(), length, dim: None };
        let n = self.frozen(n);
        self.each(Number::long(length.into()).at, &mut |c, index| {
            let test = c.element(&known, index, place)?;
            let at = c.long(Number { at: index, typed: Typed::Value(Kind::Integer) });
            let then = vec![Statement::Set { array, at, value: n.at }];
            c.emit(Statement::If { value: test.at, missing: None, then, otherwise: vec![] });
            Ok(())
        })
    }

    fn assign_shaped(&mut self, name: &str, value: Value, dim: Option<(u16, u16)>, place: Place) -> Compiled<()> {
        self.assign(name, value, place)?;
        let frame = self.frames.len() - 1;
        if let Some(Value::Vector(v)) = self.variables[frame].get(name) {
            if let Vector::Local { array, typed, length, .. } = **v {
                let shaped = Value::vector(Vector::Local { array, typed, length, dim });
                self.variables[frame].insert(name.into(), shaped);
            }
        }
        Ok(())
    }

    /// The position of an element that is assigned: it must be there, since a local vector keeps its length. At NA nothing is assigned,
    /// by `x[i]`. The subscript is written at `own` in what is assigned to.
    fn stored_position(
        &mut self,
        n: Number,
        extent: Operand,
        strict: bool,
        place: Place,
        own: Place,
    ) -> Compiled<Operand> {
        if n.kind() == Kind::Logical {
            return Err(logical_subscript(own));
        }
        if let (Some(k), Operand::Constant(Scalar::I64(e))) = (n.whole(), extent) {
            if k >= 1 && k <= e {
                return Ok(Number::long(k - 1).at);
            }
            return Err(Refusal::new(
                own,
                format!("element {k} of a vector of {e} is assigned"),
                "A vector within a function keeps the length that it was made with.",
            ));
        }
        let written = Some(self.scope.text(own));
        let low = self.failure_at(place, BELOW, written.clone());
        let high = Some(self.failure_at(place, BEYOND, written));
        let to = self.fresh(Class::I64);
        self.emit(Statement::Position { to, from: n.at, extent, low, high, inside: false });
        if strict {
            let missing = self.failure(place, "[[ ]] subscript out of bounds");
            let number = Number { at: Operand::Register(to), typed: Typed::Value(Kind::Integer64) };
            let below = self.apply(id::LT, &[number, Number::long(0)], place)?;
            self.emit(Statement::If {
                value: below.at,
                missing: None,
                then: vec![Statement::Fail(missing)],
                otherwise: vec![],
            });
        }
        Ok(Operand::Register(to))
    }
}

fn logical_subscript(place: Place) -> Refusal {
    Refusal::new(
        place,
        "a logical subscript: how many elements it takes is not known",
        "Use a loop with an if, or sum(ifelse(test, x, 0)).",
    )
}
