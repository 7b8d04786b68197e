//! Calls: R's keywords, functions of base R and stats that the language has, and people's own.

use std::rc::Rc;

use super::super::syntax::{Argument, Expr, Form, Meaning};
use super::control::nth;
use super::value::{self, join, Number, Value, Vector};
use super::vector::too_long;
use super::{Compiled, Compiler, Place, Refusal, Statement};
use crate::dtype::{DType, Kind};
use crate::ops::rule::Typed;
use crate::ops::{id, Group, OpId};

/// Arguments of a builtin by name and place.
pub(super) struct Matched<'a> {
    function: String,
    place: Place,
    values: Vec<(&'a str, Option<&'a Expr>)>,
}

impl<'a> Matched<'a> {
    /// # Errors
    /// Where an argument has a name that the function does not know, or there are too many.
    pub(super) fn new(function: &str, names: &[&'a str], args: &'a [Argument], place: Place) -> Compiled<Matched<'a>> {
        let mut values: Vec<(&str, Option<&Expr>)> = names.iter().map(|n| (*n, None)).collect();
        for argument in args.iter().filter(|a| a.name.is_some()) {
            let name = argument.name.as_deref().expect("it has a name");
            let fits: Vec<usize> = (0..names.len()).filter(|&k| names[k].starts_with(name)).collect();
            let exact = names.iter().position(|n| *n == name);
            match (exact, &fits[..]) {
                (Some(k), _) | (None, &[k]) => values[k].1 = argument.value.as_ref(),
                _ => {
                    return Err(Refusal::new(
                        place,
                        format!("unused argument ({name} = ) of `{function}`"),
                        format!("Within a compiled function it takes: {}.", names.join(", ")),
                    ))
                }
            }
        }
        for argument in args.iter().filter(|a| a.name.is_none()) {
            match values.iter_mut().find(|(_, v)| v.is_none()) {
                Some(free) => free.1 = argument.value.as_ref(),
                None => {
                    return Err(Refusal::new(
                        place,
                        format!("too many arguments for `{function}`"),
                        format!("Within a compiled function it takes: {}.", names.join(", ")),
                    ))
                }
            }
        }
        Ok(Matched { function: function.into(), place, values })
    }

    pub(super) fn expr(&self, name: &str) -> Option<&'a Expr> {
        self.values.iter().find(|(n, _)| *n == name).and_then(|(_, v)| *v)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.expr(name).is_some()
    }

    pub(super) fn optional(&self, c: &mut Compiler, name: &str) -> Compiled<Option<Number>> {
        self.expr(name).map(|e| c.number(e)).transpose()
    }

    pub(super) fn required(&self, c: &mut Compiler, name: &str) -> Compiled<Number> {
        let expr = self.needed(name)?;
        c.number(expr)
    }

    pub(super) fn needed(&self, name: &str) -> Compiled<&'a Expr> {
        self.expr(name).ok_or_else(|| {
            Refusal::new(
                self.place,
                format!("argument \"{name}\" of `{}` is missing, with no default", self.function),
                "Write the call with all its arguments.",
            )
        })
    }

    /// A logical that stands in the code.
    pub(super) fn flag(&self, name: &str, default: bool) -> Compiled<bool> {
        match self.expr(name) {
            None => Ok(default),
            Some(Expr { form: Form::Logical(Some(x)), .. }) => Ok(*x),
            Some(Expr { form: Form::Name(n), .. }) if n == "T" || n == "F" => Ok(n == "T"),
            Some(other) => Err(Refusal::new(
                other.place,
                format!("`{name}` of `{}` is computed", self.function),
                "Write TRUE or FALSE.",
            )),
        }
    }
}

/// Functions that compilation knows but that are nothing for a thread: why, and what to write instead.
fn unfit(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "print" | "cat" | "message" | "format" | "sprintf" | "paste" | "paste0" | "warning" | "writeLines" => (
            "text and output are nothing for a thread",
            "Leave it out; give numbers as results, and look at them afterwards. stop() with a string is understood.",
        ),
        "sapply" | "lapply" | "vapply" | "Map" | "mapply" | "Reduce" | "Filter" | "do.call" | "apply" | "outer"
        | "Vectorize" => {
            ("it calls a function for many elements", "Write a for loop; or call gpu_map() with the inner function.")
        }
        "list2env" | "assign" | "get" | "eval" | "parse" | "quote" | "substitute" | "environment" | "sys.call"
        | "match.arg" | "match.call" | "on.exit" => {
            ("it works on R code and environments", "Use variables and arguments.")
        }
        "tryCatch" | "try" | "withCallingHandlers" | "suppressWarnings" => {
            ("conditions are raised when the result is read", "Test for what may go wrong: if (is.na(x)) ....")
        }
        "%*%" | "crossprod" | "solve" | "t" | "%o%" => (
            "matrices of a thread are short vectors",
            "Write the loops out; products of large arrays are %*% outside of the function.",
        ),
        "sort" | "order" | "unique" | "table" | "which" | "%in%" | "match" | "strsplit" | "nchar" | "substr"
        | "regmatches" | "grepl" => (
            "how long its result is depends on the values",
            "Write a loop over a vector of fixed length; or call it outside of the function.",
        ),
        "readline" | "readRDS" | "file" | "Sys.time" | "Sys.getenv" | "set.seed" | "library" | "require" => {
            ("it reaches outside of the function", "Do it before, and hand over what it gives as an argument.")
        }
        _ => return None,
    })
}

