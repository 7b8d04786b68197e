//! Function calls, which are inlined, and returns.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::control::nth;
use super::kinds;
use super::value::{self, join, Container, Number, Value, Vector};
use super::ways::{always_returns, may_signal, returns_early, surely_reads};
use super::{Compiled, Compiler, Early, Frame, Operand, Refusal, Results, Span, Statement, DEEPEST};
use crate::syntax::{Argument, Expr, Form, Lambda, Meaning};
use verdigris_ops::dtype::Class;
use verdigris_ops::rule::Typed;

/// The reason of `Value::Unset` for an argument that is missing without a default.
pub(super) const MISSING: &str = "the argument is missing, with no default";

impl Compiler<'_> {
    /// Opens a frame for a function. `parent` is the frame whose variables it sees.
    pub(super) fn enter(&mut self, lambda: &Rc<Lambda>, parent: Option<usize>) {
        static UIDS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let uid = UIDS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.frames.push(Frame { uid, lambda: lambda.clone(), parent, resumes: None, loops: self.loops.len() });
        self.variables.push(BTreeMap::new());
        self.early.push(None);
    }

    fn leave(&mut self) {
        self.frames.pop();
        self.variables.pop();
        self.early.pop();
    }

    /// Gives the parameters that the call leaves out their defaults, which are evaluated at once.
    pub(super) fn defaults(&mut self, lambda: &Rc<Lambda>) -> Compiled<()> {
        let frame = self.frames.len() - 1;
        let not_given = |(name, _): &&(String, Option<Expr>)| !self.variables[frame].contains_key(name);
        let absent: Vec<_> = lambda.parameters.iter().filter(not_given).collect();
        for (name, _) in &absent {
            self.variables[frame].insert(missing_flag(name), Value::Number(Number::logical(Some(true))));
        }
        for (name, default) in in_order(absent)? {
            match default {
                Some(default) => {
                    let mut changed = None;
                    lambda.body.assigned(&mut |assigned, at| {
                        if default.mentions(assigned) {
                            changed = changed.take().or(Some((assigned.to_string(), at)));
                        }
                    });
                    if let Some((assigned, at)) = changed {
                        return Err(Refusal::new(
                            default.span,
                            format!("the default of `{name}` reads `{assigned}`, which the function assigns"),
                            format!(
                                "Compute it where it is needed: if (missing({name})) ...; or give {name} in the call."
                            ),
                        )
                        .and(format!("`{assigned}` is assigned here"), at));
                    }
                    match self.argument(lambda, name, default, frame)? {
                        promise @ Value::Promise(..) => {
                            self.variables[frame].insert(name.clone(), promise);
                        }
                        value => {
                            let held = self.held(frame, name, value, default.span)?;
                            if self.reachable {
                                self.variables[frame].insert(name.clone(), held);
                            }
                        }
                    }
                }
                None => {
                    let unset = Value::Unset(MISSING.into(), lambda.body.span);
                    self.variables[frame].insert(name.clone(), unset);
                }
            }
        }
        Ok(())
    }

    /// Whether a function is being inlined, so that a call of it is recursion. While a promise is forced, only the
    /// frame that made it and those below it count.
    fn is_open(&self, lambda: &Lambda) -> bool {
        let mut next = Some(self.frames.len() - 1);
        while let Some(k) = next {
            let frame = &self.frames[k];
            if frame.lambda.id == lambda.id && frame.resumes.is_none() {
                return true;
            }
            next = frame.resumes.or(k.checked_sub(1));
        }
        false
    }

    /// Inlines a call. `parent` is the frame whose variables the closure sees.
    pub(super) fn inline(
        &mut self,
        lambda: &Rc<Lambda>,
        parent: Option<usize>,
        args: &[Argument],
        span: Span,
    ) -> Compiled<Value> {
        if self.is_open(lambda) {
            return Err(Refusal::new(
                span,
                format!("`{}` calls itself", lambda.name),
                "Write the recursion as a loop; keep pending work in a local vector.",
            ));
        }
        if self.frames.len() >= DEEPEST {
            return Err(Refusal::new(span, "calls are nested too deeply", "Write a flatter function."));
        }
        let among = |name: &str, without: usize| {
            let others = args.iter().enumerate().filter(|(k, _)| *k != without);
            others.filter_map(|(_, a)| a.value.as_ref()).any(|e| e.mentions(name))
        };
        for (k, expr) in args.iter().enumerate().filter_map(|(k, a)| Some((k, a.value.as_ref()?))) {
            let mut read = None;
            expr.assigned(&mut |name, at| {
                // R evaluates arguments in the order in which the function reads them.
                if among(name, k) || parent.is_some() && lambda.body.mentions(name) {
                    read = read.take().or(Some((name.to_string(), at)));
                }
            });
            if let Some((name, at)) = read {
                let message = format!("an argument assigns `{name}`, which another argument or the function reads");
                return Err(Refusal::new(at, message, "Assign it in front of the call."));
            }
        }
        let values = self.arguments(lambda, args, span)?;
        self.enter(lambda, parent);
        for (name, value, expr) in values {
            if matches!(value, Value::Promise(..)) {
                self.variables.last_mut().expect("a frame is open").insert(name, value);
                continue;
            }
            // A parameter that the function does not assign needs no register of its own.
            let assigned = lambda.body.assigned_at(&name).is_some();
            let value = if assigned { self.held_argument(&name, value, expr)? } else { self.frozen_value(value) };
            self.variables.last_mut().expect("a frame is open").insert(name, value);
        }
        let result = self.body(lambda, span)?;
        self.leave();
        if sees(&result, self.frames.len()) {
            return Err(Refusal::new(
                span,
                format!("{} gives a function that sees its variables", shown_name(lambda)),
                "Write one function that takes all arguments; or make the function in R, outside of what is compiled.",
            ));
        }
        Ok(result)
    }

    fn held_argument(&mut self, name: &str, value: Value, span: Span) -> Compiled<Value> {
        self.assign(name, value, span)?;
        let frame = self.frames.len() - 1;
        Ok(self.variables[frame][name].clone())
    }

    /// Matches arguments by R's rules: exact names, then unique prefixes, then positions.
    fn arguments(&mut self, lambda: &Lambda, args: &[Argument], span: Span) -> Compiled<Vec<(String, Value, Span)>> {
        // Nothing can be passed by `...`.
        let dots = lambda.parameters.iter().any(|(n, _)| n == "...");
        let names: Vec<&str> = lambda.parameters.iter().map(|(n, _)| n.as_str()).filter(|n| *n != "...").collect();
        let mut given: Vec<Option<usize>> = vec![None; names.len()];
        let mut used = vec![false; args.len()];
        for exact in [true, false] {
            for (k, argument) in args.iter().enumerate().filter(|(_, a)| a.name.is_some()) {
                if used[k] {
                    continue;
                }
                let name = argument.name.as_deref().expect("it has a name");
                let fits: Vec<usize> = (0..names.len())
                    .filter(|&j| {
                        given[j].is_none() && if exact { names[j] == name } else { names[j].starts_with(name) }
                    })
                    .collect();
                if let [j] = fits[..] {
                    given[j] = Some(k);
                    used[k] = true;
                }
            }
        }
        let mut free = (0..names.len()).filter(|&j| given[j].is_none()).collect::<Vec<_>>().into_iter();
        for (k, argument) in args.iter().enumerate().filter(|(k, _)| !used[*k]) {
            let at = argument.value.as_ref().map_or(span, |v| v.span);
            match free.next() {
                Some(j) if argument.name.is_none() => given[j] = Some(k),
                _ => {
                    let text = argument.value.as_ref().map_or(String::new(), Expr::to_string);
                    let shown = argument.name.as_ref().map_or(text.clone(), |name| format!("{name} = {text}"));
                    return Err(Refusal::new(
                        at,
                        format!("unused argument ({shown}) in the call of {}", shown_name(lambda)),
                        match dots {
                            true => "What `...` takes cannot be compiled: name all arguments.".to_string(),
                            false => format!("It takes: {}.", names.join(", ")),
                        },
                    ));
                }
            }
        }
        let mut values = Vec::new();
        for (j, k) in given.into_iter().enumerate() {
            let Some(expr) = k.and_then(|k| args[k].value.as_ref()) else { continue };
            let value = self.argument(lambda, names[j], expr, self.frames.len() - 1)?;
            values.push((names[j].to_string(), value, expr.span));
        }
        Ok(values)
    }

    /// The value of an argument, evaluated in a frame. R evaluates an argument when the function first reads it. An
    /// argument that may warn or fail stays a promise if the function may end without reading it.
    fn argument(&mut self, lambda: &Lambda, name: &str, expr: &Expr, frame: usize) -> Compiled<Value> {
        let is_own = |name: &str| self.variables.iter().any(|frame| frame.contains_key(name));
        let is_base = |name: &str| {
            lambda.body.assigned_at(name).is_none()
                && !lambda.parameters.iter().any(|(parameter, _)| parameter == name)
                && !is_own(name)
                && matches!(self.scope.meaning(lambda.scope, &[name.into()], true), Some(Meaning::Builtin(_)))
        };
        let reads = surely_reads(&is_base, &lambda.body, name);
        let assigned = lambda.body.assigned_at(name).is_some();
        if (assigned || !reads) && (expr.assigns() || expr.calls(&["return", "break", "next"], true)) {
            return Err(Refusal::new(
                expr.span,
                format!("an argument that assigns or returns, which {} may not evaluate", shown_name(lambda)),
                "Do it in front of the call.",
            ));
        }
        if assigned || reads {
            return self.expr(expr);
        }
        let failures = self.routine.failures.len();
        let statements = self.statements;
        let variables = self.variables.clone();
        let (mut block, value) = self.within(|c| c.expr(expr))?;
        let (signals, draws) = may_signal(&block);
        if self.reachable && (!signals || draws) {
            self.block.append(&mut block);
            return Ok(value);
        }
        self.reachable = true;
        self.routine.failures.truncate(failures);
        self.statements = statements;
        self.variables = variables;
        Ok(Value::Promise(Rc::new(expr.clone()), frame))
    }

    /// Evaluates a promise with the variables of the frame that made it.
    pub(super) fn force_promise(&mut self, expr: &Expr, frame: usize) -> Compiled<Value> {
        let lambda = self.frames[frame].lambda.clone();
        self.enter(&lambda, Some(frame));
        self.frames.last_mut().expect("a frame is open").resumes = Some(frame);
        let value = self.expr(expr);
        self.leave();
        value
    }

    /// Compiles the body of the innermost frame, whose arguments are set.
    fn body(&mut self, lambda: &Rc<Lambda>, span: Span) -> Compiled<Value> {
        if !returns_early(&lambda.body, self.is_base("stop")) {
            self.defaults(lambda)?;
            return self.tail(&lambda.body);
        }
        // Returns within loops: the body becomes a loop that is left by `break`. Results are in registers, and a flag
        // tells enclosing loops to break as well.
        let before = self.variables.clone();
        let written = self.block.len();
        let mut hints = Vec::new();
        loop {
            self.variables = before.clone();
            self.block.truncate(written);
            let flag = self.fresh(Class::I32);
            *self.early.last_mut().expect("a frame is open") =
                Some(Early { loops: self.loops.len(), flag, results: None, hints: hints.clone() });
            self.emit(Statement::Move { to: flag, from: Number::integer(0).at });
            let (mut block, ()) = self.within(|c| {
                c.defaults(lambda)?;
                let value = c.tail(&lambda.body)?;
                if c.reachable {
                    c.write_results(value, lambda.body.span)?;
                }
                Ok(())
            })?;
            self.reachable = true;
            if !matches!(block.last(), Some(Statement::Break)) {
                block.push(Statement::Break);
            }
            self.emit(Statement::Loop { body: block });
            let early = self.early.last_mut().and_then(Option::take).expect("it was set");
            let Some(results) = early.results else {
                return Err(Refusal::new(span, "the function never returns a value", "Let it end in a value."));
            };
            if results.widened {
                hints = results.typed;
                continue;
            }
            let numbers =
                results.registers.iter().zip(&results.typed).map(|(&r, &t)| Value::Number(Number::register(r, t)));
            let Some(names) = results.names else { return Ok(numbers.into_iter().next().expect("there is a result")) };
            let parts = names.into_iter().map(|n| (!n.is_empty()).then_some(n)).zip(numbers).collect();
            return match results.form {
                Some(container) => Ok(Value::Parts(container, parts)),
                None => self.combined(parts, span),
            };
        }
    }

    /// Behind a loop that a `return` may have left: leaves the enclosing loop too if the flag is set.
    pub(super) fn left_early(&mut self) {
        let Some(Some(early)) = self.early.last() else { return };
        let (flag, outermost) = (early.flag, self.loops.len() == early.loops);
        if !outermost {
            self.loops.last_mut().expect("a loop is open").returned = true;
        }
        self.emit(Statement::If {
            value: Operand::Register(flag),
            missing: None,
            then: vec![Statement::Break],
            otherwise: Vec::new(),
        });
    }

    /// An expression in tail position: its value is the function's, and `return(x)` in it is x.
    pub(super) fn tail(&mut self, expr: &Expr) -> Compiled<Value> {
        if !self.reachable {
            return Ok(Value::Null);
        }
        match &expr.form {
            Form::Call(name, args) if !self.is_redefined(name) => match name.as_str() {
                "{" => self.tail_braces(args),
                "(" => self.tail(nth(args, 0, expr.span, "(")?),
                "if" => self.if_else(args, expr.span, |c, way| c.tail(way)),
                "return" => match args.first().and_then(|a| a.value.as_ref()) {
                    Some(value) => self.expr(value),
                    None => Ok(Value::Null),
                },
                _ => self.expr(expr),
            },
            _ => self.expr(expr),
        }
    }

    /// `if (a) return(x)` in front of more code is `if (a) x else { more }`.
    fn tail_braces(&mut self, args: &[Argument]) -> Compiled<Value> {
        let Some((first, rest)) = args.split_first() else { return Ok(Value::Null) };
        let Some(expr) = &first.value else { return self.tail_braces(rest) };
        if rest.is_empty() {
            return self.tail(expr);
        }
        if let Form::Call(name, branches) = &expr.form {
            match (name.as_str(), branches.len()) {
                _ if self.is_redefined(name) => {}
                ("return", _) => return self.tail(expr),
                ("if", 2 | 3) => {
                    let stops = self.is_base("stop");
                    let always = |e: &Expr| always_returns(e, stops);
                    let ends = |k: usize| branches.get(k).and_then(|b| b.value.as_ref()).is_some_and(always);
                    let (then, otherwise) = (ends(1), ends(2));
                    if then || otherwise {
                        let span = expr.span;
                        let (test, missing) = self.condition(nth(branches, 0, span, "if")?)?;
                        let way = |k: usize, ends: bool| {
                            let branch = branches.get(k).and_then(|b| b.value.as_ref());
                            move |c: &mut Self| match branch {
                                Some(branch) if ends => c.tail(branch),
                                Some(branch) => {
                                    c.expr(branch)?;
                                    c.tail_braces(rest)
                                }
                                None => c.tail_braces(rest),
                            }
                        };
                        return self.branch(test, Some(missing), span, &mut way(1, then), &mut way(2, otherwise));
                    }
                }
                _ => {}
            }
        }
        self.expr(expr)?;
        self.tail_braces(rest)
    }

    /// `return(x)` outside of tail position.
    pub(super) fn return_early(&mut self, args: &[Argument], span: Span) -> Compiled<Value> {
        let value = match args.first().and_then(|a| a.value.as_ref()) {
            Some(value) => self.expr(value)?,
            None => Value::Null,
        };
        if !self.reachable {
            return Ok(Value::Null);
        }
        self.write_results(value, span)?;
        match self.early.last().expect("a frame is open") {
            // The compiled function itself.
            None => self.emit(Statement::Return),
            Some(early) => {
                let flag = early.flag;
                if self.loops.len() > early.loops {
                    self.loops.last_mut().expect("a loop is open").returned = true;
                    self.emit(Statement::Move { to: flag, from: Number::integer(1).at });
                }
                self.emit(Statement::Break);
            }
        }
        self.reachable = false;
        Ok(Value::Null)
    }

    /// Writes the returned value into the result registers.
    pub(super) fn write_results(&mut self, value: Value, span: Span) -> Compiled<()> {
        let remedy = "Let the function end in a number, or in c() or list() of several; an `if` needs its `else`.";
        let (parts, form) = match value {
            Value::Unset(why, at) if why.contains("in different branches") => {
                let remedy = value::remedy(&why);
                return Err(Refusal::new(at, why, remedy));
            }
            Value::Unset(why, at) => return Err(Refusal::new(at, why, remedy)),
            Value::Null => return Err(Refusal::new(span, "the function returns NULL", remedy)),
            Value::Number(n) => (vec![(None, n)], None),
            Value::Parts(container, parts) => {
                let mut numbers = Vec::with_capacity(parts.len());
                for (name, part) in parts {
                    numbers.push((Some(name.unwrap_or_default()), self.as_number(part, span)?));
                }
                (numbers, Some(container))
            }
            Value::Vector(v) => match v.fixed() {
                Some(n) if n <= 64 => {
                    let mut numbers = Vec::with_capacity(n);
                    for k in 0..n {
                        numbers.push((Some(String::new()), self.element(&v, Number::integer(k as i32).at, span)?));
                    }
                    (numbers, None)
                }
                None if matches!(*v, Vector::Where { .. }) => return Err(self.unfixed(&v, span)),
                _ => {
                    return Err(Refusal::new(
                        span,
                        "the function returns a vector of many elements",
                        "A function gives one number for each element, or a few: c() or a vector of at most 64 elements, whose number is written in the code.",
                    ))
                }
            },
            other => {
                return Err(Refusal::new(span, format!("the function returns {}", other.what()), remedy));
            }
        };
        if parts.is_empty() {
            return Err(Refusal::new(span, "the function returns no value", remedy));
        }
        let names: Option<Vec<String>> = parts.iter().map(|(name, _)| name.clone()).collect();
        let numbers: Vec<Number> = parts.into_iter().map(|(_, n)| n).collect();
        let is_own = self.early.last().is_some_and(|e| e.is_none());
        let (known, hints) = match self.early.last().expect("a frame is open") {
            Some(early) if !is_own => (early.results.clone(), early.hints.clone()),
            _ => (self.results.clone(), self.hints.clone()),
        };
        let own = is_own || !matches!(self.early.last(), Some(Some(_)));
        let mut results = match known {
            Some(results)
                if (&results.names, results.form) == (&names, form) && results.registers.len() == numbers.len() =>
            {
                results
            }
            Some(results) => {
                let shown = |names: &Option<Vec<String>>, form, n: usize| match (names, form) {
                    (None, _) => "one number".to_string(),
                    (Some(names), Some(Container::List)) if names.iter().all(String::is_empty) => {
                        format!("a list of {n}")
                    }
                    (Some(names), Some(Container::List)) => format!("a list of {}", names.join(", ")),
                    (Some(names), _) if names.iter().all(String::is_empty) => format!("{n} numbers"),
                    (Some(names), _) => format!("numbers named {}", names.join(", ")),
                };
                return Err(Refusal::new(
                    span,
                    format!(
                        "the function returns {} here and {} elsewhere",
                        shown(&names, form, numbers.len()),
                        shown(&results.names, results.form, results.registers.len())
                    ),
                    "Let every return() give as many numbers, with the same names.",
                )
                .and("elsewhere is here", results.span));
            }
            None => {
                let typed: Vec<Typed> = numbers
                    .iter()
                    .enumerate()
                    .map(|(k, n)| hints.get(k).map_or(n.typed, |hint| join(*hint, n.typed)))
                    .collect();
                let registers = typed.iter().map(|&t| self.fresh(value::dtype(t).class())).collect::<Vec<_>>();
                self.variable_registers.extend(&registers);
                let kinds = vec![0; numbers.len()];
                Results { typed, registers, names, form, span, widened: false, kinds }
            }
        };
        for (k, n) in numbers.iter().enumerate() {
            let typed = join(results.typed[k], n.typed);
            if own {
                results.kinds[k] = self.mark_result(*n, results.kinds[k]);
            } else {
                let now = self.kinds(*n);
                let known = if results.kinds[k] == 0 { now } else { results.kinds[k] };
                results.kinds[k] = kinds::met([known, now].into_iter());
                self.mark(results.registers[k], typed, results.kinds[k]);
            }
            if value::dtype(typed).class() == self.routine.registers[results.registers[k] as usize] {
                let n = self.as_typed(*n, typed);
                self.write(results.registers[k], n.at);
            } else {
                results.widened = true;
            }
            results.typed[k] = typed;
        }
        match self.early.last_mut().expect("a frame is open") {
            Some(early) if !is_own => early.results = Some(results),
            _ => self.results = Some(results),
        }
        Ok(())
    }
}

