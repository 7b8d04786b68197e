//! Calls: R's keywords, the supported functions of base R and stats, and the user's own functions.

use super::control::{all_given, nth};
use super::value::{self, Container, Number, Value};
use super::{Compiled, Compiler, Frame, Refusal, Span};
use crate::syntax::{Argument, Expr, Form, Meaning};
use verdigris_ops::dtype::Kind;
use verdigris_ops::{Group, OpId};

/// Arguments of a builtin, matched by name and position.
pub(super) struct Matched<'a> {
    function: String,
    span: Span,
    values: Vec<(&'a str, Option<&'a Expr>)>,
}

impl<'a> Matched<'a> {
    /// # Errors
    /// If an argument has a name that the function does not know, or there are too many arguments.
    pub(super) fn new(function: &str, names: &[&'a str], args: &'a [Argument], span: Span) -> Compiled<Matched<'a>> {
        let mut values: Vec<(&str, Option<&Expr>)> = names.iter().map(|n| (*n, None)).collect();
        let mut given = vec![false; names.len()];
        let refused = |what: String| {
            Err(Refusal::new(span, what, format!("Within a compiled function it takes: {}.", names.join(", "))))
        };
        let twice = |k: usize| refused(format!("argument \"{}\" of `{function}` is given more than once", names[k]));
        // As in R: exact names, then names that are the beginning of one other formal, then positions.
        let mut rest = Vec::new();
        for argument in args {
            match argument.name.as_deref().and_then(|name| names.iter().position(|n| *n == name)) {
                Some(k) if given[k] => return twice(k),
                Some(k) => (given[k], values[k].1) = (true, argument.value.as_ref()),
                None => rest.push(argument),
            }
        }
        let mut unnamed = Vec::new();
        for argument in rest {
            let Some(name) = argument.name.as_deref() else {
                unnamed.push(argument);
                continue;
            };
            let fits: Vec<usize> = (0..names.len()).filter(|&k| names[k].starts_with(name)).collect();
            match fits[..] {
                [k] if given[k] => return twice(k),
                [k] => (given[k], values[k].1) = (true, argument.value.as_ref()),
                _ => return refused(format!("unused argument ({name} = ) of `{function}`")),
            }
        }
        for argument in unnamed {
            let Some(k) = given.iter().position(|given| !given) else {
                return refused(format!("too many arguments for `{function}`"));
            };
            (given[k], values[k].1) = (true, argument.value.as_ref());
        }
        Ok(Matched { function: function.into(), span, values })
    }

    /// The arguments in the order of the formals, up to the last one that is given.
    fn in_order(self) -> Vec<Argument> {
        let last = self.values.iter().rposition(|(_, value)| value.is_some()).map_or(0, |k| k + 1);
        self.values[..last].iter().map(|(_, value)| Argument { name: None, value: value.cloned() }).collect()
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
                self.span,
                format!("argument \"{name}\" of `{}` is missing, with no default", self.function),
                "Write the call with all its arguments.",
            )
        })
    }

    /// A logical argument, which must be a literal.
    pub(super) fn flag(&self, c: &Compiler, name: &str, default: bool) -> Compiled<bool> {
        match self.expr(name) {
            None => Ok(default),
            Some(Expr { form: Form::Logical(Some(x)), .. }) => Ok(*x),
            Some(Expr { form: Form::Name(n), .. }) if matches!(n.as_str(), "T" | "F") && c.is_base(n) => Ok(n == "T"),
            Some(other) => Err(Refusal::new(
                other.span,
                format!("`{name}` of `{}` is computed", self.function),
                "Write TRUE or FALSE.",
            )),
        }
    }
}

/// The formals of functions whose code below takes arguments by their positions.
fn formals(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "match" => &["x", "table", "nomatch", "incomparables"],
        "%in%" => &["x", "table"],
        "crossprod" | "tcrossprod" => &["x", "y"],
        "vector" => &["mode", "length"],
        "numeric" | "double" | "integer" | "logical" => &["length"],
        "seq_len" => &["length.out"],
        "seq_along" => &["along.with"],
        "isTRUE" | "isFALSE" | "invisible" | "identity" | "factorial" | "t" | "length" | "nrow" | "ncol" | "NROW"
        | "NCOL" | "dim" | "is.numeric" | "is.double" | "is.integer" | "is.logical" | "is.complex" | "is.null"
        | "is.list" | "as.numeric" | "as.double" | "as.integer" | "as.logical" | "as.complex" => &["x"],
        _ => return None,
    })
}

