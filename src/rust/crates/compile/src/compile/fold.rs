//! Reductions of vectors to a number, and cumulative functions.

use std::rc::Rc;

use super::builtin::Matched;
use super::control::{all_given, nth};
use super::join::MOST_LOCAL;
use super::subscript::shaped;
use super::value::{self, join, Container, Number, Parts, Value, Vector};
use super::wide::{Store, Term};
use super::{Compiled, Compiler, Operand, Refusal, Span, Statement};
use crate::syntax::Argument;
use verdigris_ops::dtype::{Class, Kind};
use verdigris_ops::rule::Typed;
use verdigris_ops::scalar::Scalar;
use verdigris_ops::{id, OpId};

/// The failure of an extreme of no elements, where R warns, or gives no element.
const OF_NONE: &str = "the extreme of an empty vector";

impl Compiler<'_> {
    /// None if `name` is none of these functions.
    pub(super) fn folded(&mut self, name: &str, args: &[Argument], span: Span) -> Compiled<Option<Value>> {
        let number = |n: Number| Ok(Some(Value::Number(n)));
        match name {
            "sum" => {
                let v = self.reduced(args, span)?;
                number(self.sum(&v, span)?)
            }
            "mean" => {
                let v = self.reduced_one(name, &["x", "trim", "na.rm"], args, span)?;
                number(self.mean(&v, span)?)
            }
            "var" | "sd" => {
                let names: &[&str] = if name == "sd" { &["x", "na.rm"] } else { &["x", "y", "na.rm", "use"] };
                let v = self.reduced_one(name, names, args, span)?;
                if value::dtype(v.typed()).kind() == Kind::Complex {
                    let message = format!("{name}() of complex numbers, whose imaginary parts R drops");
                    return Err(Refusal::new(span, message, format!("Write {name}(Re(x)).")));
                }
                let m = self.mean(&v, span)?;
                let centred = self.map(id::SUB, vec![Value::Vector(v.clone()), Value::Number(m)], span)?;
                let Value::Vector(centred) = centred else { unreachable!("it was mapped") };
                let n = self.length_of(&v);
                let less = self.apply(id::SUB, &[n, Number::integer(1)], span)?;
                // A single element has no variance: the divisor is replaced by 1, and the result by NA below.
                let is_short = self.apply(id::LT, &[less, Number::integer(1)], span)?;
                let less = self.apply(id::SELECT, &[is_short, Number::integer(1), less], span)?;
                let var =
                    self.sum_of(&centred, Term::Square, span, &mut |c, sum| c.apply(id::DIV, &[sum, less], span))?;
                let na = self.missing(var.typed);
                // R gives NA if an element is NA, but NaN if an element is infinite. Both are missing here, so a
                // missing result scans the vector.
                let missing = self.apply(id::IS_NA, &[var], span)?;
                let var = self.branch(
                    missing,
                    None,
                    span,
                    &mut |c| {
                        let none = Number::logical(Some(false));
                        let any = c.fold(&v, &[none], span, &mut |c, state, x, _| {
                            let missing = c.apply(id::IS_NA, &[x], span)?;
                            Ok(vec![c.apply(id::OR, &[state[0], missing], span)?])
                        })?[0];
                        Ok(Value::Number(c.apply(id::SELECT, &[any, na, var], span)?))
                    },
                    &mut |_| Ok(Value::Number(var)),
                )?;
                let var = self.as_number(var, span)?;
                let var = self.apply(id::SELECT, &[is_short, na, var], span)?;
                number(if name == "sd" { self.apply(id::SQRT, &[var], span)? } else { var })
            }
            "prod" => {
                let v = self.reduced(args, span)?;
                let product = match v.typed() {
                    t if value::dtype(t).kind() == Kind::Complex => {
                        let one = self.as_typed(Number::double(1.0), t);
                        self.fold(&v, &[one], span, &mut |c, state, x, _| {
                            Ok(vec![c.apply(id::MUL, &[state[0], x], span)?])
                        })?[0]
                    }
                    _ => self.product_of(&v, span)?,
                };
                number(self.in_dtype_of(product, v.typed()))
            }
            "min" | "max" => {
                let (values, present) = self.reduced_values(args, span)?;
                let numbers: Option<Vec<Number>> =
                    values.iter().map(|v| if let Value::Number(n) = v { Some(*n) } else { None }).collect();
                let smallest = name == "min";
                number(match numbers.filter(|numbers| !numbers.is_empty() && !present) {
                    Some(numbers) => self.extreme_number(&numbers, smallest, span)?,
                    None => {
                        let v = self.one_vector(values, present, span)?;
                        self.extreme(&v, smallest, span)?
                    }
                })
            }
            "range" => {
                let v = self.reduced(args, span)?;
                let parts = vec![
                    (None, Value::Number(self.extreme(&v, true, span)?)),
                    (None, Value::Number(self.extreme(&v, false, span)?)),
                ];
                self.combined(parts, span).map(Some)
            }
            "any" | "all" => {
                let v = self.reduced(args, span)?;
                // R warns of doubles.
                self.varying.within |= !matches!(value::dtype(v.typed()).kind(), Kind::Logical | Kind::Integer);
                let (start, op) = if name == "any" { (false, id::OR) } else { (true, id::AND) };
                let states = self.fold(&v, &[Number::logical(Some(start))], span, &mut |c, state, x, _| {
                    Ok(vec![c.apply(op, &[state[0], x], span)?])
                })?;
                number(states[0])
            }
            "which" => {
                let v = self.reduced_one(name, &["x", "arr.ind", "useNames"], args, span)?;
                self.positions_of(v, span).map(Some)
            }
            "which.max" | "which.min" => {
                let v = self.reduced_one(name, &["x"], args, span)?;
                let op = if name == "which.max" { id::GT } else { id::LT };
                let worst = if name == "which.max" { f64::NEG_INFINITY } else { f64::INFINITY };
                let states = self.fold(
                    &v,
                    &[Number::double(worst), Number::integer(verdigris_ops::scalar::NA_I32)],
                    span,
                    &mut |c, state, x, index| {
                        let x = c.double(x, span)?;
                        let better = c.apply(op, &[x, state[0]], span)?;
                        // The first element that is not NA wins, even if it is infinite and so not better than the
                        // start.
                        let none = c.apply(id::IS_NA, &[state[1]], span)?;
                        let there = c.apply(id::IS_NA, &[x], span)?;
                        let there = c.apply(id::NOT, &[there], span)?;
                        let first = c.apply(id::AND, &[none, there], span)?;
                        let better = c.apply(id::AND, &[better, there], span)?;
                        let better = c.apply(id::OR, &[better, first], span)?;
                        let at = c.apply(
                            id::ADD,
                            &[Number { at: index, typed: Typed::Value(Kind::Integer) }, Number::integer(1)],
                            span,
                        )?;
                        Ok(vec![
                            c.apply(id::SELECT, &[better, x, state[0]], span)?,
                            c.apply(id::SELECT, &[better, at, state[1]], span)?,
                        ])
                    },
                )?;
                if self.request.exact {
                    let none = self.apply(id::IS_NA, &[states[1]], span)?;
                    self.fail_if(none.at, OF_NONE, span);
                }
                number(states[1])
            }
            "cumsum" | "cumprod" | "cummax" | "cummin" => {
                let v = self.reduced_one(name, &["x"], args, span)?;
                self.cumulated(name, &v, span).map(Some)
            }
            "%in%" | "match" => {
                let values = self.operands(&[nth(args, 0, span, name)?, nth(args, 1, span, name)?])?;
                if args.len() > 2 {
                    return Err(Refusal::new(span, "match() with further arguments", "Write match(x, table)."));
                }
                self.matched(name == "match", values, span).map(Some)
            }
            "pmin" | "pmax" => {
                if args.iter().any(|a| a.name.as_deref() == Some("na.rm")) {
                    return Err(Refusal::new(
                        span,
                        "na.rm within a compiled function",
                        "Test for NA: if (is.na(x)) ....",
                    ));
                }
                let op = if name == "pmin" { id::PMIN } else { id::PMAX };
                let mut values = self.operands(&all_given(args, span)?)?.into_iter();
                let Some(mut out) = values.next() else {
                    return Err(Refusal::new(span, "no arguments", "Give numbers."));
                };
                // The result has the dimensions and the names of the first argument.
                let first = if let Value::Vector(v) = &out { Some((v.dim(), v.fixed())) } else { None };
                let named = matches!(out, Value::Parts(Container::Named, _));
                for value in values {
                    out = self.row_on(op, vec![out, value], span)?;
                }
                let out = if named { out } else { self.unnamed(out, span)? };
                let length = if let Value::Vector(v) = &out { v.fixed() } else { None };
                let dim = first.filter(|(_, n)| *n == length).and_then(|(dim, _)| dim);
                Ok(Some(shaped(out, dim)))
            }
            _ => Ok(None),
        }
    }

    /// The arguments of a reduction as one vector, without NA if `na.rm = TRUE`.
    pub(super) fn reduced(&mut self, args: &[Argument], span: Span) -> Compiled<Rc<Vector>> {
        let (values, present) = self.reduced_values(args, span)?;
        self.one_vector(values, present, span)
    }

    /// The argument `x` of a reduction of one vector. Of the other parameters in `names` only `na.rm` may be given.
    pub(super) fn reduced_one(
        &mut self,
        name: &str,
        names: &[&str],
        args: &[Argument],
        span: Span,
    ) -> Compiled<Rc<Vector>> {
        let matched = Matched::new(name, names, args, span)?;
        if let Some(other) = names.iter().find(|n| !matches!(**n, "x" | "na.rm") && matched.has(n)) {
            return Err(Refusal::new(
                span,
                format!("`{other}` of `{name}` within a compiled function"),
                format!("Write {name}(x)."),
            ));
        }
        let present = matched.flag(self, "na.rm", false)?;
        let values = self.operands(&[matched.needed("x")?])?;
        self.one_vector(values, present, span)
    }

    /// The values of the arguments, and whether `na.rm` is TRUE.
    fn reduced_values(&mut self, args: &[Argument], span: Span) -> Compiled<(Vec<Value>, bool)> {
        let named = |a: &Argument, names: &[&str]| a.name.as_deref().is_some_and(|n| names.contains(&n));
        if args.iter().any(|a| named(a, &["finite"])) {
            return Err(Refusal::new(span, "`finite` within a compiled function", "Write x[is.finite(x)]."));
        }
        let flags: Vec<Argument> = args.iter().filter(|a| named(a, &["na.rm"])).cloned().collect();
        let present = Matched::new("na.rm", &["na.rm"], &flags, span)?.flag(self, "na.rm", false)?;
        let rest: Vec<Argument> = args.iter().filter(|a| !named(a, &["na.rm"])).cloned().collect();
        Ok((self.operands(&all_given(&rest, span)?)?, present))
    }

    /// Combines values into one vector, without NA if `present`.
    fn one_vector(&mut self, mut values: Vec<Value>, present: bool, span: Span) -> Compiled<Rc<Vector>> {
        let v = if values.len() == 1 {
            match values.pop().expect("there is one") {
                Value::Vector(v) => v,
                Value::Number(n) => self.single(n),
                Value::Parts(Container::Named, parts) => self.vector_of(parts, span)?,
                Value::Null => self.vector_of(Vec::new(), span)?,
                other => return Err(Refusal::new(span, format!("{} is reduced", other.what()), "Give numbers.")),
            }
        } else {
            self.vector_of(values.into_iter().map(|v| (None, v)).collect(), span)?
        };
        self.needs_known_type(&v);
        match present {
            true => self.present(v, span),
            false => Ok(v),
        }
    }

    /// The elements that are not NA.
    fn present(&mut self, v: Rc<Vector>, span: Span) -> Compiled<Rc<Vector>> {
        let (of, kept) = match &*v {
            Vector::Where { of, keep, .. } => (of.clone(), Some(keep.clone())),
            _ => (v, None),
        };
        let missing = self.map(id::IS_NA, vec![Value::Vector(of.clone())], span)?;
        let mut keep = self.map(id::NOT, vec![missing], span)?;
        if let Some(kept) = kept {
            keep = self.map(id::AND, vec![keep, Value::Vector(kept)], span)?;
        }
        let Value::Vector(keep) = keep else { unreachable!("of vectors it is one") };
        self.kept_true(of, keep, span)
    }

    /// `which(test)`: the positions of the elements that are TRUE.
    fn positions_of(&mut self, test: Rc<Vector>, span: Span) -> Compiled<Value> {
        if value::dtype(test.typed()).kind() != Kind::Logical {
            return Err(Refusal::new(span, "argument to 'which' is not logical", "Write which(x != 0)."));
        }
        let numbers = Vector::Range { from: Number::integer(1), step: Number::integer(1), length: test.length() };
        let missing = self.map(id::IS_NA, vec![Value::Vector(test.clone())], span)?;
        let there = self.map(id::NOT, vec![missing], span)?;
        let keep = self.map(id::AND, vec![Value::Vector(test), there], span)?;
        let Value::Vector(keep) = keep else { unreachable!("of vectors it is one") };
        self.kept_true(Rc::new(numbers), keep, span).map(Value::Vector)
    }

    fn vector_of(&mut self, parts: Parts, span: Span) -> Compiled<Rc<Vector>> {
        match self.combined(parts, span)? {
            Value::Vector(v) => Ok(v),
            _ => unreachable!("c() gives a vector"),
        }
    }

    /// The smallest or largest of single numbers.
    fn extreme_number(&mut self, numbers: &[Number], smallest: bool, span: Span) -> Compiled<Number> {
        let values: Vec<Value> = numbers.iter().map(|&n| Value::Number(n)).collect();
        self.needs_one_type(values.iter());
        let typed = compared_type(numbers.iter().map(|n| n.typed).reduce(join).expect("there is one"), span)?;
        let op = if smallest { id::PMIN } else { id::PMAX };
        let mut out = self.as_typed(numbers[0], typed);
        for &n in &numbers[1..] {
            let n = self.as_typed(n, typed);
            out = self.apply(op, &[out, n], span)?;
        }
        let out = self.as_typed(out, typed);
        // pmax() gives the last of NAs and NaNs.
        let is_nan = |s: Scalar| !matches!(s.to(Class::F64), Scalar::F64(x) if !x.is_nan());
        let missing = || numbers.iter().filter(|n| n.constant().is_none_or(is_nan));
        if missing().count() < 2 || missing().all(|n| n.kind() != Kind::Double) {
            return Ok(out);
        }
        let numbers: Vec<Number> = numbers.iter().map(|&n| self.frozen(n)).collect();
        self.na_before_nan(out, span, &mut |c| {
            let mut any = Number::logical(Some(false));
            for &n in &numbers {
                let n = c.as_typed(n, typed);
                let is = c.is_plain_na(n, span)?;
                any = c.apply(id::OR, &[any, is], span)?;
            }
            Ok(any)
        })
    }

    /// The smallest or largest element: NA if an element is NA, as for pmin().
    fn extreme(&mut self, v: &Vector, smallest: bool, span: Span) -> Compiled<Number> {
        let op = if smallest { id::PMIN } else { id::PMAX };
        let typed = compared_type(v.typed(), span)?;
        let infinite = Number::double(if smallest { f64::INFINITY } else { f64::NEG_INFINITY });
        if v.fixed() == Some(0) {
            if self.request.exact {
                let fails = self.failure(span, OF_NONE);
                self.emit(Statement::Fail(fails));
            }
            return Ok(infinite);
        }
        let is_double = value::dtype(typed).kind() == Kind::Double;
        let there = v.fixed().is_some() || self.is_size(v.length());
        let exact = self.request.exact && v.fixed().is_none();
        if exact && !is_double && !there {
            return self.extreme_integer(v, typed, op, span);
        }
        let (v, start) = match (is_double, there) {
            (true, _) => (v.clone(), self.as_typed(infinite, typed)),
            // Of integers that may be empty R gives an infinity, so they are compared as doubles.
            (false, false) => (self.converted(v, Typed::Value(Kind::Double)), infinite),
            (false, true) => {
                if v.fixed().is_none() {
                    let none = self.long_op(id::LT, v.length(), Number::long(1).at, span)?;
                    let message = "the extreme of an empty integer vector, which is not an integer in R";
                    self.fail_if(none, message, span);
                }
                let first = self.element(v, Number::integer(0).at, span)?;
                (v.clone(), self.as_typed(first, typed))
            }
        };
        let v = &v;
        let states =
            self.fold(v, &[start], span, &mut |c, state, x, _| Ok(vec![c.apply(op, &[state[0], x], span)?]))?;
        if states[0].kind() != Kind::Double {
            return Ok(states[0]);
        }
        if exact {
            // elements that are all infinite fail too
            let none = self.apply(id::EQ, &[states[0], infinite], span)?;
            self.fail_if(none.at, OF_NONE, span);
        }
        self.na_before_nan(states[0], span, &mut |c| {
            let none = Number::logical(Some(false));
            let any = c.fold(v, &[none], span, &mut |c, state, x, _| {
                let is = c.is_plain_na(x, span)?;
                Ok(vec![c.apply(id::OR, &[state[0], is], span)?])
            })?;
            Ok(any[0])
        })
    }

    /// The extreme of integers or logicals of which there may be none, where the function then fails.
    fn extreme_integer(&mut self, v: &Vector, typed: Typed, op: OpId, span: Span) -> Compiled<Number> {
        let start = [self.as_typed(Number::integer(0), typed), Number::logical(Some(true))];
        let states = self.fold(v, &start, span, &mut |c, state, x, _| {
            let better = c.apply(op, &[state[0], x], span)?;
            Ok(vec![c.apply(id::SELECT, &[state[1], x, better], span)?, Number::logical(Some(false))])
        })?;
        self.fail_if(states[1].at, OF_NONE, span);
        Ok(states[0])
    }

    /// Whether a number is NA, and not NaN.
    fn is_plain_na(&mut self, n: Number, span: Span) -> Compiled<Number> {
        let missing = self.apply(id::IS_NA, &[n], span)?;
        if n.kind() != Kind::Double {
            return Ok(missing);
        }
        let nan = self.apply(id::IS_NAN, &[n], span)?;
        let number = self.apply(id::NOT, &[nan], span)?;
        self.apply(id::AND, &[missing, number], span)
    }

    /// An extreme of doubles: NA in place of NaN if one of them is NA, as `any_na` finds out.
    fn na_before_nan(
        &mut self,
        extreme: Number,
        span: Span,
        any_na: &mut dyn FnMut(&mut Self) -> Compiled<Number>,
    ) -> Compiled<Number> {
        let na = self.missing(extreme.typed);
        let missing = self.apply(id::IS_NA, &[extreme], span)?;
        let value = self.branch(
            missing,
            None,
            span,
            &mut |c| {
                let any = any_na(c)?;
                Ok(Value::Number(c.apply(id::SELECT, &[any, na, extreme], span)?))
            },
            &mut |_| Ok(Value::Number(extreme)),
        )?;
        self.as_number(value, span)
    }

    /// `cumsum()` and its like, of a vector of fixed length.
    fn cumulated(&mut self, name: &str, v: &Vector, span: Span) -> Compiled<Value> {
        let n = v.fixed().filter(|n| *n <= MOST_LOCAL).ok_or_else(|| self.unfixed(v, span))?;
        let typed = match value::dtype(v.typed()).kind() {
            Kind::Complex => return Err(Refusal::new(span, format!("{name}() of complex numbers"), "Use a loop.")),
            Kind::Logical | Kind::Integer if name == "cumprod" => Typed::Value(Kind::Double),
            Kind::Logical => Typed::Value(Kind::Integer),
            _ => v.typed(),
        };
        let array = self.new_array(typed, n as u16);
        let store = |c: &mut Self, index: Operand, x: Number| {
            let at = c.long(Number { at: index, typed: Typed::Value(Kind::Integer) });
            c.emit(Statement::Set { array, at, value: x.at });
            Ok(())
        };
        let is_double = value::dtype(typed).kind() == Kind::Double;
        if matches!(name, "cumsum" | "cumprod") && is_double {
            let store: Store<'_, '_> = &mut |c, index, value| {
                let value = c.in_dtype_of(value, typed);
                store(c, index, value)
            };
            if name == "cumsum" { self.cumulate_sums(v, span, store) } else { self.cumulate_products(v, span, store) }?;
        } else {
            let (op, start) = match name {
                "cumsum" => (id::ADD, Number::integer(0)),
                _ => {
                    let op = if name == "cummax" { id::PMAX } else { id::PMIN };
                    let start =
                        if n == 0 { Number::logical(None) } else { self.element(v, Number::integer(0).at, span)? };
                    (op, start)
                }
            };
            let start = self.as_typed(start, typed);
            self.fold(v, &[start], span, &mut |c, state, x, index| {
                let x = c.as_typed(x, typed);
                // Of several NaNs pmax() gives the last operand, and cummax() the first element.
                let operands = if name == "cumsum" { [state[0], x] } else { [x, state[0]] };
                let next = c.apply(op, &operands, span)?;
                let next = c.as_typed(next, typed);
                store(c, index, next)?;
                Ok(vec![next])
            })?;
        }
        Ok(Value::vector(Vector::Local { array, typed, length: n as u16, dim: None }))
    }

    /// `match(x, table)` and `x %in% table`: NA is equal to NA, and NaN to NaN.
    fn matched(&mut self, wants_position: bool, values: Vec<Value>, span: Span) -> Compiled<Value> {
        let mut vectors = Vec::new();
        let is_number = matches!(values[0], Value::Number(_));
        for value in values {
            vectors.push(match value {
                Value::Vector(v) => v,
                Value::Number(n) => self.single(n),
                Value::Parts(Container::Named, parts) => self.vector_of(parts, span)?,
                other => return Err(Refusal::new(span, format!("{} is looked up", other.what()), "Give numbers.")),
            });
        }
        let (x, table) = (vectors[0].clone(), vectors[1].clone());
        let typed = join(x.typed(), table.typed());
        let start = if wants_position { Number::logical(None) } else { Number::logical(Some(false)) };
        let kind = if wants_position { Kind::Integer } else { Kind::Logical };
        let start = self.as_typed(start, Typed::Value(kind));
        let look_up = |c: &mut Self, x: Number| -> Compiled<Number> {
            let x = c.as_typed(x, typed);
            let x = c.frozen(x);
            let states = c.fold(&table, &[start], span, &mut |c, state, y, index| {
                let y = c.as_typed(y, typed);
                let same = c.same(x, y, span)?;
                if !wants_position {
                    return Ok(vec![c.apply(id::OR, &[state[0], same], span)?]);
                }
                let none = c.apply(id::IS_NA, &[state[0]], span)?;
                let first = c.apply(id::AND, &[none, same], span)?;
                let index = Number { at: index, typed: Typed::Value(Kind::Integer) };
                let at = c.apply(id::ADD, &[index, Number::integer(1)], span)?;
                Ok(vec![c.apply(id::SELECT, &[first, at, state[0]], span)?])
            })?;
            Ok(states[0])
        };
        if is_number {
            let x = self.element(&x, Number::integer(0).at, span)?;
            return look_up(self, x).map(Value::Number);
        }
        let n = x.fixed().filter(|n| *n <= MOST_LOCAL).ok_or_else(|| self.unfixed(&x, span))?;
        let array = self.new_array(Typed::Value(kind), n as u16);
        self.each(x.length(), &mut |c, index| {
            let element = c.element(&x, index, span)?;
            let found = look_up(c, element)?;
            let at = c.long(Number { at: index, typed: Typed::Value(Kind::Integer) });
            c.emit(Statement::Set { array, at, value: found.at });
            Ok(())
        })?;
        Ok(Value::vector(Vector::Local { array, typed: Typed::Value(kind), length: n as u16, dim: None }))
    }

    /// Whether match() considers two numbers of one type the same: TRUE or FALSE, never NA.
    fn same(&mut self, x: Number, y: Number, span: Span) -> Compiled<Number> {
        let equal = self.apply(id::EQ, &[x, y], span)?;
        let (no_x, no_y) = (self.apply(id::IS_NA, &[x], span)?, self.apply(id::IS_NA, &[y], span)?);
        let either = self.apply(id::OR, &[no_x, no_y], span)?;
        let neither = self.apply(id::NOT, &[either], span)?;
        let equal = self.apply(id::AND, &[equal, neither], span)?;
        let mut both = self.apply(id::AND, &[no_x, no_y], span)?;
        if x.kind() == Kind::Double {
            let (nan_x, nan_y) = (self.apply(id::IS_NAN, &[x], span)?, self.apply(id::IS_NAN, &[y], span)?);
            let alike = self.apply(id::EQ, &[nan_x, nan_y], span)?;
            both = self.apply(id::AND, &[both, alike], span)?;
        }
        self.apply(id::OR, &[equal, both], span)
    }

    fn mean(&mut self, v: &Vector, span: Span) -> Compiled<Number> {
        let as_double = match value::dtype(v.typed()).kind() {
            Kind::Logical | Kind::Integer | Kind::Integer64 => self.converted(v, Typed::Value(Kind::Double)),
            _ => v.clone(),
        };
        let n = self.length_of(v);
        self.sum_of(&as_double, Term::Itself, span, &mut |c, sum| c.apply(id::DIV, &[sum, n], span))
    }
}

/// The result type of min() and max() for elements of a type.
fn compared_type(typed: Typed, span: Span) -> Compiled<Typed> {
    match value::dtype(typed).kind() {
        Kind::Logical => Ok(Typed::Value(Kind::Integer)),
        Kind::Complex => Err(Refusal::new(span, "invalid 'type' (complex) of argument", "Compare Mod() or Re().")),
        _ => Ok(typed),
    }
}
