//! Constructors of vectors and lists, and functions of their length.

use std::rc::Rc;

use super::builtin::Matched;
use super::control::{all_given, nth};
use super::value::{join, Container, Number, Parts, Value, Vector};
use super::vector::too_long;
use super::{Compiled, Compiler, Refusal, Span};
use crate::syntax::{Argument, Expr, Form};

/// Vectors of at most so many elements become elements of a list.
const MOST_ELEMENTS: usize = 64;

impl Compiler<'_> {
    /// None if `name` is none of these functions.
    pub(super) fn made(&mut self, name: &str, args: &[Argument], span: Span) -> Compiled<Option<Value>> {
        match name {
            "c" => {
                let (args, unnamed) = options_of_c(args, span)?;
                let args = &args[..];
                let values = self.operands(&all_given(args, span)?)?;
                if !self.reachable {
                    return Ok(Some(Value::Null));
                }
                let is_list = values.iter().any(|v| matches!(v, Value::Parts(Container::List, _) | Value::Captured(_)));
                let named = args.iter().any(|a| a.name.is_some())
                    || values.iter().any(|v| matches!(v, Value::Parts(Container::Named, _)));
                if !is_list && (unnamed || !named) {
                    return self.combined(values.into_iter().map(|v| (None, v)).collect(), span).map(Some);
                }
                self.varying.names = true;
                let mut parts = Vec::new();
                for (argument, value) in args.iter().zip(values) {
                    parts.extend(self.elements_of(argument.name.as_deref(), value, span)?);
                }
                if is_list {
                    if unnamed {
                        parts.iter_mut().for_each(|(name, _)| *name = None);
                    }
                    return Ok(Some(Value::Parts(Container::List, parts)));
                }
                self.needs_one_type(parts.iter().map(|(_, part)| part));
                let mut numbers = Vec::with_capacity(parts.len());
                for (name, value) in parts {
                    numbers.push((name, self.as_number(value, span)?));
                }
                let typed = numbers.iter().map(|(_, n)| n.typed).reduce(join);
                let Some(typed) = typed else { return Ok(Some(Value::Null)) };
                let numbers = numbers.into_iter().map(|(name, n)| (name, Value::Number(self.as_typed(n, typed))));
                Ok(Some(Value::Parts(Container::Named, numbers.collect())))
            }
            "list" => {
                let values = self.operands(&all_given(args, span)?)?;
                let parts = args.iter().map(|a| a.name.clone()).zip(values).collect();
                Ok(Some(Value::Parts(Container::List, parts)))
            }
            "numeric" | "double" | "integer" | "logical" | "vector" => {
                let (zero, count) = match name {
                    "integer" => (Number::integer(0), nth(args, 0, span, name)?),
                    "logical" => (Number::logical(Some(false)), nth(args, 0, span, name)?),
                    "vector" => {
                        let mode = nth(args, 0, span, name)?;
                        let zero = match &mode.form {
                            Form::Text(t) if t == "integer" => Number::integer(0),
                            Form::Text(t) if t == "logical" => Number::logical(Some(false)),
                            Form::Text(t) if t == "numeric" || t == "double" => Number::double(0.0),
                            _ => {
                                return Err(Refusal::new(
                                    mode.span,
                                    "a vector of another mode",
                                    "Use numeric(n), integer(n) or logical(n).",
                                ))
                            }
                        };
                        (zero, nth(args, 1, span, name)?)
                    }
                    _ => (Number::double(0.0), nth(args, 0, span, name)?),
                };
                let n = self.fixed_count(count)?;
                Ok(Some(Value::vector(Vector::Same { value: zero, length: Number::long(n).at, dim: None })))
            }
            "rep" | "rep.int" | "rep_len" => {
                let names: &[&str] = if name == "rep_len" { &["x", "length.out"] } else { &["x", "times"] };
                let matched = Matched::new(name, names, args, span)?;
                let n = self.fixed_count(matched.needed(names[1])?)?;
                match self.expr(matched.needed("x")?)? {
                    Value::Number(value) => {
                        self.needs_one_kind(value);
                        let value = self.frozen(value);
                        Ok(Some(Value::vector(Vector::Same { value, length: Number::long(n).at, dim: None })))
                    }
                    Value::Vector(v) if name != "rep_len" => {
                        let parts = (0..n).map(|_| (None, Value::Vector(v.clone()))).collect();
                        self.combined(parts, span).map(Some)
                    }
                    other => Err(Refusal::new(span, format!("{} is repeated", other.what()), "Repeat a number.")),
                }
            }
            "matrix" => {
                let matched = Matched::new(name, &["data", "nrow", "ncol"], args, span)?;
                let rows = matched.expr("nrow").map(|e| self.fixed_count(e)).transpose()?;
                let columns = matched.expr("ncol").map(|e| self.fixed_count(e)).transpose()?;
                let data = match matched.expr("data") {
                    Some(e) => self.expr(e)?,
                    None => Value::Number(Number::logical(None)),
                };
                let elements = match &data {
                    Value::Vector(v) => v.fixed().ok_or_else(|| self.unfixed(v, span))? as i64,
                    _ => 1,
                };
                let (rows, columns) = match (rows, columns) {
                    (Some(r), Some(c)) => (r, c),
                    (Some(r), None) => (r, (elements + r.max(1) - 1) / r.max(1)),
                    (None, Some(c)) => ((elements + c.max(1) - 1) / c.max(1), c),
                    (None, None) => (elements, 1),
                };
                let n = rows * columns;
                if n > super::join::MOST_LOCAL as i64 {
                    return Err(too_long(span));
                }
                let dim = Some((rows as u16, columns as u16));
                match data {
                    Value::Number(value) => {
                        self.needs_one_kind(value);
                        let value = self.frozen(value);
                        Ok(Some(Value::vector(Vector::Same { value, length: Number::long(n).at, dim })))
                    }
                    Value::Vector(v) if elements == n => {
                        let array = self.new_array(v.typed(), n as u16);
                        self.fill(array, &v, span)?;
                        Ok(Some(Value::vector(Vector::Local { array, typed: v.typed(), length: n as u16, dim })))
                    }
                    _ => Err(Refusal::new(
                        span,
                        "data length differs from size of matrix",
                        "Give one number, or as many as there are elements.",
                    )),
                }
            }
            ":" => {
                let values = self.operands(&[nth(args, 0, span, ":")?, nth(args, 1, span, ":")?])?;
                let mut values = values.into_iter();
                let a = self.as_number(values.next().expect("two"), span)?;
                let b = self.as_number(values.next().expect("two"), span)?;
                self.colon(a, b, span).map(Some)
            }
            "seq_len" => {
                let n = self.number(nth(args, 0, span, name)?)?;
                self.counted(n, span).map(Some)
            }
            "seq_along" => {
                let n = match self.expr(nth(args, 0, span, name)?)? {
                    Value::Vector(v) => self.length_of(&v),
                    Value::Parts(_, parts) => Number::integer(parts.len() as i32),
                    Value::Number(_) => Number::integer(1),
                    other => {
                        return Err(Refusal::new(span, format!("seq_along() of {}", other.what()), "Give a vector."))
                    }
                };
                self.counted(n, span).map(Some)
            }
            "seq" | "seq.int" => self.sequence(name, args, span).map(Some),
            "rev" => {
                let v = self.reduced_one(name, &["x"], args, span)?;
                let from = self.length_of(&v);
                let at = Rc::new(Vector::Range { from, step: Number::integer(-1), length: v.length() });
                Ok(Some(Value::vector(Vector::Pick { of: v, at, strict: false })))
            }
            "length" | "nrow" | "ncol" | "NROW" | "NCOL" => {
                let value = self.expr(nth(args, 0, span, name)?)?;
                self.size(name, &value, span).map(|n| Some(Value::Number(n)))
            }
            "dim" => {
                let value = self.expr(nth(args, 0, span, name)?)?;
                let Value::Vector(v) = &value else { return Ok(Some(Value::Null)) };
                let mut parts = Vec::new();
                for extent in self.extents(v) {
                    parts.push((None, Value::Number(self.count_to_int(extent))));
                }
                if parts.is_empty() {
                    return Ok(Some(Value::Null));
                }
                self.combined(parts, span).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The elements, with their names in R, that an argument of `c()` adds to a list or to a vector with names.
    fn elements_of(&mut self, name: Option<&str>, value: Value, span: Span) -> Compiled<Parts> {
        let inner: Parts = match value {
            Value::Null => return Ok(Vec::new()),
            Value::Parts(_, parts) => parts,
            Value::Vector(v) => {
                let n = v.fixed().filter(|&n| n <= MOST_ELEMENTS).ok_or_else(|| self.unfixed(&v, span))?;
                let mut numbers = Vec::with_capacity(n);
                for k in 0..n {
                    let element = self.element(&v, Number::integer(k as i32).at, span)?;
                    numbers.push((None, Value::Number(element)));
                }
                numbers
            }
            Value::Captured(_) => {
                return Err(Refusal::new(span, "c() of a list from outside", "Write its elements: c(x$a, x$b)."))
            }
            other => return Ok(vec![(name.map(String::from), other)]),
        };
        let several = inner.len() > 1;
        let called = |(k, (own, value)): (usize, (Option<String>, Value))| {
            let whole = match (name, own) {
                (Some(outer), Some(own)) => Some(format!("{outer}.{own}")),
                (Some(outer), None) if several => Some(format!("{outer}{}", k + 1)),
                (Some(outer), None) => Some(outer.to_string()),
                (None, own) => own,
            };
            (whole, value)
        };
        Ok(inner.into_iter().enumerate().map(called).collect())
    }

    /// A count, which must be known at compile time.
    fn fixed_count(&mut self, expr: &Expr) -> Compiled<i64> {
        let n = self.number(expr)?;
        match n.whole() {
            Some(n) if (0..=super::join::MOST_LOCAL as i64).contains(&n) => Ok(n),
            _ => Err(too_long(expr.span)),
        }
    }

    fn size(&mut self, name: &str, value: &Value, span: Span) -> Compiled<Number> {
        let v = match value {
            Value::Vector(v) => v.clone(),
            Value::Number(_) if !matches!(name, "nrow" | "ncol") => return Ok(Number::integer(1)),
            Value::Number(_) => {
                return Err(Refusal::new(span, format!("{name}() of a number is NULL"), "Use length() or NROW()."))
            }
            Value::Parts(_, parts) if matches!(name, "length" | "NROW") => {
                return Ok(Number::integer(parts.len() as i32))
            }
            Value::Parts(..) if name == "NCOL" => return Ok(Number::integer(1)),
            other => return Err(Refusal::new(span, format!("{name}() of {}", other.what()), "Give a vector.")),
        };
        let extents = self.extents(&v);
        let at = match (name, extents.len()) {
            ("length", _) | ("NROW", 0) => v.length(),
            ("NCOL", 0) => return Ok(Number::integer(1)),
            ("nrow" | "NROW", n) if n > 0 => extents[0],
            ("ncol" | "NCOL", n) if n > 1 => extents[1],
            _ => return Err(Refusal::new(span, format!("{name}() of a vector is NULL"), "Use length().")),
        };
        Ok(self.count_to_int(at))
    }
}

/// The arguments of `c()` without `recursive` and `use.names`, and whether it drops names.
fn options_of_c(args: &[Argument], span: Span) -> Compiled<(Vec<Argument>, bool)> {
    let mut unnamed = false;
    let mut rest = Vec::with_capacity(args.len());
    for argument in args {
        let form = argument.value.as_ref().map(|v| &v.form);
        let is = |wanted: bool| matches!(form, Some(Form::Logical(Some(x))) if *x == wanted);
        match argument.name.as_deref() {
            Some("use.names") if is(true) || is(false) => unnamed = is(false),
            Some("recursive") if is(false) => {}
            Some(option @ ("use.names" | "recursive")) => {
                return Err(Refusal::new(
                    span,
                    format!("`{option}` of `c` is computed, or not supported"),
                    "Leave it out; c() takes numbers and vectors.",
                ))
            }
            _ => rest.push(argument.clone()),
        }
    }
    Ok((rest, unnamed))
}