/// Functions that cannot run in a kernel: the reason, and what to write instead.
fn unfit(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "nchar" | "substr" | "strsplit" | "toupper" | "grepl" | "sub" | "gsub" | "startsWith" | "is.character"
        | "as.character" => ("strings are not available in a kernel", "Use numbers in their place: 1, 2, 3."),
        "Recall" => {
            ("it calls the function itself", "Write the recursion as a loop; keep pending work in a local vector.")
        }
        "print" | "cat" | "message" | "format" | "sprintf" | "paste" | "paste0" | "warning" | "writeLines" => (
            "text and output are not available in a kernel",
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
        "solve" | "%o%" | "det" | "diag" => (
            "matrices of a thread are short vectors",
            "Write the loops out; products of large arrays are %*% outside of the function.",
        ),
        "sort" | "order" | "rank" | "quantile" | "median" => (
            "it works on a whole vector",
            "Write loops over the elements of a short vector; call it outside of the function for a long one.",
        ),
        "unique" | "table" | "head" | "tail" | "append" | "setdiff" | "union" => (
            "how long its result is depends on the values",
            "Write a loop over a vector of fixed length; or call it outside of the function.",
        ),
        "readline" | "readRDS" | "file" | "Sys.time" | "Sys.getenv" | "set.seed" | "library" | "require" => {
            ("it reaches outside of the function", "Do it before, and hand over what it gives as an argument.")
        }
        _ => return None,
    })
}

/// Syntax whose meaning `Compiler::call` does not look up.
const KEYWORDS: [&str; 18] = [
    "{", "(", "if", "for", "while", "repeat", "break", "next", "return", "function", "<-", "=", "<<-", "&&", "||", "[",
    "[[", "$",
];

