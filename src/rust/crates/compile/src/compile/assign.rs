//! Assignments to elements of local vectors and matrices.

use std::rc::Rc;

use super::control::nth;
use super::index::{is_drop, BELOW, BEYOND};
use super::kinds::never_missing;
use super::subscript::Selection;
use super::value::{self, join, Container, Number, Parts, Value, Vector};
use super::{Compiled, Compiler, Operand, Refusal, Span, Statement};
use crate::syntax::{Argument, Expr, Form};
use verdigris_ops::dtype::{Class, Kind};
use verdigris_ops::id;
use verdigris_ops::rule::Typed;
use verdigris_ops::scalar::Scalar;

/// The target of an element assignment: the variable, the operator (`[`, `[[` or `$`) and the subscripts.
struct Assigned<'t> {
    name: &'t str,
    form: &'t str,
    subscripts: &'t [&'t Argument],
    span: Span,
}

/// The elements that one subscript selects along an axis of `extent` elements.
struct Axis {
    selection: Selection,
    extent: Operand,
    /// Whether the subscript is in `[[ ]]`.
    strict: bool,
    span: Span,
    own: Span,
}

/// The assigned value.
enum New {
    One(Number),
    Several(Rc<Vector>),
}

impl Compiler<'_> {
    /// `x[i] <- value`, `x[i, j] <- value`, `x$name <- value`.
    pub(super) fn assign_part(&mut self, target: &Expr, value: &Expr, span: Span) -> Compiled<Value> {
        let Form::Call(form, args) = &target.form else { unreachable!("the caller has looked") };
        let base = nth(args, 0, span, form)?;
        let Form::Name(name) = &base.form else {
            return Err(Refusal::new(
                target.span,
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
            let outside = self.name(name, base.span).is_ok();
            let (message, remedy) = match outside {
                true => (
                    format!("`{name}` is read from outside, and cannot be changed"),
                    "Return the new values; or copy a few elements into a vector of its own.".to_string(),
                ),
                false => (format!("object '{name}' not found"), format!("Make `{name}` first: {name} <- numeric(3).")),
            };
            return Err(Refusal::new(target.span, message, remedy));
        };
        let subscripts: Vec<&Argument> = args[1..].iter().filter(|a| !is_drop(a)).collect();
        let to = Assigned { name, form, subscripts: &subscripts, span: target.span };
        match old {
            Value::Parts(container, mut parts) => {
                let only = if let [one] = &subscripts[..] { one.value.as_ref() } else { None };
                let key = match only.map(|e| &e.form) {
                    Some(Form::Name(key)) if form == "$" => key.clone(),
                    Some(Form::Text(key)) => key.clone(),
                    _ => {
                        return Err(Refusal::new(
                            target.span,
                            "a list element is selected by a computed value",
                            "Name it: x$name <- value.",
                        ))
                    }
                };
                let at = parts.iter().position(|(n, _)| n.as_deref() == Some(&key));
                match container {
                    Container::Named => keeps_type(&parts, form, &new, target.span)?,
                    Container::List if form == "[" && !matches!(new, Value::Number(_) | Value::Null) => {
                        return Err(Refusal::new(
                            target.span,
                            format!("{} is assigned to a part of a list", new.what()),
                            "Write x$name <- value.",
                        ))
                    }
                    Container::List => {}
                }
                if matches!(new, Value::Null) {
                    // `x$name <- NULL` removes the element.
                    at.map(|at| parts.remove(at));
                    self.assign(name, Value::Parts(container, parts), span)?;
                    return Ok(new);
                }
                let at = match at {
                    Some(at) => {
                        parts[at].1 = new;
                        at
                    }
                    None => {
                        parts.push((Some(key), new));
                        parts.len() - 1
                    }
                };
                self.assign(name, Value::Parts(container, parts), span)?;
                match &self.variables[frame][name] {
                    Value::Parts(_, parts) => Ok(parts[at].1.clone()),
                    _ => unreachable!("a list was assigned"),
                }
            }
            Value::Number(n) if form != "$" => {
                let v = self.single(n);
                let v = self.made_own(frame, name, &v, span)?;
                let new = self.apart(new, &v, value.span)?;
                self.assign_element(&to, &v, new.clone(), value.span)?;
                Ok(new)
            }
            Value::Vector(v) if form != "$" => {
                let v = match (&*v, v.fixed()) {
                    (Vector::Local { .. }, _) => v,
                    (_, Some(n)) if n <= super::join::MOST_LOCAL => self.made_own(frame, name, &v, span)?,
                    _ => v,
                };
                let new = self.apart(new, &v, value.span)?;
                self.assign_element(&to, &v, new.clone(), value.span)?;
                Ok(new)
            }
            Value::Null => Err(Refusal::new(
                target.span,
                format!("`{name}` is NULL, and an element of it is assigned"),
                format!("A vector within a function keeps its length: {name} <- numeric(10) first."),
            )),
            other => Err(Refusal::new(
                target.span,
                format!("an element of {} is assigned", other.what()),
                format!("Make a vector first: {name} <- numeric(3)."),
            )),
        }
    }

    /// The assigned value, copied if it reads the vector that changes: it is also the value of the assignment.
    fn apart(&mut self, new: Value, v: &Vector, span: Span) -> Compiled<Value> {
        match (new, v) {
            (Value::Vector(new), Vector::Local { array, .. }) => {
                self.copy_if_aliased(new, *array, span).map(Value::Vector)
            }
            (new, _) => Ok(new),
        }
    }

    /// Copies a variable's vector into a local array that belongs to the variable, and rebinds the variable to it.
    fn made_own(&mut self, frame: usize, name: &str, v: &Vector, span: Span) -> Compiled<Rc<Vector>> {
        let own = self.stored(frame, name, v, span)?;
        self.variables[frame].insert(name.to_string(), own.clone());
        let Value::Vector(own) = own else { unreachable!("what is stored is a vector") };
        Ok(own)
    }

    /// Assigns to elements of a local vector `v`, the value of variable `to.name`. Refuses other vectors.
    fn assign_element(&mut self, to: &Assigned, v: &Rc<Vector>, new: Value, value_span: Span) -> Compiled<()> {
        let Assigned { name, form, subscripts, span } = *to;
        let Vector::Local { array, typed, length, dim } = **v else {
            return Err(Refusal::new(
                span,
                format!(
                    "`{name}` cannot be changed: it is read from outside, or its length is not written in the code"
                ),
                "Return the new values; a vector of the function's own has a length that is a number: numeric(3).",
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
                        value_span,
                        format!("{} is assigned to elements", other.what()),
                        "Assign numbers.",
                    ))
                }
            };
            if new.fixed() != Some(length.into()) {
                return Err(Refusal::new(value_span, "the lengths differ", "Assign as many elements as there are."));
            }
            let typed = join(typed, new.typed());
            let new = self.converted(&new, typed);
            let frame_value = Value::vector(new);
            return self.assign_shaped(name, frame_value, dim, span);
        }
        let new = match new {
            Value::Vector(v) if v.fixed() == Some(1) => {
                Value::Number(self.element(&v, Number::integer(0).at, value_span)?)
            }
            Value::Parts(Container::Named, parts) => self.combined(parts, value_span)?,
            other => other,
        };
        self.needs_one_type([&Value::Vector(v.clone()), &new].into_iter());
        let new_type = match &new {
            Value::Vector(new) => new.typed(),
            new => self.as_number(new.clone(), value_span)?.typed,
        };
        // The value is evaluated before any element changes.
        let new = match new {
            Value::Number(n) => Value::Number(self.frozen(n)),
            Value::Vector(w) => Value::Vector(self.copy_if_aliased(w, array, span)?),
            other => other,
        };
        // Subscripts are evaluated before the vector is widened, so that they too read elements of the old type.
        let extents: Vec<u16> = match (subscripts.len(), dim) {
            (1, _) => vec![length],
            (2, Some((rows, columns))) => vec![rows, columns],
            _ => {
                return Err(Refusal::new(
                    span,
                    "incorrect number of subscripts",
                    "Give one subscript for a vector, two for a matrix.",
                ))
            }
        };
        let mut axes = Vec::with_capacity(2);
        for (subscript, extent) in subscripts.iter().zip(extents) {
            let extent = Number::long(extent.into()).at;
            let (selection, own) = match &subscript.value {
                None => (Selection::All, span),
                Some(expr) => {
                    let value = self.expr(expr)?;
                    if strict {
                        (Selection::One(self.element_number(value, v, expr.span)?), expr.span)
                    } else {
                        self.no_matrix(v, &value, expr.span)?;
                        (self.selection(value, extent, expr.span)?, expr.span)
                    }
                }
            };
            axes.push(Axis { selection, extent, strict, span, own });
        }
        let joined = join(typed, new_type);
        let (array, typed) = if joined != typed && value::dtype(joined) != value::dtype(typed) {
            // R widens the whole vector, so the variable moves to an array of the wider type.
            let wide = self.converted(v, joined);
            self.assign_shaped(name, Value::vector(wide), dim, span)?;
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
        for axis in &mut axes {
            match &mut axis.selection {
                Selection::At(at) => *at = self.copy_if_aliased(at.clone(), array, span)?,
                Selection::Where(keep) => {
                    self.fits(keep, axis.extent, true, axis.own)?;
                    *keep = self.copy_if_aliased(keep.clone(), array, span)?;
                }
                _ => {}
            }
        }
        let new = match new {
            Value::Vector(new) => New::Several(new),
            n => {
                let n = self.as_number(n, value_span)?;
                New::One(self.as_typed(n, typed))
            }
        };
        self.assign_selected(array, typed, &axes, new, value_span)
    }

    /// The vector, copied if it reads `array`, so that assignments to the array do not change it.
    fn copy_if_aliased(&mut self, v: Rc<Vector>, array: u16, span: Span) -> Compiled<Rc<Vector>> {
        if !v.reads(array) {
            return Ok(v);
        }
        match v.fixed().filter(|n| *n <= super::join::MOST_LOCAL) {
            Some(n) => {
                let copy = self.new_array(v.typed(), n as u16);
                self.fill(copy, &v, span)?;
                Ok(Rc::new(Vector::Local { array: copy, typed: v.typed(), length: n as u16, dim: v.dim() }))
            }
            None => Ok(self.frozen_vector(v)),
        }
    }

    /// Assigns to the selected elements; the first subscript varies fastest, as in R.
    fn assign_selected(&mut self, array: u16, typed: Typed, axes: &[Axis], new: New, value_span: Span) -> Compiled<()> {
        let several = match new {
            New::One(n) => {
                return self.each_element(axes, &mut |c, at| {
                    c.emit(Statement::Set { array, at, value: n.at });
                    Ok(())
                })
            }
            New::Several(new) => new,
        };
        for axis in axes {
            self.none_missing(axis)?;
        }
        // `v[test] <- w[test]`: both sides keep the same elements, so one loop serves both.
        if let ([Axis { selection: Selection::Where(taken), .. }], Vector::Where { of, keep, .. }) = (axes, &*several) {
            if taken == keep {
                return self.each(taken.length(), &mut |c, index| {
                    c.where_kept(taken, index, value_span, &mut |c| {
                        let element = c.element(of, index, value_span)?;
                        let element = c.as_typed(element, typed);
                        let at = c.long(Number { at: index, typed: Typed::Value(Kind::Integer) });
                        c.emit(Statement::Set { array, at, value: element.at });
                        Ok(())
                    })
                });
            }
        }
        let given = self.length_of(&several);
        let again = self.given_fits(axes, given, value_span)?;
        let (count, one) = self.counter();
        self.each_element(axes, &mut |c, at| {
            let index = Number { at: Operand::Register(count), typed: Typed::Value(Kind::Integer) };
            let index = if again { c.apply(id::MOD, &[index, given], value_span)? } else { index };
            let element = c.element(&several, index.at, value_span)?;
            let element = c.as_typed(element, typed);
            c.emit(Statement::Set { array, at, value: element.at });
            c.count_on(count, one);
            Ok(())
        })
    }

    /// Fails unless the number of selected elements is a multiple of the number of values (or 0). Returns whether the
    /// values may have to be recycled.
    fn given_fits(&mut self, axes: &[Axis], given: Number, span: Span) -> Compiled<bool> {
        const MESSAGE: &str = "number of items to replace is not a multiple of replacement length";
        let mut taken = Number::integer(1);
        for axis in axes {
            let n = match &axis.selection {
                Selection::All => self.count_to_int(axis.extent),
                Selection::One(_) => Number::integer(1),
                Selection::At(at) => self.length_of(at),
                Selection::Where(keep) => {
                    let count = self.count_kept(keep, span)?;
                    self.count_to_int(count)
                }
            };
            taken = self.apply(id::MUL, &[taken, n], span)?;
        }
        if let (Some(n), Some(w)) = (taken.whole(), given.whole()) {
            return match n == 0 || w > 0 && n % w == 0 {
                true => Ok(n > w),
                false => Err(Refusal::new(span, MESSAGE, "Assign one number, or as many as there are elements.")),
            };
        }
        let fails = self.failure(span, MESSAGE);
        // The remainder is NA if there are no values.
        let rest = self.apply(id::MOD, &[taken, given], span)?;
        let none = self.apply(id::EQ, &[taken, Number::integer(0)], span)?;
        let fits = self.apply(id::EQ, &[rest, Number::integer(0)], span)?;
        let fits = self.apply(id::OR, &[none, fits], span)?;
        let otherwise = vec![Statement::Fail(fails)];
        self.emit(Statement::If { value: fits.at, missing: Some(fails), then: vec![], otherwise });
        Ok(true)
    }

    /// Fails if a subscript contains NA. R forbids NA subscripts if several values are assigned.
    fn none_missing(&mut self, axis: &Axis) -> Compiled<()> {
        let v = match &axis.selection {
            Selection::At(v) if self.constant_elements(v).is_none_or(|w| w.iter().any(|n| n.whole().is_none())) => v,
            Selection::Where(v) if !never_missing(v) => v,
            _ => return Ok(()),
        };
        self.walk(v, axis.span, &mut |c, x, _| {
            let missing = c.apply(id::IS_NA, &[x], axis.span)?;
            c.fail_if(missing.at, "NAs are not allowed in subscripted assignments", axis.own);
            Ok(())
        })
    }

    /// Calls `write` with the position of each selected element.
    fn each_element(
        &mut self,
        axes: &[Axis],
        write: &mut dyn FnMut(&mut Self, Operand) -> Compiled<()>,
    ) -> Compiled<()> {
        match axes {
            [one] => self.each_position(one, write),
            [rows, columns] => self.each_position(columns, &mut |c, column| {
                c.each_position(rows, &mut |c, row| {
                    let at = c.offset(vec![(row, Number::long(1).at), (column, rows.extent)]);
                    write(c, at)
                })
            }),
            _ => unreachable!("one subscript or two"),
        }
    }

    /// Calls `write` with the position of each selected element along one axis.
    fn each_position(
        &mut self,
        axis: &Axis,
        write: &mut dyn FnMut(&mut Self, Operand) -> Compiled<()>,
    ) -> Compiled<()> {
        let integer = |at| Number { at, typed: Typed::Value(Kind::Integer) };
        match &axis.selection {
            Selection::All => self.each(axis.extent, &mut |c, index| {
                let at = c.long(integer(index));
                write(c, at)
            }),
            Selection::One(n) => {
                let at = self.stored_position(*n, axis)?;
                write(self, at)
            }
            Selection::At(at) => self.walk(at, axis.span, &mut |c, n, _| {
                let at = c.stored_position(n, axis)?;
                write(c, at)
            }),
            Selection::Where(keep) => self.each(keep.length(), &mut |c, index| {
                let test = c.element(keep, index, axis.span)?;
                let (then, ()) = c.within(|c| {
                    let at = c.long(integer(index));
                    write(c, at)
                })?;
                c.emit(Statement::If { value: test.at, missing: None, then, otherwise: vec![] });
                Ok(())
            }),
        }
    }

    /// Assigns a vector to a variable, and gives the variable's array the dimensions `dim`.
    fn assign_shaped(&mut self, name: &str, value: Value, dim: Option<(u16, u16)>, span: Span) -> Compiled<()> {
        self.assign(name, value, span)?;
        let frame = self.frames.len() - 1;
        if let Some(Value::Vector(v)) = self.variables[frame].get(name) {
            if let Vector::Local { array, typed, length, .. } = **v {
                let shaped = Value::vector(Vector::Local { array, typed, length, dim });
                self.variables[frame].insert(name.into(), shaped);
            }
        }
        Ok(())
    }

    /// The position (from 0) of an assigned element. Positions outside are failures, since a local vector cannot grow.
    /// At NA, `x[i] <- value` assigns nothing, and `x[[i]] <- value` fails.
    fn stored_position(&mut self, n: Number, axis: &Axis) -> Compiled<Operand> {
        let Axis { extent, strict, span, own, .. } = *axis;
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
        let low = self.failure_at(span, BELOW, written.clone());
        let high = Some(self.failure_at(span, BEYOND, written));
        let to = self.fresh(Class::I64);
        self.emit(Statement::Position { to, from: n.at, extent, low, high, inside: false });
        if strict {
            let number = Number { at: Operand::Register(to), typed: Typed::Value(Kind::Integer64) };
            let below = self.apply(id::LT, &[number, Number::long(0)], span)?;
            self.fail_if(below.at, "[[ ]] subscript out of bounds", span);
        }
        Ok(Operand::Register(to))
    }
}

/// Refuses an assignment by name to a vector with names unless it is of a number of the vector's type.
fn keeps_type(parts: &Parts, form: &str, new: &Value, span: Span) -> Compiled<()> {
    let own = value::typed_of(parts).map(value::dtype);
    if form != "$" && own.is_some() && new.number_typed().map(value::dtype) == own {
        return Ok(());
    }
    let message = match (form, new) {
        ("$", _) => "an element of a vector is assigned by `$`".to_string(),
        (_, Value::Number(_)) => "an element of another type is assigned by its name".to_string(),
        _ => format!("{} is assigned to an element of a vector", new.what()),
    };
    let remedy = "Make a list, list(a = 1), or a named vector of the wider type first: c(a = 1, b = 2.5).";
    Err(Refusal::new(span, message, remedy))
}
