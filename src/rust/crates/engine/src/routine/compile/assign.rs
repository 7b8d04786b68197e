//! Assignments to elements of local vectors and matrices.

use std::rc::Rc;

use super::super::syntax::{Argument, Expr, Form};
use super::control::nth;
use super::index::{logical_subscript, BELOW, BEYOND};
use super::value::{self, join, Number, Value, Vector};
use super::{Compiled, Compiler, Operand, Place, Refusal, Statement};
use crate::dtype::{Class, Kind};
use crate::ops::id;
use crate::ops::rule::Typed;
use crate::scalar::Scalar;

/// Elements that are assigned: of which variable, by which of `[` and `[[`, and at which subscripts.
struct Assigned<'t> {
    name: &'t str,
    form: &'t str,
    subscripts: &'t [&'t Argument],
    place: Place,
}

impl Compiler<'_> {
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
