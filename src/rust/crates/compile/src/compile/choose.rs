//! Selection (`ifelse`, `switch`), conversion, type tests, and `stop()`.

use super::builtin::{names_of, Matched};
use super::control::nth;
use super::function::missing_flag;
use super::subscript::{flat, shaped};
use super::value::{self, Container, Number, Value};
use super::{Compiled, Compiler, Operand, Refusal, Span, Statement};
use crate::syntax::{Argument, Expr, Form};
use verdigris_ops::dtype::{DType, Kind};
use verdigris_ops::id;
use verdigris_ops::rule::Typed;

impl Compiler<'_> {
    /// None if `name` is none of these functions.
    pub(super) fn chosen(&mut self, name: &str, args: &[Argument], span: Span) -> Compiled<Option<Value>> {
        let number = |n: Number| Ok(Some(Value::Number(n)));
        match name {
            "-" | "+" if args.len() == 1 => {
                let value = self.operands(&[nth(args, 0, span, name)?])?;
                let op = if name == "-" { id::NEG } else { id::POS };
                let value = self.row_on(op, value, span)?;
                if let (Value::Number(Number { at: Operand::Register(r), .. }), "-") = (&value, name) {
                    self.negated.insert(*r);
                }
                Ok(Some(value))
            }
            "invisible" | "identity" => self.expr(nth(args, 0, span, name)?).map(Some),
            "ifelse" => self.ifelse(args, span).map(Some),
            "isTRUE" | "isFALSE" => {
                let n = self.number(nth(args, 0, span, name)?)?;
                self.needs_known_logical(n);
                if n.kind() != Kind::Logical {
                    return number(Number::logical(Some(false)));
                }
                let n = if name == "isFALSE" { self.apply(id::NOT, &[n], span)? } else { n };
                let na = self.apply(id::IS_NA, &[n], span)?;
                number(self.apply(id::SELECT, &[na, Number::logical(Some(false)), n], span)?)
            }
            "as.numeric" | "as.double" => self.converts(args, Typed::Value(Kind::Double), span).map(Some),
            "as.integer" => self.converts(args, Typed::Value(Kind::Integer), span).map(Some),
            "as.logical" => self.converts(args, Typed::Value(Kind::Logical), span).map(Some),
            "as.complex" => self.converts(args, Typed::Value(Kind::Complex), span).map(Some),
            "is.numeric" | "is.double" | "is.integer" | "is.logical" | "is.complex" | "is.null" | "is.list" => {
                let value = self.expr(nth(args, 0, span, name)?)?;
                if let (Value::Number(n), false) = (&value, matches!(name, "is.null" | "is.list")) {
                    self.needs_one_kind(*n);
                    self.needs_known_logical(*n);
                }
                let kind = match &value {
                    Value::Parts(Container::Named, parts) => {
                        value::typed_of(parts).map(|typed| value::dtype(typed).kind())
                    }
                    Value::Number(n) => Some(n.kind()),
                    Value::Vector(v) => Some(value::dtype(v.typed()).kind()),
                    _ => None,
                };
                let is = match name {
                    "is.numeric" => matches!(kind, Some(Kind::Integer | Kind::Double | Kind::Integer64)),
                    "is.double" => kind == Some(Kind::Double),
                    "is.integer" => kind == Some(Kind::Integer),
                    "is.logical" => kind == Some(Kind::Logical),
                    "is.complex" => kind == Some(Kind::Complex),
                    "is.list" => matches!(value, Value::Parts(Container::List, _) | Value::Captured(_)),
                    _ => matches!(value, Value::Null),
                };
                number(Number::logical(Some(is)))
            }
            "missing" => {
                let expr = nth(args, 0, span, name)?;
                // A promise is evaluated in a frame of its own, which is not that of a function.
                let mut frame = self.frames.len() - 1;
                while let Some(maker) = self.frames[frame].resumes {
                    frame = maker;
                }
                let parameters = &self.frames[frame].lambda.parameters;
                let parameter = match &expr.form {
                    Form::Name(name) | Form::Text(name) if parameters.iter().any(|(p, _)| p == name) => name,
                    _ => {
                        return Err(Refusal::new(
                            expr.span,
                            "'missing' can only be used for arguments",
                            "Write missing(x) of an argument of the same function.",
                        ))
                    }
                };
                match self.variables[frame].get(&missing_flag(parameter)) {
                    Some(flag) => Ok(Some(flag.clone())),
                    None => number(Number::logical(Some(false))),
                }
            }
            "stop" => {
                let mut message = String::new();
                for argument in args {
                    match (argument.name.as_deref(), argument.value.as_ref().map(|v| &v.form)) {
                        (Some("call." | "domain"), _) => {}
                        (_, Some(Form::Text(text))) => message.push_str(text),
                        _ => {
                            return Err(Refusal::new(
                                span,
                                "stop() with a computed message",
                                "Give it strings alone: stop(\"no root found\").",
                            ))
                        }
                    }
                }
                let fails = self.failure(span, message);
                self.emit(Statement::Fail(fails));
                self.reachable = false;
                Ok(Some(Value::Null))
            }
            "stopifnot" => {
                for argument in args {
                    let Some(test) = &argument.value else { continue };
                    if matches!(argument.name.as_deref(), Some("exprs" | "exprObject" | "local")) {
                        return Err(Refusal::new(
                            test.span,
                            "an argument of stopifnot() that is no test",
                            "Write the tests alone: stopifnot(x > 0, y > 0).",
                        ));
                    }
                    let v =
                        self.reduced(std::slice::from_ref(&Argument { name: None, value: Some(test.clone()) }), span)?;
                    if !self.reachable {
                        return Ok(Some(Value::Null));
                    }
                    if value::dtype(v.typed()).kind() != Kind::Logical {
                        return Err(Refusal::new(
                            test.span,
                            "stopifnot() of numbers, which are never TRUE",
                            "Compare them: stopifnot(x != 0).",
                        ));
                    }
                    let text = argument.name.clone().unwrap_or_else(|| {
                        let is = if v.fixed() == Some(1) { "is not TRUE" } else { "are not all TRUE" };
                        format!("{} {is}", self.scope.text(test.span))
                    });
                    let fails = self.failure(test.span, text);
                    let states = self.fold(&v, &[Number::logical(Some(true))], span, &mut |c, state, x, _| {
                        Ok(vec![c.apply(id::AND, &[state[0], x], span)?])
                    })?;
                    self.emit(Statement::If {
                        value: states[0].at,
                        missing: Some(fails),
                        then: vec![],
                        otherwise: vec![Statement::Fail(fails)],
                    });
                }
                Ok(Some(Value::Null))
            }
            "switch" => self.switch(args, span).map(Some),
            "complex" => {
                let matched =
                    Matched::new(name, &["length.out", "real", "imaginary", "modulus", "argument"], args, span)?;
                if matched.has("length.out") {
                    return Err(Refusal::new(
                        span,
                        "complex() with `length.out`",
                        "Give the parts of one number: complex(real = x, imaginary = y).",
                    ));
                }
                let polar = matched.has("modulus") || matched.has("argument");
                let (a, b, default) = if polar { ("modulus", "argument", 1.0) } else { ("real", "imaginary", 0.0) };
                let x = matched.optional(self, a)?.unwrap_or(Number::double(default));
                let y = matched.optional(self, b)?.unwrap_or(Number::double(0.0));
                number(self.apply(if polar { id::COMPLEX_POLAR } else { id::COMPLEX }, &[x, y], span)?)
            }
            "factorial" => {
                let n = self.number(nth(args, 0, span, name)?)?;
                let n = self.apply(id::ADD, &[n, Number::double(1.0)], span)?;
                number(self.apply(id::GAMMA, &[n], span)?)
            }
            "round" if args.len() == 1 => {
                let value = self.operands(&[nth(args, 0, span, name)?])?;
                self.row_on(id::ROUND, value, span).map(Some)
            }
            "nlevels" | "names" | "class" | "attr" | "levels" => Err(Refusal::new(
                span,
                format!("`{name}()`: numbers within a compiled function have no attributes"),
                "Look at attributes outside, and hand over numbers.",
            )),
            _ => match self.bessel(name, args, span)? {
                Some(value) => Ok(Some(value)),
                None => self.distribution(name, args, span),
            },
        }
    }

    fn converts(&mut self, args: &[Argument], to: Typed, span: Span) -> Compiled<Value> {
        let value = self.operands(&[nth(args, 0, span, "as")?])?.pop().expect("there is one");
        match self.unnamed(value, span)? {
            Value::Vector(v) => Ok(Value::vector(self.converted(&flat(&v), to))),
            Value::Text(_) => Err(Refusal::new(span, "a string is converted", "Write the number.")),
            other => {
                let n = self.as_number(other, span)?;
                // R already sees an array's float32 as a double.
                if let (Typed::Array(d), Typed::Value(Kind::Double)) = (n.typed, to) {
                    if d.is_float() {
                        return Ok(Value::Number(n));
                    }
                }
                let n = self.cast(n, value::dtype(to));
                Ok(Value::Number(self.of_one_kind(n)))
            }
        }
    }

    /// `ifelse(test, yes, no)` of numbers evaluates only the chosen alternative.
    fn ifelse(&mut self, args: &[Argument], span: Span) -> Compiled<Value> {
        let matched = Matched::new("ifelse", &["test", "yes", "no"], args, span)?;
        let (test, yes, no) = (matched.needed("test")?, matched.needed("yes")?, matched.needed("no")?);
        let test_value = self.expr(test)?;
        let names: Vec<_> = names_of(&test_value).into_iter().collect();
        if !names.is_empty() && (yes.assigns() || no.assigns()) {
            return Err(Refusal::new(span, "an assignment in ifelse() of a vector with names", "Assign before."));
        }
        let test_value = match self.unnamed(test_value, test.span)? {
            // A test of one element takes one element of the alternatives.
            Value::Vector(v) if v.fixed() == Some(1) => {
                Value::Number(self.element(&v, Number::integer(0).at, test.span)?)
            }
            other => other,
        };
        if let Value::Vector(v) = test_value {
            let changes = yes.assigns() || no.assigns();
            let v = if changes { self.frozen_vector(v) } else { v };
            let dim = v.dim();
            let mut values = vec![Value::Vector(v.clone())];
            for choice in self.operands(&[yes, no])? {
                values.push(self.unnamed(choice, span)?);
            }
            self.needs_one_choice(&v, &values[1..]);
            let value = self.row_on(id::SELECT, values, span)?;
            // The result has the dimensions and the names of the test.
            return self.with_names(shaped(value, dim), names, span);
        }
        let n = self.as_number(test_value, test.span)?;
        let n = self.cast(n, DType::Bool8);
        // NA of the test is a logical NA of the result
        self.varying.missing |= n.constant().is_none();
        let simple = |e: &Expr| !matches!(e.form, Form::Call(..) | Form::CallOf(..));
        if simple(yes) && simple(no) {
            let values = self.operands(&[yes, no])?;
            if values.iter().all(|v| matches!(v, Value::Number(_))) {
                let values = std::iter::once(Value::Number(n)).chain(values).collect();
                return self.row_on(id::SELECT, values, span);
            }
        }
        let n = self.frozen(n);
        let value = self.branch(n, None, span, &mut |c| c.number(yes).map(Value::Number), &mut |c| {
            let not = c.apply(id::NOT, &[n], span)?;
            c.branch(not, None, span, &mut |c| c.number(no).map(Value::Number), &mut |_| {
                Ok(Value::Number(Number::logical(None)))
            })
        })?;
        Ok(value)
    }

    /// `switch(k, a, b, c)` by number, and by a string that is known at compile time. Only the chosen alternative is
    /// evaluated.
    fn switch(&mut self, args: &[Argument], span: Span) -> Compiled<Value> {
        // R takes the first argument, whatever the names.
        let which = nth(args, 0, span, "switch")?;
        let rest = &args[1..];
        let which = match self.expr(which)? {
            Value::Text(key) => return self.named_alternative(&key, rest, span),
            value => self.as_number(value, which.span)?,
        };
        if let Some(k) = which.constant().and(which.whole()) {
            return match usize::try_from(k - 1).ok().and_then(|k| rest.get(k)) {
                Some(taken) => self.expr(taken.value.as_ref().ok_or_else(|| empty_alternative(span))?),
                None => Ok(Value::Null),
            };
        }
        let which = self.cast(which, DType::Int32);
        let which = self.frozen(which);
        let fails = self.failure(span, "switch() has no such alternative");
        self.alternative(which, 1, rest, fails, span)
    }

    /// The alternative with a name, or the first non-empty one behind it; else the unnamed default; else NULL.
    fn named_alternative(&mut self, key: &str, rest: &[Argument], span: Span) -> Compiled<Value> {
        let from = rest.iter().position(|a| a.name.as_deref() == Some(key));
        let mut defaults = rest.iter().filter(|a| a.name.is_none());
        let taken = match from {
            Some(k) => rest[k..].iter().find_map(|a| a.value.as_ref()),
            None => {
                let first = defaults.next().and_then(|a| a.value.as_ref());
                if defaults.next().is_some() {
                    return Err(Refusal::new(span, "duplicate 'switch' defaults", "Name all alternatives but one."));
                }
                first
            }
        };
        taken.map_or(Ok(Value::Null), |expr| self.expr(expr))
    }

    fn alternative(&mut self, which: Number, k: i32, rest: &[Argument], fails: u8, span: Span) -> Compiled<Value> {
        let Some((first, others)) = rest.split_first() else {
            self.emit(Statement::Fail(fails));
            self.reachable = false;
            return Ok(Value::Null);
        };
        let expr = first.value.as_ref().ok_or_else(|| empty_alternative(span))?;
        let test = self.apply(id::EQ, &[which, Number::integer(k)], span)?;
        self.branch(test, Some(fails), span, &mut |c| c.expr(expr), &mut |c| {
            c.alternative(which, k + 1, others, fails, span)
        })
    }
}

fn empty_alternative(span: Span) -> Refusal {
    Refusal::new(span, "empty alternative in switch() by number", "Write every alternative.")
}