impl Compiler<'_> {
    /// The value of a call.
    pub(super) fn call(&mut self, expr: &Expr, name: &str, args: &[Argument]) -> Compiled<Value> {
        let place = expr.place;
        match name {
            "{" => return self.braces(args),
            "(" => return self.expr(nth(args, 0, place, "(")?),
            "if" => return self.if_else(args, place, |c, way| c.expr(way)),
            "for" => return self.for_loop(args, place),
            "while" => return self.while_loop(args, place),
            "repeat" => return self.repeat(args, place),
            "break" => return self.break_loop(place, false),
            "next" => return self.break_loop(place, true),
            "return" => return self.return_early(args, place),
            "&&" => return self.short_circuit(args, place, true),
            "||" => return self.short_circuit(args, place, false),
            "<-" | "=" => return self.assignment(args, place),
            "<<-" => {
                return Err(Refusal::new(
                    place,
                    "`<<-` changes a variable outside of the function",
                    "Give the value as the function's result: each thread has variables of its own.",
                ))
            }
            "[" | "[[" | "$" => return self.subset(name, args, place),
            _ => {}
        }
        // a variable of the function that holds a function
        let mut frame = Some(self.frames.len() - 1);
        let mut scope = self.frames[self.frames.len() - 1].scope;
        while let Some(k) = frame {
            if let Some(Value::Closure(lambda, parent)) = self.variables[k].get(name).cloned() {
                return self.inline(&lambda, parent, args, place);
            }
            scope = self.frames[k].scope;
            frame = self.frames[k].parent;
        }
        match self.scope.meaning(scope, &[name.to_string()], true) {
            Some(Meaning::Builtin(builtin)) => self.builtin(&builtin, args, place),
            Some(Meaning::Closure(lambda)) => self.inline(&lambda, None, args, place),
            Some(Meaning::Other(what)) => Err(Refusal::new(
                place,
                format!("`{name}` is {what}"),
                "Call functions of yours that are written in R, or those that ?gpu_compile lists.",
            )),
            _ => Err(Refusal::new(
                place,
                format!("could not find function \"{name}\""),
                "Define it before, or correct its name.",
            )),
        }
    }

    fn assignment(&mut self, args: &[Argument], place: Place) -> Compiled<Value> {
        let target = nth(args, 0, place, "<-")?;
        let value = nth(args, 1, place, "<-")?;
        match &target.form {
            Form::Name(name) | Form::Text(name) => {
                let new = self.expr(value)?;
                if !self.reachable {
                    return Ok(Value::Null);
                }
                match new {
                    Value::Unset(why, at) => {
                        return Err(Refusal::new(
                            value.place,
                            format!("`{name}` may get no value: {why}"),
                            "Give the `if` an `else`.",
                        )
                        .and("no value comes from here", at))
                    }
                    Value::Text(_) => {
                        return Err(Refusal::new(
                            value.place,
                            "a string is assigned",
                            "Use numbers in its place: 1, 2, 3.",
                        ))
                    }
                    new => self.assign(name, new, place)?,
                }
                let frame = self.frames.len() - 1;
                Ok(self.variables[frame][name].clone())
            }
            Form::Call(form, _) if matches!(form.as_str(), "[" | "[[" | "$") => self.assign_part(target, value, place),
            _ => Err(Refusal::new(
                target.place,
                "an assignment to a call",
                "Assign to names and to elements: x <- ..., x[i] <- ....",
            )),
        }
    }

    /// A function of base R or stats.
    fn builtin(&mut self, name: &str, args: &[Argument], place: Place) -> Compiled<Value> {
        if let Some(n) = self.random(name, args, place)? {
            return Ok(Value::Number(n));
        }
        if let Some(value) = self.special(name, args, place)? {
            return Ok(value);
        }
        if let Some((why, instead)) = unfit(name) {
            return Err(Refusal::new(place, format!("`{name}()` cannot be compiled: {why}"), instead));
        }
        self.row(name, args, place)
    }

    /// The rows of the operation table, by R's name and the number of operands.
    fn row(&mut self, name: &str, args: &[Argument], place: Place) -> Compiled<Value> {
        let fits = |op: &OpId, arity: usize| {
            let row = op.row();
            row.r == name && row.arity as usize == arity && row.group != Group::Internal
        };
        let names: &[&str] = match name {
            "log" => &["x", "base"],
            "round" | "signif" => &["x", "digits"],
            "atan2" => &["y", "x"],
            "beta" | "lbeta" => &["a", "b"],
            "choose" | "lchoose" => &["n", "k"],
            "bitwAnd" | "bitwOr" | "bitwXor" => &["a", "b"],
            _ => &[],
        };
        let ordered: Vec<&Expr> = match names.is_empty() || args.iter().all(|a| a.name.is_none()) {
            true => args.iter().filter_map(|a| a.value.as_ref()).collect(),
            false => {
                let matched = Matched::new(name, names, args, place)?;
                names.iter().filter_map(|n| matched.expr(n)).collect()
            }
        };
        let arity = ordered.len();
        let Some(op) = OpId::all().find(|op| fits(op, arity)) else {
            let known = OpId::all().any(|op| op.row().r == name && op.row().group != Group::Internal);
            let (message, remedy) = match known {
                true => (format!("`{name}` with {arity} arguments"), "Give as many arguments as R's function has."),
                false => (
                    format!("`{name}()` cannot be compiled"),
                    "?gpu_compile lists the functions that can; functions of your own, written in R from these, are compiled with it.",
                ),
            };
            return Err(Refusal::new(place, message, remedy));
        };
        let values = self.operands(&ordered)?;
        if !self.reachable {
            return Ok(Value::Null);
        }
        self.row_on(op, values, place)
    }

    /// The values of operands. Where a later one assigns a variable, an earlier one is copied before.
    pub(super) fn operands(&mut self, exprs: &[&Expr]) -> Compiled<Vec<Value>> {
        let mut values = Vec::with_capacity(exprs.len());
        for (k, expr) in exprs.iter().enumerate() {
            let value = self.expr(expr)?;
            if matches!(value, Value::Unset(..)) {
                let Value::Unset(why, at) = value else { unreachable!("it was looked at") };
                return Err(Refusal::new(at, why, "Give the `if` an `else`."));
            }
            let changes = exprs[k + 1..].iter().any(|e| e.assigns());
            values.push(if changes { self.frozen_value(value) } else { value });
        }
        Ok(values)
    }

    /// A row on numbers, or on vectors element by element.
    pub(super) fn row_on(&mut self, op: OpId, values: Vec<Value>, place: Place) -> Compiled<Value> {
        let values: Vec<Value> = values
            .into_iter()
            .map(|v| match v {
                Value::List(parts) => self.combined(parts, place),
                other => Ok(other),
            })
            .collect::<Compiled<_>>()?;
        if values.iter().any(|v| matches!(v, Value::Vector(_))) {
            return self.map(op, values, place);
        }
        let mut numbers = Vec::with_capacity(values.len());
        for value in values {
            numbers.push(match value {
                Value::Text(_) => {
                    return Err(Refusal::new(place, "a string is an operand", "Use numbers in its place: 1, 2, 3."))
                }
                other => self.as_number(other, place)?,
            });
        }
        Ok(Value::Number(self.apply(op, &numbers, place)?))
    }

    /// A count that stands in the code.
    fn fixed_count(&mut self, expr: &Expr) -> Compiled<i64> {
        let n = self.number(expr)?;
        match n.whole() {
            Some(n) if (0..=super::join::MOST_LOCAL as i64).contains(&n) => Ok(n),
            _ => Err(too_long(expr.place)),
        }
    }

    /// What is reduced: one vector, of all arguments.
    fn reduced(&mut self, args: &[Argument], place: Place) -> Compiled<Rc<Vector>> {
        if let Some(flag) = args.iter().find(|a| a.name.as_deref() == Some("na.rm")) {
            if !matches!(flag.value.as_ref().map(|v| &v.form), Some(Form::Logical(Some(false)))) {
                return Err(Refusal::new(
                    place,
                    "na.rm within a compiled function",
                    "Write a loop with if (!is.na(x)) ....",
                ));
            }
        }
        let exprs: Vec<&Expr> =
            args.iter().filter(|a| a.name.as_deref() != Some("na.rm")).filter_map(|a| a.value.as_ref()).collect();
        let mut values = self.operands(&exprs)?;
        if values.len() == 1 {
            return match values.pop().expect("there is one") {
                Value::Vector(v) => Ok(v),
                Value::Number(n) => self.single(n, place),
                Value::List(parts) => self.vector_of(parts, place),
                other => Err(Refusal::new(place, format!("{} is reduced", other.what()), "Give numbers.")),
            };
        }
        self.vector_of(values.into_iter().map(|v| (None, v)).collect(), place)
    }

    fn vector_of(&mut self, parts: Vec<(Option<String>, Value)>, place: Place) -> Compiled<Rc<Vector>> {
        match self.combined(parts, place)? {
            Value::Vector(v) => Ok(v),
            _ => unreachable!("c() gives a vector"),
        }
    }

    /// Smallest or largest: NA where an element is NA, as pmin() has it.
    fn extreme(&mut self, v: &Vector, smallest: bool, place: Place) -> Compiled<Number> {
        let op = if smallest { id::PMIN } else { id::PMAX };
        let typed = match v.typed() {
            t if value::dtype(t).kind() == Kind::Logical => Typed::Value(Kind::Integer),
            t => t,
        };
        let fixed = v.fixed();
        if fixed == Some(0) {
            return Err(Refusal::new(place, "no elements to compare", "Give at least one element."));
        }
        let start = match value::dtype(typed).kind() {
            Kind::Double => {
                self.as_typed(Number::double(if smallest { f64::INFINITY } else { f64::NEG_INFINITY }), typed, place)?
            }
            Kind::Complex => {
                return Err(Refusal::new(place, "invalid 'type' (complex) of argument", "Compare Mod() or Re()."))
            }
            _ => {
                let first = self.element(v, Number::integer(0).at, place)?;
                self.as_typed(first, typed, place)?
            }
        };
        let states =
            self.fold(v, &[start], place, &mut |c, state, x, _| Ok(vec![c.apply(op, &[state[0], x], place)?]))?;
        Ok(states[0])
    }

    /// Functions with rules of their own. None where the name is none of them.
    fn special(&mut self, name: &str, args: &[Argument], place: Place) -> Compiled<Option<Value>> {
        let number = |n: Number| Ok(Some(Value::Number(n)));
        match name {
            "-" | "+" if args.len() == 1 => {
                let value = self.operands(&[nth(args, 0, place, name)?])?;
                let op = if name == "-" { id::NEG } else { id::POS };
                self.row_on(op, value, place).map(Some)
            }
            "c" => {
                let mut parts = Vec::new();
                let exprs: Vec<&Expr> = args.iter().filter_map(|a| a.value.as_ref()).collect();
                let values = self.operands(&exprs)?;
                let named = args.iter().any(|a| a.name.is_some());
                for (argument, value) in args.iter().zip(values) {
                    match value {
                        Value::List(inner) => parts.extend(inner),
                        value => parts.push((argument.name.clone(), value)),
                    }
                }
                if named || parts.iter().any(|(n, _)| n.is_some()) {
                    // names are kept where it is the function's result; elements have one type
                    let typed = parts
                        .iter()
                        .filter_map(|(_, v)| if let Value::Number(n) = v { Some(n.typed) } else { None })
                        .reduce(join);
                    let Some(typed) = typed else { return Ok(Some(Value::Null)) };
                    let mut out = Vec::new();
                    for (name, value) in parts {
                        let n = self.as_number(value, place)?;
                        let n = self.as_typed(n, typed, place)?;
                        out.push((name, Value::Number(n)));
                    }
                    return Ok(Some(Value::List(out)));
                }
                self.combined(parts, place).map(Some)
            }
            "list" => {
                let exprs: Vec<&Expr> = args.iter().filter_map(|a| a.value.as_ref()).collect();
                let values = self.operands(&exprs)?;
                Ok(Some(Value::List(args.iter().map(|a| a.name.clone()).zip(values).collect())))
            }
            "invisible" | "identity" => self.expr(nth(args, 0, place, name)?).map(Some),
            "numeric" | "double" | "integer" | "logical" | "vector" => {
                let (zero, count) = match name {
                    "integer" => (Number::integer(0), nth(args, 0, place, name)?),
                    "logical" => (Number::logical(Some(false)), nth(args, 0, place, name)?),
                    "vector" => {
                        let mode = nth(args, 0, place, name)?;
                        let zero = match &mode.form {
                            Form::Text(t) if t == "integer" => Number::integer(0),
                            Form::Text(t) if t == "logical" => Number::logical(Some(false)),
                            Form::Text(t) if t == "numeric" || t == "double" => Number::double(0.0),
                            _ => {
                                return Err(Refusal::new(
                                    mode.place,
                                    "a vector of another mode",
                                    "Use numeric(n), integer(n) or logical(n).",
                                ))
                            }
                        };
                        (zero, nth(args, 1, place, name)?)
                    }
                    _ => (Number::double(0.0), nth(args, 0, place, name)?),
                };
                let n = self.fixed_count(count)?;
                Ok(Some(Value::vector(Vector::Same { value: zero, length: Number::long(n).at, dim: None })))
            }
            "rep" | "rep.int" | "rep_len" => {
                let names: &[&str] = if name == "rep_len" { &["x", "length.out"] } else { &["x", "times"] };
                let matched = Matched::new(name, names, args, place)?;
                let n = self.fixed_count(matched.needed(names[1])?)?;
                match self.expr(matched.needed("x")?)? {
                    Value::Number(value) => {
                        let value = self.frozen(value);
                        Ok(Some(Value::vector(Vector::Same { value, length: Number::long(n).at, dim: None })))
                    }
                    Value::Vector(v) if name != "rep_len" => {
                        let parts = (0..n).map(|_| (None, Value::Vector(v.clone()))).collect();
                        self.combined(parts, place).map(Some)
                    }
                    other => Err(Refusal::new(place, format!("{} is repeated", other.what()), "Repeat a number.")),
                }
            }
            "matrix" => {
                let matched = Matched::new(name, &["data", "nrow", "ncol"], args, place)?;
                let rows = matched.expr("nrow").map(|e| self.fixed_count(e)).transpose()?;
                let columns = matched.expr("ncol").map(|e| self.fixed_count(e)).transpose()?;
                let data = match matched.expr("data") {
                    Some(e) => self.expr(e)?,
                    None => Value::Number(Number::logical(None)),
                };
                let elements = match &data {
                    Value::Vector(v) => v.fixed().ok_or_else(|| too_long(place))? as i64,
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
                    return Err(too_long(place));
                }
                let dim = Some((rows as u16, columns as u16));
                match data {
                    Value::Number(value) => {
                        let value = self.frozen(value);
                        Ok(Some(Value::vector(Vector::Same { value, length: Number::long(n).at, dim })))
                    }
                    Value::Vector(v) if elements == n => {
                        let array = self.new_array(v.typed(), n as u16);
                        self.fill(array, &v, place)?;
                        Ok(Some(Value::vector(Vector::Local { array, typed: v.typed(), length: n as u16, dim })))
                    }
                    _ => Err(Refusal::new(
                        place,
                        "data length differs from size of matrix",
                        "Give one number, or as many as there are elements.",
                    )),
                }
            }
            ":" => {
                let values = self.operands(&[nth(args, 0, place, ":")?, nth(args, 1, place, ":")?])?;
                let mut values = values.into_iter();
                let a = self.as_number(values.next().expect("two"), place)?;
                let b = self.as_number(values.next().expect("two"), place)?;
                self.colon(a, b, place).map(Some)
            }
            "seq_len" => {
                let n = self.number(nth(args, 0, place, name)?)?;
                self.counted(n, place).map(Some)
            }
            "seq_along" => {
                let n = match self.expr(nth(args, 0, place, name)?)? {
                    Value::Vector(v) => self.length_of(&v, place)?,
                    Value::List(parts) => Number::integer(parts.len() as i32),
                    Value::Number(_) => Number::integer(1),
                    other => {
                        return Err(Refusal::new(place, format!("seq_along() of {}", other.what()), "Give a vector."))
                    }
                };
                self.counted(n, place).map(Some)
            }
            "seq" | "seq.int" => self.sequence(args, place).map(Some),
            "rev" => {
                let v = self.reduced(args, place)?;
                let from = self.length_of(&v, place)?;
                let at = Rc::new(Vector::Range { from, step: Number::integer(-1), length: v.length() });
                Ok(Some(Value::vector(Vector::Pick { of: v, at })))
            }
            "length" | "nrow" | "ncol" | "NROW" | "NCOL" => {
                let value = self.expr(nth(args, 0, place, name)?)?;
                self.size(name, &value, place).map(|n| Some(Value::Number(n)))
            }
            "dim" => {
                let value = self.expr(nth(args, 0, place, name)?)?;
                let Value::Vector(v) = &value else { return Ok(Some(Value::Null)) };
                let mut parts = Vec::new();
                for extent in self.extents(v) {
                    let n = Number { at: extent, typed: Typed::Value(Kind::Integer64) };
                    parts.push((None, Value::Number(self.cast(n, DType::Int32, place)?)));
                }
                if parts.is_empty() {
                    return Ok(Some(Value::Null));
                }
                self.combined(parts, place).map(Some)
            }
            "sum" => {
                let v = self.reduced(args, place)?;
                number(self.sum(&v, place)?)
            }
            "mean" => {
                let v = self.reduced(args, place)?;
                number(self.mean(&v, place)?)
            }
            "var" | "sd" => {
                let v = self.reduced(args, place)?;
                let m = self.mean(&v, place)?;
                let centred = self.map(id::SUB, vec![Value::Vector(v.clone()), Value::Number(m)], place)?;
                let squares = self.map(id::MUL, vec![centred.clone(), centred], place)?;
                let Value::Vector(squares) = squares else { unreachable!("it was mapped") };
                let sum = self.sum(&squares, place)?;
                let n = self.length_of(&v, place)?;
                let less = self.apply(id::SUB, &[n, Number::integer(1)], place)?;
                // of one element there is none
                let few = self.apply(id::LT, &[less, Number::integer(1)], place)?;
                let less = self.apply(id::SELECT, &[few, Number::integer(1), less], place)?;
                let var = self.apply(id::DIV, &[sum, less], place)?;
                let na = self.missing(var.typed, place)?;
                let var = self.apply(id::SELECT, &[few, na, var], place)?;
                number(if name == "sd" { self.apply(id::SQRT, &[var], place)? } else { var })
            }
            "prod" => {
                let v = self.reduced(args, place)?;
                let one = match v.typed() {
                    t if value::dtype(t).kind() == Kind::Complex => self.as_typed(Number::double(1.0), t, place)?,
                    _ => Number::double(1.0),
                };
                let product = self.fold(&v, &[one], place, &mut |c, state, x, _| {
                    let x = if one.kind() == Kind::Double { c.double(x, place)? } else { x };
                    Ok(vec![c.apply(id::MUL, &[state[0], x], place)?])
                })?[0];
                number(self.in_dtype_of(product, v.typed(), place)?)
            }
            "min" | "max" => {
                let v = self.reduced(args, place)?;
                number(self.extreme(&v, name == "min", place)?)
            }
            "range" => {
                let v = self.reduced(args, place)?;
                let parts = vec![
                    (None, Value::Number(self.extreme(&v, true, place)?)),
                    (None, Value::Number(self.extreme(&v, false, place)?)),
                ];
                self.combined(parts, place).map(Some)
            }
            "any" | "all" => {
                let v = self.reduced(args, place)?;
                let (start, op) = if name == "any" { (false, id::OR) } else { (true, id::AND) };
                let states = self.fold(&v, &[Number::logical(Some(start))], place, &mut |c, state, x, _| {
                    Ok(vec![c.apply(op, &[state[0], x], place)?])
                })?;
                number(states[0])
            }
            "which.max" | "which.min" => {
                let v = self.reduced(args, place)?;
                let op = if name == "which.max" { id::GT } else { id::LT };
                let worst = if name == "which.max" { f64::NEG_INFINITY } else { f64::INFINITY };
                let states = self.fold(
                    &v,
                    &[Number::double(worst), Number::integer(crate::scalar::NA_I32)],
                    place,
                    &mut |c, state, x, index| {
                        let x = c.double(x, place)?;
                        let better = c.apply(op, &[x, state[0]], place)?;
                        // the first of what is there wins, an infinity too
                        let none = c.apply(id::IS_NA, &[state[1]], place)?;
                        let there = c.apply(id::IS_NA, &[x], place)?;
                        let there = c.apply(id::NOT, &[there], place)?;
                        let first = c.apply(id::AND, &[none, there], place)?;
                        let better = c.apply(id::AND, &[better, there], place)?;
                        let better = c.apply(id::OR, &[better, first], place)?;
                        let at = c.apply(
                            id::ADD,
                            &[Number { at: index, typed: Typed::Value(Kind::Integer) }, Number::integer(1)],
                            place,
                        )?;
                        Ok(vec![
                            c.apply(id::SELECT, &[better, x, state[0]], place)?,
                            c.apply(id::SELECT, &[better, at, state[1]], place)?,
                        ])
                    },
                )?;
                number(states[1])
            }
            "pmin" | "pmax" => {
                if args.iter().any(|a| a.name.as_deref() == Some("na.rm")) {
                    return Err(Refusal::new(
                        place,
                        "na.rm within a compiled function",
                        "Test for NA: if (is.na(x)) ....",
                    ));
                }
                let op = if name == "pmin" { id::PMIN } else { id::PMAX };
                let exprs: Vec<&Expr> = args.iter().filter_map(|a| a.value.as_ref()).collect();
                let mut values = self.operands(&exprs)?.into_iter();
                let Some(mut out) = values.next() else {
                    return Err(Refusal::new(place, "no arguments", "Give numbers."));
                };
                for value in values {
                    out = self.row_on(op, vec![out, value], place)?;
                }
                Ok(Some(out))
            }
            "ifelse" => self.ifelse(args, place).map(Some),
            "isTRUE" | "isFALSE" => {
                let n = self.number(nth(args, 0, place, name)?)?;
                if n.kind() != Kind::Logical {
                    return number(Number::logical(Some(false)));
                }
                let n = if name == "isFALSE" { self.apply(id::NOT, &[n], place)? } else { n };
                let na = self.apply(id::IS_NA, &[n], place)?;
                number(self.apply(id::SELECT, &[na, Number::logical(Some(false)), n], place)?)
            }
            "as.numeric" | "as.double" => self.converts(args, Typed::Value(Kind::Double), place).map(Some),
            "as.integer" => self.converts(args, Typed::Value(Kind::Integer), place).map(Some),
            "as.logical" => self.converts(args, Typed::Value(Kind::Logical), place).map(Some),
            "as.complex" => self.converts(args, Typed::Value(Kind::Complex), place).map(Some),
            "is.numeric" | "is.double" | "is.integer" | "is.logical" | "is.complex" | "is.null" => {
                let value = self.expr(nth(args, 0, place, name)?)?;
                let kind = match &value {
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
                    _ => matches!(value, Value::Null),
                };
                number(Number::logical(Some(is)))
            }
            "missing" => {
                let expr = nth(args, 0, place, name)?;
                let Form::Name(parameter) = &expr.form else {
                    return Err(Refusal::new(
                        expr.place,
                        "invalid use of 'missing'",
                        "Write missing(x) of an argument.",
                    ));
                };
                let frame = self.frames.len() - 1;
                let is = matches!(self.variables[frame].get(parameter), Some(Value::Unset(..)));
                number(Number::logical(Some(is)))
            }
            "stop" => {
                let message = match args.first().and_then(|a| a.value.as_ref()).map(|v| &v.form) {
                    Some(Form::Text(text)) => text.clone(),
                    None => String::new(),
                    _ => {
                        return Err(Refusal::new(
                            place,
                            "stop() with what is computed",
                            "Give it one string: stop(\"no root found\").",
                        ))
                    }
                };
                let fails = self.failure(place, message)?;
                self.emit(Statement::Fail(fails));
                self.reachable = false;
                Ok(Some(Value::Null))
            }
            "stopifnot" => {
                for argument in args {
                    let Some(test) = &argument.value else { continue };
                    let v =
                        self.reduced(std::slice::from_ref(&Argument { name: None, value: Some(test.clone()) }), place)?;
                    let text =
                        argument.name.clone().unwrap_or_else(|| format!("{} is not TRUE", self.scope.text(test.place)));
                    let fails = self.failure(test.place, text)?;
                    let states = self.fold(&v, &[Number::logical(Some(true))], place, &mut |c, state, x, _| {
                        Ok(vec![c.apply(id::AND, &[state[0], x], place)?])
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
            "switch" => self.switch(args, place).map(Some),
            "complex" => {
                let matched =
                    Matched::new(name, &["length.out", "real", "imaginary", "modulus", "argument"], args, place)?;
                let polar = matched.has("modulus") || matched.has("argument");
                let (a, b, default) = if polar { ("modulus", "argument", 1.0) } else { ("real", "imaginary", 0.0) };
                let x = matched.optional(self, a)?.unwrap_or(Number::double(default));
                let y = matched.optional(self, b)?.unwrap_or(Number::double(0.0));
                number(self.apply(if polar { id::COMPLEX_POLAR } else { id::COMPLEX }, &[x, y], place)?)
            }
            "dnorm" | "pnorm" | "qnorm" => {
                let first = if name == "dnorm" {
                    "x"
                } else if name == "pnorm" {
                    "q"
                } else {
                    "p"
                };
                let names: Vec<&str> = match name {
                    "dnorm" => vec![first, "mean", "sd", "log"],
                    _ => vec![first, "mean", "sd", "lower.tail", "log.p"],
                };
                let matched = Matched::new(name, &names, args, place)?;
                let log = matched.flag(names[names.len() - 1], false)?;
                let lower = name == "dnorm" || matched.flag("lower.tail", true)?;
                let op = match (name, lower, log) {
                    ("dnorm", _, false) => id::DNORM,
                    ("dnorm", _, true) => id::DNORM_LOG,
                    ("pnorm", true, false) => id::PNORM,
                    ("pnorm", false, false) => id::PNORM_UPPER,
                    ("pnorm", true, true) => id::PNORM_LOG,
                    ("pnorm", false, true) => id::PNORM_UPPER_LOG,
                    (_, true, false) => id::QNORM,
                    (_, false, false) => id::QNORM_UPPER,
                    (_, true, true) => id::QNORM_LOG,
                    (_, false, true) => id::QNORM_UPPER_LOG,
                };
                let x = self.expr(matched.needed(first)?)?;
                let mean = match matched.expr("mean") {
                    Some(e) => self.expr(e)?,
                    None => Value::Number(Number::double(0.0)),
                };
                let sd = match matched.expr("sd") {
                    Some(e) => self.expr(e)?,
                    None => Value::Number(Number::double(1.0)),
                };
                self.row_on(op, vec![x, mean, sd], place).map(Some)
            }
            "factorial" => {
                let n = self.number(nth(args, 0, place, name)?)?;
                let n = self.apply(id::ADD, &[n, Number::double(1.0)], place)?;
                number(self.apply(id::GAMMA, &[n], place)?)
            }
            "round" if args.len() == 1 => {
                let value = self.operands(&[nth(args, 0, place, name)?])?;
                self.row_on(id::ROUND, value, place).map(Some)
            }
            "nlevels" | "names" | "class" | "attr" | "levels" => Err(Refusal::new(
                place,
                format!("`{name}()`: numbers within a compiled function have no attributes"),
                "Look at attributes outside, and hand over numbers.",
            )),
            _ => Ok(None),
        }
    }

    fn mean(&mut self, v: &Vector, place: Place) -> Compiled<Number> {
        let as_double = match value::dtype(v.typed()).kind() {
            Kind::Logical | Kind::Integer | Kind::Integer64 => self.converted(v, Typed::Value(Kind::Double)),
            _ => v.clone(),
        };
        let sum = self.sum(&as_double, place)?;
        let n = self.length_of(v, place)?;
        self.apply(id::DIV, &[sum, n], place)
    }

    fn size(&mut self, name: &str, value: &Value, place: Place) -> Compiled<Number> {
        let v = match value {
            Value::Vector(v) => v.clone(),
            Value::Number(_) => return Ok(Number::integer(1)),
            Value::List(parts) if name == "length" => return Ok(Number::integer(parts.len() as i32)),
            other => return Err(Refusal::new(place, format!("{name}() of {}", other.what()), "Give a vector.")),
        };
        let extents = self.extents(&v);
        let at = match (name, extents.len()) {
            ("length", _) | ("NROW", 0) => v.length(),
            ("NCOL", 0) => return Ok(Number::integer(1)),
            ("nrow" | "NROW", n) if n > 0 => extents[0],
            ("ncol" | "NCOL", n) if n > 1 => extents[1],
            _ => return Err(Refusal::new(place, format!("{name}() of a vector is NULL"), "Use length().")),
        };
        self.cast(Number { at, typed: Typed::Value(Kind::Integer64) }, DType::Int32, place)
    }

    fn sequence(&mut self, args: &[Argument], place: Place) -> Compiled<Value> {
        let matched = Matched::new("seq", &["from", "to", "by", "length.out"], args, place)?;
        let by = matched.expr("by");
        let count = matched.expr("length.out");
        if let (None, None, None) = (matched.expr("to"), by, count) {
            return match self.expr(matched.needed("from")?)? {
                Value::Number(n) => self.colon(Number::integer(1), n, place),
                Value::Vector(v) => {
                    let n = self.length_of(&v, place)?;
                    self.counted(n, place)
                }
                other => Err(Refusal::new(place, format!("seq() of {}", other.what()), "Give numbers.")),
            };
        }
        let from = matched.optional(self, "from")?.unwrap_or(Number::integer(1));
        let from = self.frozen(from);
        if let Some(count) = count {
            let n = self.number(count)?;
            let Value::Vector(counted) = self.counted(n, place)? else { unreachable!("a range") };
            let length = counted.length();
            let from = self.double(from, place)?;
            let from = self.frozen(from);
            let step = match (by, matched.expr("to")) {
                (Some(by), _) => {
                    let by = self.number(by)?;
                    self.double(by, place)?
                }
                (None, Some(to)) => {
                    let to = self.number(to)?;
                    let span = self.apply(id::SUB, &[to, from], place)?;
                    let n = Number { at: length, typed: Typed::Value(Kind::Integer64) };
                    let n = self.double(n, place)?;
                    let less = self.apply(id::SUB, &[n, Number::double(1.0)], place)?;
                    let less = self.apply(id::PMAX, &[less, Number::double(1.0)], place)?;
                    self.apply(id::DIV, &[span, less], place)?
                }
                (None, None) => Number::double(1.0),
            };
            let step = self.frozen(step);
            return Ok(Value::vector(Vector::Range { from, step, length }));
        }
        let to = matched.required(self, "to")?;
        let Some(by) = by else { return self.colon(from, to, place) };
        let by = self.number(by)?;
        let integers = from.kind() <= Kind::Integer && by.kind() <= Kind::Integer;
        // R gives integers where from is whole and by is an integer
        let whole = |n: Number| n.whole().filter(|k| i32::try_from(*k).is_ok());
        let (from, by) = match (integers, whole(from), whole(by)) {
            (true, ..) => (from, by),
            (_, Some(a), Some(_)) if by.kind() == Kind::Integer => (Number::integer(a as i32), by),
            _ => (self.double(from, place)?, self.double(by, place)?),
        };
        let (from, by) = (self.frozen(from), self.frozen(by));
        let fails = self.failure(place, "wrong sign in 'by' argument")?;
        // count = floor((to - from) / by + 1e-10) + 1
        let (x, y, s) = (self.double(from, place)?, self.double(to, place)?, self.double(by, place)?);
        if let (Some(a), Some(b), Some(s)) = (x.whole(), y.whole(), s.whole()) {
            if s == 0 || (b - a).signum() * s.signum() < 0 {
                return Err(Refusal::new(place, "wrong sign in 'by' argument", "Let `by` lead from `from` to `to`."));
            }
            return Ok(Value::vector(Vector::Range { from, step: by, length: Number::long((b - a) / s + 1).at }));
        }
        let span = self.apply(id::SUB, &[y, x], place)?;
        let turns = self.apply(id::DIV, &[span, s], place)?;
        let turns = self.apply(id::ADD, &[turns, Number::double(1e-10)], place)?;
        let bad = self.apply(id::GE, &[turns, Number::double(0.0)], place)?;
        self.emit(Statement::If {
            value: bad.at,
            missing: Some(fails),
            then: vec![],
            otherwise: vec![Statement::Fail(fails)],
        });
        let turns = self.apply(id::FLOOR, &[turns], place)?;
        let turns = self.apply(id::ADD, &[turns, Number::double(1.0)], place)?;
        let length = self.long(turns, place)?;
        Ok(Value::vector(Vector::Range { from, step: by, length }))
    }

    fn converts(&mut self, args: &[Argument], to: Typed, place: Place) -> Compiled<Value> {
        match self.operands(&[nth(args, 0, place, "as")?])?.pop().expect("there is one") {
            Value::Vector(v) => Ok(Value::vector(self.converted(&v, to))),
            Value::Text(_) => Err(Refusal::new(place, "a string is converted", "Write the number.")),
            other => {
                let n = self.as_number(other, place)?;
                // an array's float32 is a double to R already
                if let (Typed::Array(d), Typed::Value(Kind::Double)) = (n.typed, to) {
                    if d.is_float() {
                        return Ok(Value::Number(n));
                    }
                }
                Ok(Value::Number(self.cast(n, value::dtype(to), place)?))
            }
        }
    }

    /// `ifelse(test, yes, no)` of numbers: only what is chosen is found.
    fn ifelse(&mut self, args: &[Argument], place: Place) -> Compiled<Value> {
        let matched = Matched::new("ifelse", &["test", "yes", "no"], args, place)?;
        let (test, yes, no) = (matched.needed("test")?, matched.needed("yes")?, matched.needed("no")?);
        let test_value = self.expr(test)?;
        if let Value::Vector(v) = test_value {
            let values = self.operands(&[yes, no])?;
            let values = std::iter::once(Value::Vector(v)).chain(values).collect();
            return self.row_on(id::SELECT, values, place);
        }
        let n = self.as_number(test_value, test.place)?;
        let n = self.logical(n, test.place)?;
        let simple = |e: &Expr| !matches!(e.form, Form::Call(..) | Form::CallOf(..));
        if simple(yes) && simple(no) {
            let values = self.operands(&[yes, no])?;
            if values.iter().all(|v| matches!(v, Value::Number(_))) {
                let values = std::iter::once(Value::Number(n)).chain(values).collect();
                return self.row_on(id::SELECT, values, place);
            }
        }
        let n = self.frozen(n);
        let value = self.branch(n, None, place, &mut |c| c.number(yes).map(Value::Number), &mut |c| {
            let not = c.apply(id::NOT, &[n], place)?;
            c.branch(not, None, place, &mut |c| c.number(no).map(Value::Number), &mut |_| {
                Ok(Value::Number(Number::logical(None)))
            })
        })?;
        Ok(value)
    }

    /// `switch(k, a, b, c)` by number.
    fn switch(&mut self, args: &[Argument], place: Place) -> Compiled<Value> {
        let which = self.number(nth(args, 0, place, "switch")?)?;
        if args.iter().any(|a| a.name.is_some()) {
            return Err(Refusal::new(
                place,
                "switch() by strings",
                "Switch by a number: switch(k, first, second), or use if and else.",
            ));
        }
        let which = self.cast(which, DType::Int32, place)?;
        let which = self.frozen(which);
        let fails = self.failure(place, "switch() has no such alternative")?;
        self.alternative(which, 1, &args[1..], fails, place)
    }

    fn alternative(&mut self, which: Number, k: i32, rest: &[Argument], fails: u8, place: Place) -> Compiled<Value> {
        let Some((first, others)) = rest.split_first() else {
            self.emit(Statement::Fail(fails));
            self.reachable = false;
            return Ok(Value::Null);
        };
        let expr = first
            .value
            .as_ref()
            .ok_or_else(|| Refusal::new(place, "empty alternative in switch()", "Write every alternative."))?;
        let test = self.apply(id::EQ, &[which, Number::integer(k)], place)?;
        self.branch(test, Some(fails), place, &mut |c| c.expr(expr), &mut |c| {
            c.alternative(which, k + 1, others, fails, place)
        })
    }
}
