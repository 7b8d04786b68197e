//! Analysis of code before it is compiled: which paths return, read an argument, warn or fail.

use super::Statement;
use crate::syntax::{Argument, Expr, Form};

/// Whether a block may warn or fail, and whether it draws.
pub(super) fn may_signal(block: &[Statement]) -> (bool, bool) {
    let mut found = (false, false);
    for statement in block {
        let (signals, draws) = match statement {
            Statement::Apply { op, class, .. } => (op.may_warn(*class), false),
            Statement::Position { .. } | Statement::Fail(_) => (true, false),
            Statement::Draw { .. } => (false, true),
            Statement::If { missing, then, otherwise, .. } => {
                let (a, b) = (may_signal(then), may_signal(otherwise));
                (missing.is_some() || a.0 || b.0, a.1 || b.1)
            }
            Statement::For { body, .. } => may_signal(body),
            // The loop may not terminate.
            Statement::Loop { body } => (true, may_signal(body).1),
            _ => (false, false),
        };
        found = (found.0 || signals, found.1 || draws);
    }
    found
}

/// Whether every path through an expression of a function reads the argument `wanted`.
/// `is_base` tells whether a name means a function of base R.
pub(super) fn surely_reads(is_base: &dyn Fn(&str) -> bool, expr: &Expr, wanted: &str) -> bool {
    let reads = |e: &Expr| surely_reads(is_base, e, wanted);
    match &expr.form {
        Form::Name(name) => name == wanted,
        Form::Call(function, args) => {
            let arg = |k: usize| args.get(k).and_then(|a| a.value.as_ref()).is_some_and(reads);
            let any = || args.iter().filter_map(|a| a.value.as_ref()).any(reads);
            match function.as_str() {
                "&&" | "||" | "while" | "ifelse" | "switch" => arg(0),
                "for" | "<-" | "=" => arg(1),
                "if" => arg(0) || arg(1) && arg(2),
                "function" | "missing" | "repeat" => false,
                "(" | "[" | "[[" | "return" => any(),
                "{" => {
                    for one in args.iter().filter_map(|a| a.value.as_ref()) {
                        if reads(one) {
                            return true;
                        }
                        if one.calls(&["return", "break", "next", "stop"], true) {
                            return false;
                        }
                    }
                    false
                }
                // A user's function may not read its arguments.
                name => is_base(name) && any(),
            }
        }
        _ => false,
    }
}

/// Whether every path through an expression ends in `return()`, or in `stop()` if `stops`: if it is base R's.
pub(super) fn always_returns(expr: &Expr, stops: bool) -> bool {
    let Form::Call(name, args) = &expr.form else { return false };
    let always = |e: &Expr| always_returns(e, stops);
    let ends = |k: usize| args.get(k).and_then(|a| a.value.as_ref()).is_some_and(always);
    match name.as_str() {
        "return" => true,
        "stop" => stops,
        "{" => args.iter().filter_map(|a| a.value.as_ref()).any(always),
        "(" => ends(0),
        "if" => ends(1) && ends(2),
        _ => false,
    }
}

/// Whether a `return()` is outside of tail position, so that `Compiler::tail` cannot compile it.
pub(super) fn returns_early(expr: &Expr, stops: bool) -> bool {
    let Form::Call(name, args) = &expr.form else { return false };
    let early = |e: &Expr| returns_early(e, stops);
    let always = |e: &Expr| always_returns(e, stops);
    let inside = |e: &Expr| e.calls(&["return"], true);
    let values = || args.iter().filter_map(|a| a.value.as_ref());
    match name.as_str() {
        "return" => values().any(inside),
        "{" => {
            let list: Vec<&Expr> = values().collect();
            list.iter().enumerate().any(|(k, e)| {
                let last = k + 1 == list.len();
                match &e.form {
                    _ if last => early(e),
                    Form::Call(n, _) if n == "return" => early(e),
                    Form::Call(n, branches) if n == "if" => {
                        let branch = |k: usize| branches.get(k).and_then(|b| b.value.as_ref());
                        let (then, otherwise) = (branch(1), branch(2));
                        let ends = |b: Option<&Expr>| b.is_some_and(always);
                        if !ends(then) && !ends(otherwise) {
                            return inside(e);
                        }
                        let bad = |b: Option<&Expr>| b.is_some_and(|b| if always(b) { early(b) } else { inside(b) });
                        branch(0).is_some_and(inside) || bad(then) || bad(otherwise)
                    }
                    _ => inside(e),
                }
            })
        }
        "(" => values().any(early),
        "if" => {
            let branch = |k: usize| args.get(k).and_then(|b| b.value.as_ref());
            branch(0).is_some_and(inside) || branch(1).is_some_and(early) || branch(2).is_some_and(early)
        }
        _ => values().any(inside),
    }
}

impl Expr {
    /// Whether the expression reads or calls a variable that it does not define itself as a parameter.
    pub(super) fn refers_to(&self, wanted: &str) -> bool {
        let among = |args: &[Argument]| args.iter().filter_map(|a| a.value.as_ref()).any(|a| a.refers_to(wanted));
        match &self.form {
            Form::Name(name) => name == wanted,
            Form::Call(name, args) => name == wanted || among(args),
            Form::CallOf(function, args) => function.refers_to(wanted) || among(args),
            Form::Function(lambda) => {
                let mut defaults = lambda.parameters.iter().filter_map(|(_, default)| default.as_ref());
                !lambda.parameters.iter().any(|(parameter, _)| parameter == wanted)
                    && (lambda.body.refers_to(wanted) || defaults.any(|default| default.refers_to(wanted)))
            }
            _ => false,
        }
    }

    /// Whether a name occurs in the expression, including nested functions.
    pub(super) fn mentions(&self, wanted: &str) -> bool {
        let among = |args: &[Argument]| args.iter().filter_map(|a| a.value.as_ref()).any(|a| a.mentions(wanted));
        match &self.form {
            Form::Name(name) => name == wanted,
            Form::Call(_, args) => among(args),
            Form::CallOf(function, args) => function.mentions(wanted) || among(args),
            Form::Function(lambda) => lambda.body.mentions(wanted),
            _ => false,
        }
    }
}