impl Compiler<'_> {
    /// Whether a name means the object of that name in base R, here: no function around assigns it.
    pub(super) fn is_base(&self, name: &str) -> bool {
        let mut frame = Some(self.frames.len() - 1);
        let mut scope = 0;
        while let Some(k) = frame {
            let Frame { lambda, parent, .. } = &self.frames[k];
            let is_parameter = lambda.parameters.iter().any(|(parameter, _)| parameter == name);
            if is_parameter || self.variables[k].contains_key(name) || lambda.body.assigned_at(name).is_some() {
                return false;
            }
            (scope, frame) = (lambda.scope, *parent);
        }
        matches!(self.scope.meaning(scope, &[name.to_string()], true), Some(Meaning::Builtin(base)) if base == name)
    }

    /// Whether a name is a keyword that is a local function, or that has been given another meaning outside.
    pub(super) fn is_redefined(&self, keyword: &str) -> bool {
        if !KEYWORDS.contains(&keyword) {
            return false;
        }
        let mut frame = Some(self.frames.len() - 1);
        let mut scope = 0;
        while let Some(k) = frame {
            if self.variables[k].contains_key(keyword) {
                return true;
            }
            (scope, frame) = (self.frames[k].lambda.scope, self.frames[k].parent);
        }
        self.scope.meaning(scope, &[keyword.to_string()], true).is_some()
    }

    /// The value of a call.
    pub(super) fn call(&mut self, expr: &Expr, name: &str, args: &[Argument]) -> Compiled<Value> {
        let span = expr.span;
        if self.is_redefined(name) {
            return Err(Refusal::new(
                span,
                format!("`{name}` is a function of yours"),
                "Call it by another name: compiled functions take R's own syntax as it is.",
            ));
        }
        match name {
            "{" => return self.braces(args),
            "(" => return self.expr(nth(args, 0, span, "(")?),
            "if" => return self.if_else(args, span, |c, way| c.expr(way)),
            "for" => return self.for_loop(args, span),
            "while" => return self.while_loop(args, span),
            "repeat" => return self.repeat(nth(args, 0, span, "repeat")?, span),
            "break" => return self.break_loop(span, false),
            "next" => return self.break_loop(span, true),
            "return" => return self.return_early(args, span),
            "&&" => return self.short_circuit(args, span, true),
            "||" => return self.short_circuit(args, span, false),
            "<-" | "=" => return self.assignment(args, span),
            "<<-" => {
                return Err(Refusal::new(
                    span,
                    "`<<-` changes a variable outside of the function",
                    "Give the value as the function's result: each thread has variables of its own.",
                ))
            }
            "[" | "[[" | "$" => return self.subset(name, args, span),
            _ => {}
        }
        // The name may be a local variable that holds a function.
        let mut frame = Some(self.frames.len() - 1);
        let mut scope = self.frames[self.frames.len() - 1].lambda.scope;
        while let Some(k) = frame {
            if let Some(Value::Closure(lambda, parent)) = self.variables[k].get(name).cloned() {
                return self.inline(&lambda, parent, args, span);
            }
            scope = self.frames[k].lambda.scope;
            frame = self.frames[k].parent;
        }
        match self.scope.meaning(scope, &[name.to_string()], true) {
            Some(Meaning::Builtin(builtin)) => self.builtin(&builtin, args, span),
            Some(Meaning::Closure(lambda)) => self.inline(&lambda, None, args, span),
            Some(Meaning::Other(what)) => Err(Refusal::new(
                span,
                format!("`{name}` is {what}"),
                "Call functions of yours that are written in R, or those that ?gpu_compile lists.",
            )),
            _ => Err(Refusal::new(
                span,
                format!("could not find function \"{name}\""),
                "Define it before, or correct its name.",
            )),
        }
    }

    fn assignment(&mut self, args: &[Argument], span: Span) -> Compiled<Value> {
        let target = nth(args, 0, span, "<-")?;
        let value = nth(args, 1, span, "<-")?;
        match &target.form {
            Form::Name(name) | Form::Text(name) => {
                let new = self.expr(value)?;
                if !self.reachable {
                    return Ok(Value::Null);
                }
                match new {
                    Value::Unset(why, at) => {
                        return Err(Refusal::new(
                            value.span,
                            format!("`{name}` may get no value: {why}"),
                            value::remedy(&why),
                        )
                        .and("no value comes from here", at))
                    }
                    Value::Text(_) => {
                        return Err(Refusal::new(
                            value.span,
                            "a string is assigned",
                            "Use numbers in its place: 1, 2, 3.",
                        ))
                    }
                    new => self.assign(name, new, span)?,
                }
                let frame = self.frames.len() - 1;
                Ok(self.variables[frame][name].clone())
            }
            Form::Call(form, _) if matches!(form.as_str(), "[" | "[[" | "$") => self.assign_part(target, value, span),
            _ => Err(Refusal::new(
                target.span,
                "an assignment to a call",
                "Assign to names and to elements: x <- ..., x[i] <- ....",
            )),
        }
    }

    /// A call of a function of base R or stats.
    fn builtin(&mut self, name: &str, args: &[Argument], span: Span) -> Compiled<Value> {
        let ordered;
        let args = match formals(name) {
            Some(names) => {
                ordered = Matched::new(name, names, args, span)?.in_order();
                &ordered[..]
            }
            None => args,
        };
        if let Some(n) = self.random(name, args, span)? {
            return Ok(Value::Number(n));
        }
        if let Some(value) = self.special(name, args, span)? {
            return Ok(value);
        }
        if let Some((why, instead)) = unfit(name) {
            return Err(Refusal::new(span, format!("`{name}()` cannot be compiled: {why}"), instead));
        }
        self.row(name, args, span)
    }

    /// An operation of the table, found by its R name and its number of operands.
    fn row(&mut self, name: &str, args: &[Argument], span: Span) -> Compiled<Value> {
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
            true => all_given(args, span)?,
            false => {
                let matched = Matched::new(name, names, args, span)?;
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
            return Err(Refusal::new(span, message, remedy));
        };
        let values = self.operands(&ordered)?;
        if !self.reachable {
            return Ok(Value::Null);
        }
        if !name.starts_with("bitw") {
            return self.row_on(op, values, span);
        }
        for value in &values {
            self.refuse_logical(value, name, span)?;
        }
        // Names are dropped.
        let value = self.row_on(op, values, span)?;
        self.unnamed(value, span)
    }

    /// R's `bitwAnd()` and its like take no logicals.
    fn refuse_logical(&mut self, value: &Value, name: &str, span: Span) -> Compiled<()> {
        if let Value::Number(n) = value {
            self.needs_known_logical(*n);
        }
        let typed = match value {
            Value::Number(n) => n.typed,
            Value::Vector(v) => v.typed(),
            Value::Parts(Container::Named, parts) => match value::typed_of(parts) {
                Some(typed) => typed,
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        match value::dtype(typed).kind() {
            Kind::Logical => Err(Refusal::new(
                span,
                format!("unimplemented type 'logical' in '{name}'"),
                "Convert it: as.integer().",
            )),
            _ => Ok(()),
        }
    }

    /// The values of operands. If a later operand assigns a variable, earlier ones are copied first.
    pub(super) fn operands(&mut self, exprs: &[&Expr]) -> Compiled<Vec<Value>> {
        let mut values = Vec::with_capacity(exprs.len());
        for (k, expr) in exprs.iter().enumerate() {
            let value = self.expr(expr)?;
            if matches!(value, Value::Unset(..)) {
                let Value::Unset(why, at) = value else { unreachable!("it was looked at") };
                let remedy = value::remedy(&why);
                return Err(Refusal::new(at, why, remedy));
            }
            let changes = exprs[k + 1..].iter().any(|e| e.assigns());
            values.push(if changes { self.frozen_value(value) } else { value });
        }
        Ok(values)
    }

    /// Applies a row of the operation table to numbers, or to vectors element by element.
    pub(super) fn row_on(&mut self, op: OpId, values: Vec<Value>, span: Span) -> Compiled<Value> {
        let names: Vec<Vec<Option<String>>> = values.iter().filter_map(names_of).collect();
        let values = values.into_iter().map(|v| self.unnamed(v, span)).collect::<Compiled<Vec<Value>>>()?;
        if values.iter().any(|v| matches!(v, Value::Vector(_))) {
            let value = self.map(op, values, span)?;
            return self.with_names(value, names, span);
        }
        let mut numbers = Vec::with_capacity(values.len());
        for value in values {
            numbers.push(match value {
                Value::Text(_) => {
                    return Err(Refusal::new(span, "a string is an operand", "Use numbers in its place: 1, 2, 3."))
                }
                other => self.as_number(other, span)?,
            });
        }
        Ok(Value::Number(self.apply(op, &numbers, span)?))
    }

    /// The vector without its names.
    pub(super) fn unnamed(&mut self, value: Value, span: Span) -> Compiled<Value> {
        match value {
            Value::Parts(Container::Named, parts) => self.combined(parts, span),
            other => Ok(other),
        }
    }

    /// The value of an elementwise operation, with the first of the operands' names that are as many as its elements.
    pub(super) fn with_names(&mut self, value: Value, names: Vec<Vec<Option<String>>>, span: Span) -> Compiled<Value> {
        let Value::Vector(v) = &value else { return Ok(value) };
        let fits = |names: &Vec<Option<String>>| v.fixed() == Some(names.len()) && v.dim().is_none();
        let Some(names) = names.into_iter().find(fits) else { return Ok(value) };
        let mut parts = Vec::with_capacity(names.len());
        for (k, name) in names.into_iter().enumerate() {
            let element = self.element(v, Number::integer(k as i32).at, span)?;
            parts.push((name, Value::Number(self.as_typed(element, v.typed()))));
        }
        Ok(Value::Parts(Container::Named, parts))
    }

    /// Functions with rules of their own. None if `name` is none of them.
    fn special(&mut self, name: &str, args: &[Argument], span: Span) -> Compiled<Option<Value>> {
        for way in [Self::made, Self::folded, Self::chosen, Self::multiplied] {
            if let Some(value) = way(self, name, args, span)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

/// The names of a vector with names.
pub(super) fn names_of(value: &Value) -> Option<Vec<Option<String>>> {
    match value {
        Value::Parts(Container::Named, parts) => Some(parts.iter().map(|(name, _)| name.clone()).collect()),
        _ => None,
    }
}
