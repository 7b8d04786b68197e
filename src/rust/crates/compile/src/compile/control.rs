//! Control flow: blocks, conditions and loops.

use std::collections::HashMap;

use super::value::{self, join, Number, Parts, Value, Vector};
use super::{Block, Compiled, Compiler, LoopContext, Operand, Refusal, Span, Statement, Variables};
use crate::syntax::{Argument, Expr, Form};
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::id;
use verdigris_ops::rule::Typed;
use verdigris_ops::scalar::Scalar;

/// The expression of argument `k` (from 0).
pub(super) fn nth<'a>(args: &'a [Argument], k: usize, span: Span, name: &str) -> Compiled<&'a Expr> {
    args.get(k).and_then(|a| a.value.as_ref()).ok_or_else(|| {
        Refusal::new(span, format!("`{name}` lacks an argument"), "Write the call with all its arguments.")
    })
}

/// The expressions of the arguments, of which none may be empty.
pub(super) fn all_given(args: &[Argument], span: Span) -> Compiled<Vec<&Expr>> {
    let empty = |k| Refusal::new(span, format!("argument {k} is empty"), "Write it, or leave its comma out.");
    args.iter().zip(1..).map(|(a, k)| a.value.as_ref().ok_or_else(|| empty(k))).collect()
}