/// The name of the variable that tells whether a parameter that the call does not give is still without a value of its
/// own, as `missing()` sees it.
pub(super) fn missing_flag(name: &str) -> String {
    format!("missing({name})")
}

/// Parameters in an order in which each default comes after those of the parameters that it reads.
fn in_order(mut rest: Vec<&(String, Option<Expr>)>) -> Compiled<Vec<&(String, Option<Expr>)>> {
    let reads = |default: &Option<Expr>, name: &str| match default {
        // A function reads variables when it is called.
        None | Some(Expr { form: Form::Function(_), .. }) => false,
        Some(default) => default.refers_to(name),
    };
    let mut ordered = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let ready = rest.iter().position(|(_, default)| !rest.iter().any(|(name, _)| reads(default, name)));
        let Some(ready) = ready else {
            let (name, default) = rest[0];
            return Err(Refusal::new(
                default.as_ref().map_or(0, |default| default.span),
                format!("the default of `{name}` reads `{name}` itself, or a parameter whose default reads it"),
                format!("Give {name} in the call, or another default."),
            ));
        };
        ordered.push(rest.remove(ready));
    }
    Ok(ordered)
}

/// Whether a value contains a closure over the variables of a frame.
fn sees(value: &Value, frame: usize) -> bool {
    match value {
        Value::Closure(_, parent) => *parent == Some(frame),
        Value::Parts(_, parts) => parts.iter().any(|(_, v)| sees(v, frame)),
        _ => false,
    }
}

/// A function's name in messages.
fn shown_name(lambda: &Lambda) -> String {
    match lambda.name.as_str() {
        "function" => "a function defined in another".into(),
        name => format!("`{name}`"),
    }
}
