//! Subscripts: elements of vectors and matrices.

use std::rc::Rc;

use super::control::nth;
use super::subscript::Selection;
use super::value::{self, shown_names, Container, Number, Parts, Value, Vector};
use super::{Bounds, Compiled, Compiler, Operand, Refusal, Span, Statement};
use crate::syntax::{Argument, Expr, Form};
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::id;
use verdigris_ops::rule::Typed;
use verdigris_ops::scalar::Scalar;

pub(super) const BEYOND: &str = "subscript out of bounds";
pub(super) const BELOW: &str = "a subscript below 1";

impl Compiler<'_> {
    /// `x[i]`, `x[[i]]`, `x[i, j]`, `x$name`.
    pub(super) fn subset(&mut self, form: &str, args: &[Argument], span: Span) -> Compiled<Value> {
        let target = nth(args, 0, span, form)?;
        let value = self.expr(target)?;
        if !self.reachable {
            return Ok(Value::Null);
        }
        // A subscript that assigns does not change the value that was taken.
        let changes = args[1..].iter().filter_map(|a| a.value.as_ref()).any(Expr::assigns);
        let value = if changes { self.frozen_value(value) } else { value };
        let (drop, subscripts): (Vec<&Argument>, Vec<&Argument>) = args[1..].iter().partition(|a| is_drop(a));
        keeps_none(&drop, span)?;
        match value {
            Value::Parts(container, parts) => self.part_of(container, parts, form, &subscripts, span),
            Value::Captured(_) if form == "[" || subscripts.len() != 1 => {
                let (message, remedy) = match subscripts.len() {
                    1 => ("a part of a list, which is a list in R", "Write x[[\"name\"]]."),
                    _ => ("several subscripts of a list", "Take its element first: x$name[i]."),
                };
                Err(Refusal::new(span, message, remedy))
            }
            Value::Captured(path) => {
                let scope = self.outermost_scope();
                let key = match subscripts.first().and_then(|a| a.value.as_ref()).map(|e| &e.form) {
                    Some(Form::Name(name)) if form == "$" => name.clone(),
                    Some(Form::Text(name)) => name.clone(),
                    Some(Form::Double(x)) if form != "$" => format!("[[{x}]]"),
                    Some(Form::Integer(x)) if form != "$" => format!("[[{x}]]"),
                    _ => {
                        return Err(Refusal::new(
                            span,
                            "a list element is selected by a computed value",
                            "Name it: x$name or x[[\"name\"]]; or keep numbers in a vector.",
                        ))
                    }
                };
                let path = path.into_iter().chain([key]).collect();
                self.outside(scope, path, span)
            }
            Value::Vector(v) => self.subset_vector(&v, form, &subscripts, span),
            Value::Number(n) if form != "$" => {
                let v = self.single(n);
                self.subset_vector(&v, form, &subscripts, span)
            }
            other => Err(Refusal::new(span, format!("{} has no elements", other.what()), "Take elements of vectors.")),
        }
    }

    /// The scope in which free names of the outermost enclosing function are found.
    fn outermost_scope(&self) -> u32 {
        let mut frame = self.frames.len() - 1;
        while let Some(parent) = self.frames[frame].parent {
            frame = parent;
        }
        self.frames[frame].lambda.scope
    }

    /// Elements of a list, and of a vector with names. `l["a"]` and `l[k]` of a list are lists.
    fn part_of(
        &mut self,
        container: Container,
        parts: Parts,
        form: &str,
        subscripts: &[&Argument],
        span: Span,
    ) -> Compiled<Value> {
        let expr = match subscripts {
            [one] => one.value.as_ref(),
            _ => None,
        };
        let name = match expr.map(|e| &e.form) {
            Some(Form::Name(name)) if form == "$" => Some(name),
            Some(Form::Text(name)) => Some(name),
            _ => None,
        };
        let is_list = container == Container::List;
        if form == "$" && !is_list {
            return Err(Refusal::new(span, "$ operator is invalid for atomic vectors", "Write x[[\"name\"]]."));
        }
        let taken = |k: usize| match is_list && form == "[" {
            true => Value::Parts(container, vec![parts[k].clone()]),
            false => parts[k].1.clone(),
        };
        if let Some(name) = name {
            let found = parts.iter().position(|(n, _)| n.as_deref() == Some(name));
            return found.map(taken).ok_or_else(|| {
                let what = if is_list { "list" } else { "vector" };
                let message = format!("the {what} has no element `{name}`");
                Refusal::new(span, message, format!("It has: {}.", shown_names(&parts)))
            });
        }
        if let Some(expr) = expr.filter(|_| is_list) {
            if let Some(k) = self.number(expr)?.whole() {
                if k >= 1 && k as usize <= parts.len() {
                    return Ok(taken(k as usize - 1));
                }
            }
        } else if !is_list {
            let Value::Vector(v) = self.combined(parts, span)? else { unreachable!("c() gives a vector") };
            return self.subset_vector(&v, form, subscripts, span);
        }
        Err(Refusal::new(
            span,
            "a list element is selected by a computed value",
            "Name it: x$name or x[[\"name\"]]; or keep numbers in a vector: c().",
        ))
    }

    fn subset_vector(&mut self, v: &Rc<Vector>, form: &str, subscripts: &[&Argument], span: Span) -> Compiled<Value> {
        if form == "$" {
            return Err(Refusal::new(span, "$ operator is invalid for atomic vectors", "Take elements by x[i]."));
        }
        match subscripts {
            [one] => match &one.value {
                None => Ok(Value::Vector(v.clone())),
                Some(expr) => {
                    let value = self.expr(expr)?;
                    if form == "[[" {
                        let n = self.element_number(value, v, expr.span)?;
                        return self.selected(v, Selection::One(n), true, span, expr.span);
                    }
                    self.no_matrix(v, &value, expr.span)?;
                    let selection = self.selection(value, v.length(), expr.span)?;
                    self.selected(v, selection, false, span, expr.span)
                }
            },
            _ => self.subset_matrix(v, subscripts, span),
        }
    }

    /// The element number that `x[[i]]` takes.
    pub(super) fn element_number(&mut self, value: Value, v: &Vector, span: Span) -> Compiled<Number> {
        let n = match value {
            Value::Vector(one) if one.fixed() == Some(1) => self.element(&one, Number::integer(0).at, span)?,
            Value::Vector(_) => {
                let remedy = "Take one element, or several by x[i].";
                return Err(Refusal::new(span, "attempt to select more than one element", remedy));
            }
            value => self.as_number(value, span)?,
        };
        self.needs_known_logical(n);
        if n.kind() == Kind::Logical {
            // TRUE selects the first element.
            let [missing, none] =
                [BEYOND, "attempt to select less than one element"].map(|message| self.failure(span, message));
            let test = self.cast(n, DType::Bool8);
            let otherwise = vec![Statement::Fail(none)];
            self.emit(Statement::If { value: test.at, missing: Some(missing), then: vec![], otherwise });
            return Ok(Number::integer(1));
        }
        match (n.whole(), v.fixed()) {
            // A negative subscript of two elements selects the other one.
            (Some(k @ (-1 | -2)), Some(2)) => Ok(Number::integer(k as i32 + 3)),
            (Some(k), _) if k < 0 => Err(Refusal::new(
                span,
                "invalid negative subscript in [[ ]]",
                "Write the number of the element, or x[-i] for several.",
            )),
            _ => Ok(n),
        }
    }

    /// Refuses a matrix of subscripts: R reads a numeric matrix with one column per dimension as one subscript per row.
    pub(super) fn no_matrix(&self, v: &Vector, subscript: &Value, span: Span) -> Compiled<()> {
        let Value::Vector(at) = subscript else { return Ok(()) };
        let (axes, by) = (self.extents(v), self.extents(at));
        let columns = |n: usize| match by.get(1) {
            Some(Operand::Constant(columns)) => *columns == Scalar::I64(n as i64),
            columns => columns.is_some(),
        };
        let logical = value::dtype(at.typed()).kind() == Kind::Logical;
        match axes.len() > 1 && by.len() == 2 && columns(axes.len()) && !logical {
            true => Err(Refusal::new(
                span,
                "a matrix of subscripts, one row for each element",
                "Take elements by two subscripts in a loop: x[i, j].",
            )),
            false => Ok(()),
        }
    }

    /// `x[i, j]`: a number, or a vector if a subscript selects several elements.
    fn subset_matrix(&mut self, v: &Rc<Vector>, subscripts: &[&Argument], span: Span) -> Compiled<Value> {
        let extents = self.extents(v);
        if extents.len() != subscripts.len() {
            return Err(Refusal::new(
                span,
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
                _ => self.long_op(id::MUL, strides[k - 1], extents[k - 1], span)?,
            });
        }
        let mut selections = Vec::with_capacity(extents.len());
        for (k, subscript) in subscripts.iter().enumerate() {
            selections.push(match &subscript.value {
                None => (Selection::All, span),
                Some(expr) => {
                    let value = self.expr(expr)?;
                    let later = subscripts[k + 1..].iter().filter_map(|s| s.value.as_ref());
                    let value = if later.into_iter().any(Expr::assigns) { self.frozen_value(value) } else { value };
                    let selection = match self.selection(value, extents[k], expr.span)? {
                        // One row or column drops the dimension.
                        Selection::At(at) if at.fixed() == Some(1) => {
                            Selection::One(self.element(&at, Number::integer(0).at, span)?)
                        }
                        other => other,
                    };
                    (selection, expr.span)
                }
            });
        }
        let several: Vec<usize> =
            (0..extents.len()).filter(|&k| !matches!(selections[k].0, Selection::One(_))).collect();
        if let ([rows, columns], Some((height, _))) = (&selections[..], v.dim()) {
            if several.len() == 2 {
                return self.block_of(v, height.into(), rows, columns, span);
            }
        }
        if several.len() > 1 {
            return Err(Refusal::new(
                span,
                "a subscript that leaves several dimensions",
                "Take one row, one column or one element.",
            ));
        }
        let mut at = Vec::new();
        for (k, (selection, own)) in selections.iter().enumerate() {
            if let Selection::One(n) = selection {
                at.push((self.position(*n, extents[k], true, span, Some(*own))?, strides[k]));
            }
        }
        let start = self.offset(at);
        let Some(&k) = several.first() else { return Ok(Value::Number(self.at_position(v, start, span)?)) };
        let line = match &**v {
            Vector::Table { table, typed, .. } => Vector::Table {
                table: *table,
                typed: *typed,
                start,
                step: strides[k],
                length: extents[k],
                dim: Vec::new(),
            },
            _ => {
                let (Operand::Constant(Scalar::I64(n)), Operand::Constant(Scalar::I64(step))) =
                    (extents[k], strides[k])
                else {
                    unreachable!("what is no table has a fixed size")
                };
                let first = Number { at: start, typed: Typed::Value(Kind::Integer64) };
                let first = self.in_class(first, Class::I32);
                let from = self.apply(id::ADD, &[first, Number::integer(1)], span)?;
                let at = Vector::Range { from, step: Number::integer(step as i32), length: Number::long(n).at };
                Vector::Pick { of: v.clone(), at: Rc::new(at), strict: false }
            }
        };
        let (selection, own) = selections.swap_remove(k);
        self.selected(&Rc::new(line), selection, true, span, own)
    }

    /// Several rows and columns of a matrix of fixed size. Their numbers must be known at compile time.
    fn block_of(
        &mut self,
        v: &Rc<Vector>,
        height: usize,
        rows: &(Selection, Span),
        columns: &(Selection, Span),
        span: Span,
    ) -> Compiled<Value> {
        let extents = self.extents(v);
        let mut numbers = Vec::new();
        for ((selection, own), extent) in [rows, columns].into_iter().zip(&extents) {
            let at = match selection {
                Selection::All => {
                    Rc::new(Vector::Range { from: Number::integer(1), step: Number::integer(1), length: *extent })
                }
                Selection::At(at) if at.fixed().is_some() => at.clone(),
                _ => {
                    return Err(Refusal::new(
                        *own,
                        "a subscript that leaves several dimensions, and how many rows or columns is not known",
                        "Take one row, one column or one element.",
                    ))
                }
            };
            numbers.push((at, *own));
        }
        let [(rows, row_span), (columns, column_span)] = [numbers[0].clone(), numbers[1].clone()];
        let (r, c) = (rows.fixed().expect("it was asked"), columns.fixed().expect("it was asked"));
        if r * c > super::join::MOST_LOCAL {
            return Err(super::vector::too_long(span));
        }
        let array = self.new_array(v.typed(), (r * c) as u16);
        self.grid(r, c, &mut |compiler, i, j| {
            let a = compiler.element(&rows, i, span)?;
            let a = compiler.position(a, extents[0], true, span, Some(row_span))?;
            let b = compiler.element(&columns, j, span)?;
            let b = compiler.position(b, extents[1], true, span, Some(column_span))?;
            let from = compiler.offset(vec![(a, Number::long(1).at), (b, Number::long(height as i64).at)]);
            let element = compiler.at_position(v, from, span)?;
            let at = compiler.offset_in(i, j, r, span)?;
            compiler.emit(Statement::Set { array, at, value: element.at });
            Ok(())
        })?;
        Ok(Value::vector(Vector::Local {
            array,
            typed: v.typed(),
            length: (r * c) as u16,
            // R drops an extent of 1.
            dim: (r != 1 && c != 1).then_some((r as u16, c as u16)),
        }))
    }

    /// The memory offset of (position, stride) pairs along axes.
    pub(super) fn offset(&mut self, at: Vec<(Operand, Operand)>) -> Operand {
        let mut sum = 0;
        for pair in &at {
            match pair {
                (Operand::Constant(Scalar::I64(at)), Operand::Constant(Scalar::I64(stride))) if *at >= 0 => {
                    sum += at * stride;
                }
                _ => {
                    let to = self.fresh(Class::I64);
                    self.emit(Statement::Offset { to, at });
                    return Operand::Register(to);
                }
            }
        }
        Number::long(sum).at
    }

    /// Extents along the axes (I64); empty for a plain vector.
    pub(super) fn extents(&self, v: &Vector) -> Vec<Operand> {
        match v {
            Vector::Table { dim, .. } => dim.clone(),
            _ => v.dim().map_or(Vec::new(), |(r, c)| vec![Number::long(r.into()).at, Number::long(c.into()).at]),
        }
    }

    /// R's subscript as a position from 0 (-1 for NA). `span` is the whole expression, `own` the subscript's source if
    /// it has one.
    pub(super) fn position(
        &mut self,
        n: Number,
        extent: Operand,
        strict: bool,
        span: Span,
        own: Option<Span>,
    ) -> Compiled<Operand> {
        if n.kind() == Kind::Complex {
            let span = own.unwrap_or(span);
            return Err(Refusal::new(span, "invalid subscript type 'complex'", "Subscripts are numbers."));
        }
        if let (Some(k), Operand::Constant(Scalar::I64(e))) = (n.whole(), extent) {
            if k >= 1 && k <= e {
                return Ok(Number::long(k - 1).at);
            }
        }
        let own = Some(own.map_or(String::new(), |own| self.scope.text(own)));
        let low = self.failure_at(span, BELOW, own.clone());
        let fails = match self.request.bounds {
            Bounds::AsR => strict,
            Bounds::Missing => false,
            Bounds::Fail => true,
        };
        let high = match fails {
            true => Some(self.failure_at(span, BEYOND, own)),
            false => None,
        };
        let to = self.fresh(Class::I64);
        self.emit(Statement::Position { to, from: n.at, extent, low, high, inside: false });
        Ok(Operand::Register(to))
    }

    /// The element of a vector at a position from 0 (I64); NA at -1.
    pub(super) fn at_position(&mut self, v: &Vector, at: Operand, span: Span) -> Compiled<Number> {
        match v {
            Vector::Local { array, typed, .. } => {
                if let (Operand::Constant(Scalar::I64(k)), Some(written)) = (at, self.constant_elements(v)) {
                    if let Some(n) = usize::try_from(k).ok().and_then(|k| written.get(k)) {
                        return Ok(Number { typed: *typed, ..*n });
                    }
                }
                let to = self.fresh(value::dtype(*typed).class());
                self.emit(Statement::Get { to, array: *array, at });
                Ok(Number::register(to, *typed))
            }
            Vector::Table { table, typed, start, step, .. } => {
                let whole = *start == Number::long(0).at && *step == Number::long(1).at;
                let offset = if whole {
                    at
                } else {
                    let to = self.fresh(Class::I64);
                    self.emit(Statement::Offset { to, at: vec![(*start, Number::long(1).at), (at, *step)] });
                    Operand::Register(to)
                };
                let to = self.fresh(value::dtype(*typed).class());
                self.emit(Statement::Read { to, table: *table, at: offset });
                Ok(Number::register(to, *typed))
            }
            // Position -1 matches no kept element, so the result is NA.
            Vector::Where { of, keep, .. } => {
                let number = Number { at, typed: Typed::Value(Kind::Integer64) };
                let index = self.in_class(number, Class::I32);
                self.nth_kept(of, keep, index.at, span)
            }
            // Elements that are computed on demand need a test for -1.
            other => {
                let number = Number { at, typed: Typed::Value(Kind::Integer64) };
                let index = self.in_class(number, Class::I32);
                if let Operand::Constant(_) = index.at {
                    return self.element(other, index.at, span);
                }
                let outside = self.apply(id::LT, &[index, Number::integer(0)], span)?;
                let typed = other.typed();
                let value =
                    self.branch(outside, None, span, &mut |c| Ok(Value::Number(c.missing(typed))), &mut |c| {
                        Ok(Value::Number(c.element(other, index.at, span)?))
                    })?;
                self.as_number(value, span)
            }
        }
    }

    /// NA of a type.
    pub(super) fn missing(&mut self, typed: Typed) -> Number {
        self.as_typed(Number::logical(None), typed)
    }

    /// The element of a vector at an index from 0 (I32), which must be inside.
    pub(super) fn element(&mut self, v: &Vector, index: Operand, span: Span) -> Compiled<Number> {
        self.check_limits(span)?;
        let index_number = Number { at: index, typed: Typed::Value(Kind::Integer) };
        match v {
            Vector::Local { .. } | Vector::Table { .. } => {
                let at = self.long(index_number);
                self.at_position(v, at, span)
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
                    self.mark_step(to, from.typed);
                    Ok(Number::register(to, from.typed))
                }
            },
            Vector::Map { op, args, typed, .. } => {
                let mut numbers = Vec::with_capacity(args.len());
                for arg in args {
                    numbers.push(match arg {
                        Value::Number(n) => *n,
                        Value::Vector(v) if v.fixed() == Some(1) => self.element(v, Number::integer(0).at, span)?,
                        Value::Vector(v) => self.element(v, index, span)?,
                        other => unreachable!("{} is no operand", other.what()),
                    });
                }
                let n = self.apply(*op, &numbers, span)?;
                Ok(self.as_typed(n, *typed))
            }
            Vector::Pick { of, at, strict } => {
                let subscript = self.element(at, index, span)?;
                let at = self.position(subscript, of.length(), *strict, span, None)?;
                self.at_position(of, at, span)
            }
            Vector::Where { of, keep, .. } => self.nth_kept(of, keep, index, span),
            Vector::Except { of, .. } => self.is_absent(of, index, span),
        }
    }
}

pub(super) fn is_drop(argument: &Argument) -> bool {
    argument.name.as_deref() == Some("drop")
}

/// Refuses `drop = FALSE`, which would keep dimensions.
pub(super) fn keeps_none(drop: &[&Argument], span: Span) -> Compiled<()> {
    let is_true = |a: &&Argument| matches!(a.value.as_ref().map(|v| &v.form), Some(Form::Logical(Some(true))));
    match drop.iter().all(is_true) {
        true => Ok(()),
        false => Err(Refusal::new(span, "`drop` other than TRUE", "Make a matrix of the elements: matrix(x[i, ], 1).")),
    }
}