impl Compiler<'_> {
    /// `{ ... }`: the value of its last expression.
    pub(super) fn braces(&mut self, args: &[Argument]) -> Compiled<Value> {
        let mut value = Value::Null;
        for argument in args {
            if let Some(expr) = &argument.value {
                value = self.expr(expr)?;
            }
        }
        Ok(value)
    }

    /// A condition, and the failure that NA raises.
    pub(super) fn condition(&mut self, expr: &Expr) -> Compiled<(Number, super::FailureId)> {
        let n = self.number(expr)?;
        let message = match n.kind() {
            Kind::Logical => "missing value where TRUE/FALSE needed",
            _ => "argument is not interpretable as logical",
        };
        let n = self.cast(n, DType::Bool8);
        let missing = self.failure(expr.span, message);
        Ok((n, missing))
    }

    /// `if (test) a else b`. The closures `a` and `b` emit the branches and return their values. Returns the merged
    /// value.
    pub(super) fn branch(
        &mut self,
        test: Number,
        missing: Option<super::FailureId>,
        span: Span,
        a: &mut dyn FnMut(&mut Self) -> Compiled<Value>,
        b: &mut dyn FnMut(&mut Self) -> Compiled<Value>,
    ) -> Compiled<Value> {
        if !self.reachable {
            return Ok(Value::Null);
        }
        // A constant test takes one branch.
        match test.constant() {
            Some(Scalar::I32(0)) => return b(self),
            Some(Scalar::I32(verdigris_ops::scalar::NA_I32)) if missing.is_none() => return b(self),
            Some(Scalar::I32(x)) if x != verdigris_ops::scalar::NA_I32 => return a(self),
            _ => {}
        }
        let before = self.variables.clone();
        let (mut then, x) = self.within(|c| a(c))?;
        let (then_reached, then_vars) = (self.reachable, std::mem::replace(&mut self.variables, before));
        self.reachable = true;
        let (mut otherwise, y) = self.within(|c| b(c))?;
        let (else_reached, else_vars) = (self.reachable, std::mem::take(&mut self.variables));
        self.reachable = true;
        let why = "it is assigned in one branch of an `if` only";
        let value = match (then_reached, else_reached) {
            (true, true) => {
                let value = match (&x, &y) {
                    (Value::Null, _) | (_, Value::Null) if x != y => {
                        Value::Unset("an `if` without `else` gives no value where its condition is FALSE".into(), span)
                    }
                    _ => self.meet(None, vec![x, y], &mut [&mut then, &mut otherwise], span)?,
                };
                self.merge(&mut [(&mut then, then_vars), (&mut otherwise, else_vars)], span, why)?;
                value
            }
            (true, false) => {
                self.variables = then_vars;
                x
            }
            (false, true) => {
                self.variables = else_vars;
                y
            }
            (false, false) => {
                self.variables = then_vars;
                Value::Null
            }
        };
        self.emit(Statement::If { value: test.at, missing, then, otherwise });
        self.reachable = then_reached || else_reached;
        Ok(value)
    }

    /// `if`, as a statement and as a value. `way` compiles a branch: `tail()` if the `if` ends the function, else
    /// `expr()`.
    pub(super) fn if_else(
        &mut self,
        args: &[Argument],
        span: Span,
        way: fn(&mut Self, &Expr) -> Compiled<Value>,
    ) -> Compiled<Value> {
        let test = nth(args, 0, span, "if")?;
        let then = nth(args, 1, span, "if")?;
        let otherwise = args.get(2).and_then(|a| a.value.as_ref());
        let (test, missing) = self.condition(test)?;
        self.branch(test, Some(missing), span, &mut |c| way(c, then), &mut |c| match otherwise {
            Some(otherwise) => way(c, otherwise),
            None => Ok(Value::Null),
        })
    }

    /// `a && b`, `a || b`: b is evaluated only if a does not decide.
    pub(super) fn short_circuit(&mut self, args: &[Argument], span: Span, is_and: bool) -> Compiled<Value> {
        let name = if is_and { "&&" } else { "||" };
        let a = nth(args, 0, span, name)?;
        let b = nth(args, 1, span, name)?;
        let x = self.number(a)?;
        if !self.reachable {
            return Ok(Value::Null);
        }
        let x = self.cast(x, DType::Bool8);
        let x = if b.assigns() { self.frozen(x) } else { x };
        let op = if is_and { id::AND } else { id::OR };
        match (x.constant(), is_and) {
            (Some(Scalar::I32(0)), true) => return Ok(Value::Number(Number::logical(Some(false)))),
            (Some(Scalar::I32(1)), false) => return Ok(Value::Number(Number::logical(Some(true)))),
            _ => {}
        }
        let before = self.variables.clone();
        let (mut block, y) = self.within(|c| {
            let y = c.number(b)?;
            Ok(c.cast(y, DType::Bool8))
        })?;
        // A short right operand that cannot warn is evaluated unconditionally.
        const SHORT: usize = 6;
        let quiet = |s: &Statement| match s {
            Statement::Apply { op, class, .. } => !op.may_warn(*class),
            Statement::Move { .. } => true,
            _ => false,
        };
        if block.len() <= SHORT && block.iter().all(quiet) && !b.assigns() {
            self.block.append(&mut block);
            return Ok(Value::Number(self.apply(op, &[x, y], span)?));
        }
        let decided = Number::logical(Some(!is_and));
        // For `&&`, FALSE decides: `!a` is then TRUE, and it is NA if a is NA.
        let reached = std::mem::replace(&mut self.reachable, true);
        let decides = if is_and { self.apply(id::NOT, &[x], span)? } else { x };
        if !reached {
            // `a && return(b)` goes on only if `a` decides.
            self.variables = before;
            self.emit(Statement::If { value: decides.at, missing: None, then: vec![], otherwise: block });
            return Ok(Value::Number(decided));
        }
        let after = std::mem::replace(&mut self.variables, before.clone());
        let to = self.fresh(Class::I32);
        self.at_end_of(&mut block, |c| {
            let both = c.apply(op, &[x, y], span)?;
            c.write(to, both.at);
            Ok(())
        })?;
        let mut short = vec![Statement::Move { to, from: decided.at }];
        let why = format!("it is assigned on the right of `{name}`, which is not always reached");
        self.merge(&mut [(&mut short, before), (&mut block, after)], span, &why)?;
        self.emit(Statement::If { value: decides.at, missing: None, then: short, otherwise: block });
        Ok(Value::Number(Number::register(to, Typed::Value(Kind::Logical))))
    }

    // ---- loops --------------------------------------------------------------------------------------

    /// Emits a loop. `head` emits the start of each iteration (it may leave the loop), `body` is R's loop body, and
    /// `make` builds the statement from the block. Returns the variables at the end of an iteration, None if that end
    /// is not reached. The loop is compiled again while a variable is wider at the end of an iteration than at its
    /// beginning.
    fn turns(
        &mut self,
        assigned: &[String],
        span: Span,
        endless: bool,
        head: &mut dyn FnMut(&mut Self) -> Compiled<()>,
        body: &Expr,
        make: &mut dyn FnMut(Block) -> Statement,
    ) -> Compiled<Option<Variables>> {
        let before = self.variables.clone();
        let written = self.block.len();
        let statements = self.statements;
        let mut wider: HashMap<(usize, String), Typed> = HashMap::new();
        loop {
            self.variables = before.clone();
            self.block.truncate(written);
            self.statements = statements;
            self.widen_at_head(assigned, &wider, span)?;
            self.loops.push(LoopContext {
                head: self.variables.clone(),
                breaks: Vec::new(),
                wider: HashMap::new(),
                returned: false,
            });
            let (block, end) = self.within(|c| {
                head(c)?;
                c.expr(body)?;
                if !c.reachable {
                    return Ok(None);
                }
                let end = c.variables.clone();
                c.back_to_head(span)?;
                Ok(Some(end))
            })?;
            let context = self.loops.pop().expect("it was pushed");
            if !context.wider.is_empty() {
                for (name, typed) in context.wider {
                    let entry = wider.entry(name).or_insert(typed);
                    *entry = join(*entry, typed);
                }
                self.reachable = true;
                continue;
            }
            self.reachable = true;
            self.emit(make(block));
            self.reachable = !endless || !context.breaks.is_empty();
            self.variables = self.after_loop(context.head, context.breaks, endless, span);
            if context.returned {
                self.left_early();
            }
            return Ok(end);
        }
    }

    /// The variables behind a loop. Variables that existed before the loop are in their registers of the loop's head.
    /// Variables that the body introduced have a value only if every exit has assigned it.
    fn after_loop(&self, head: Variables, breaks: Vec<Variables>, endless: bool, span: Span) -> Variables {
        let mut after = head.clone();
        for (frame, variables) in after.iter_mut().enumerate() {
            let mut names: Vec<&String> = breaks.iter().filter_map(|b| b.get(frame)).flat_map(|b| b.keys()).collect();
            names.sort();
            names.dedup();
            for name in names.into_iter().filter(|n| !head[frame].contains_key(*n)) {
                let values: Vec<Option<&Value>> = breaks.iter().map(|b| b[frame].get(name)).collect();
                let same = values.iter().all(|v| v.is_some() && *v == values[0]);
                let value = match values[0] {
                    Some(value) if same && endless => value.clone(),
                    _ => Value::Unset("it is assigned within a loop, which may end before".into(), span),
                };
                variables.insert(name.clone(), value);
            }
        }
        after
    }

    pub(super) fn break_loop(&mut self, span: Span, next: bool) -> Compiled<Value> {
        let open = self.early.last().and_then(|e| e.as_ref()).map_or(0, |e| e.loops);
        if self.loops.len() <= open {
            return Err(Refusal::new(
                span,
                format!("`{}` is outside of a loop", if next { "next" } else { "break" }),
                "Use it within for, while or repeat; leave a function by return().",
            ));
        }
        self.back_to_head(span)?;
        if next {
            self.emit(Statement::Next);
        } else {
            let variables = self.variables.clone();
            self.loops.last_mut().expect("a loop is open").breaks.push(variables);
            self.emit(Statement::Break);
        }
        self.reachable = false;
        Ok(Value::Null)
    }

    pub(super) fn repeat(&mut self, body: &Expr, span: Span) -> Compiled<Value> {
        let assigned = names(&[body]);
        self.turns(&assigned, span, true, &mut |_| Ok(()), body, &mut |body| Statement::Loop { body })?;
        Ok(Value::Null)
    }

    pub(super) fn while_loop(&mut self, args: &[Argument], span: Span) -> Compiled<Value> {
        let test = nth(args, 0, span, "while")?;
        let body = nth(args, 1, span, "while")?;
        if matches!(test.form, Form::Logical(Some(true))) {
            return self.repeat(body, span);
        }
        let assigned = names(&[test, body]);
        let mut head = |c: &mut Self| {
            let (value, missing) = c.condition(test)?;
            // Variables that the test assigns keep their values behind the loop.
            let (leave, ()) = c.within(|c| c.back_to_head(span))?;
            let otherwise = leave.into_iter().chain([Statement::Break]).collect();
            c.emit(Statement::If { value: value.at, missing: Some(missing), then: Block::new(), otherwise });
            Ok(())
        };
        self.turns(&assigned, span, false, &mut head, body, &mut |body| Statement::Loop { body })?;
        Ok(Value::Null)
    }

    pub(super) fn for_loop(&mut self, args: &[Argument], span: Span) -> Compiled<Value> {
        let variable = nth(args, 0, span, "for")?;
        let sequence = nth(args, 1, span, "for")?;
        let body = nth(args, 2, span, "for")?;
        let Form::Name(name) = &variable.form else {
            return Err(Refusal::new(variable.span, "a loop's variable is a name", "Write for (i in ...)."));
        };
        let over = self.expr(sequence)?;
        if !self.reachable {
            return Ok(Value::Null);
        }
        let over = match over {
            Value::Number(n) => self.single(n),
            value @ Value::Vector(_) => {
                // The body may change the vector that the loop walks over.
                let Value::Vector(v) = self.frozen_value(value) else { unreachable!("a frozen vector is one") };
                v
            }
            // In a list each element has a type of its own, and may be a vector, which is one element.
            Value::Parts(_, parts) if of_one_type(&parts) => {
                for (_, part) in &parts {
                    if let Value::Number(n) = part {
                        self.needs_one_kind(*n);
                    }
                }
                let numbers = self.combined(parts, sequence.span)?;
                let Value::Vector(v) = self.frozen_value(numbers) else { unreachable!("it is a vector") };
                v
            }
            other => {
                return Err(Refusal::new(
                    sequence.span,
                    format!("a loop over {}", other.what()),
                    "Loop over a:b, seq_len(n), seq_along(x) or a vector of numbers.",
                ))
            }
        };
        let (walked, keep) = match &*over {
            Vector::Where { of, keep, .. } => (of.clone(), Some(keep.clone())),
            _ => (over.clone(), None),
        };
        let times = self.times(&walked);
        let counter = self.fresh(Class::I32);
        let assigned = names(&[body]);
        let mut head = |c: &mut Self| {
            let index = Operand::Register(counter);
            if let Some(keep) = &keep {
                // Elements that the mask drops are skipped.
                let test = c.element(keep, index, sequence.span)?;
                let test = c.cast(test, DType::Bool8);
                let not = c.apply(id::NOT, &[test], sequence.span)?;
                let then = vec![Statement::Next];
                c.emit(Statement::If { value: not.at, missing: None, then, otherwise: vec![] });
            }
            let element = c.element(&walked, index, sequence.span)?;
            c.assign(name, Value::Number(element), span)
        };
        let sure = keep.is_none() && matches!(times, Operand::Constant(Scalar::I32(n)) if n > 0);
        let before = self.variables.clone();
        let frame = self.frames.len() - 1;
        let assigned: Vec<String> = assigned.into_iter().chain([name.clone()]).collect();
        let end =
            self.turns(&assigned, span, false, &mut head, body, &mut |body| Statement::For { counter, times, body })?;
        // Variables that every iteration assigns have a value if the loop certainly runs.
        if let (true, false, Some(mut end)) = (sure, body.calls(&["break", "next"], true), end) {
            for (name, value) in std::mem::take(&mut end[frame]) {
                if !before[frame].contains_key(&name) {
                    self.variables[frame].insert(name, value);
                }
            }
        }
        // The loop variable keeps its last value. If the loop may not run, it has none.
        if !before[frame].contains_key(name) {
            let value = match sure {
                true => {
                    let last = self.element(&over, last_index(times), span)?;
                    match body.assigned_names().contains(name) {
                        false => Value::Number(last),
                        true => Value::Unset("it is a loop's variable that the loop changes".into(), span),
                    }
                }
                false => Value::Unset("it is a loop's variable, and the loop may not run".into(), span),
            };
            let broken = body.calls(&["break", "return"], true);
            let value = if broken && sure {
                Value::Unset("it is a loop's variable, and the loop may be left early".into(), span)
            } else {
                value
            };
            self.variables[frame].insert(name.clone(), value);
        }
        Ok(Value::Null)
    }

    /// The number of iterations of a loop over a vector (I32).
    pub(super) fn times(&mut self, over: &Vector) -> Operand {
        self.count_to_int(over.length()).at
    }
}

/// Whether all parts are numbers of one type.
fn of_one_type(parts: &Parts) -> bool {
    let own = value::typed_of(parts).map(value::dtype);
    parts.iter().all(|(_, part)| own.is_some() && part.number_typed().map(value::dtype) == own)
}

fn last_index(times: Operand) -> Operand {
    match times {
        Operand::Constant(Scalar::I32(n)) => Number::integer(n - 1).at,
        other => other,
    }
}

/// The names that some expressions assign, sorted and without duplicates.
fn names(within: &[&Expr]) -> Vec<String> {
    let mut out: Vec<String> = within.iter().flat_map(|e| e.assigned_names()).collect();
    out.sort();
    out.dedup();
    out
}

impl Expr {
    fn assigned_names(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.assigned(&mut |name, _| out.push(name.to_string()));
        out
    }
}
