//! Entries: R functions compiled to kernels. Converts R's parse trees, resolves the variables that functions capture,
//! compiles and calls.
//!
//! `surroundings()` in `R/kernel-compile.R` has collected the variables that a function may need, so nothing here runs
//! R code.

use std::rc::Rc;

use verdigris_compile::compile::{compile, ArgumentType, Bounds, Output, Request};
use verdigris_compile::grad::{gradient, Target};
use verdigris_compile::syntax::{Argument, Expr, Form, Lambda, Meaning, Refusal, Scope, Span, TableType};
use verdigris_compile::Routine;
use verdigris_engine::array::function_call::{self, Given};
use verdigris_engine::array::Operand;
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::Kind;
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::rule::Typed;
use verdigris_ops::scalar::Scalar;

use crate::array::{attributes, convert, handle};
use crate::entries::entry::entries;
use crate::entries::module::{pointed, pointer, Pointed};
use crate::entries::random::Key;
use crate::r::typed::{FromR, IntoR};
use crate::r::{self, call_site, values, List, SEXP, SEXPTYPE};

/// A function compiled for certain argument types.
struct Variant {
    routine: &'static Routine,
    arguments: Vec<Option<ArgumentType>>,
    captured: Vec<ArgumentType>,
    /// Lengths that a gradient is compiled for: (index among arguments and captured values, length).
    sizes: Vec<(usize, usize)>,
}

impl Pointed for Variant {
    fn tag() -> SEXP {
        r::known_symbol!(c"verdigris_routine")
    }
}

impl FromR for &Variant {
    fn from_r(x: SEXP, _: &'static str) -> Result<Self> {
        pointed(x)
    }
}

impl IntoR for Variant {
    fn into_r(self) -> SEXP {
        pointer(self)
    }
}

// ---- trees ------------------------------------------------------------------------------------------------

/// Converts R's language objects to syntax trees, and numbers the expressions (spans).
struct Reader {
    /// The line of each span, from the function's first.
    lines: Vec<Option<u32>>,
    lambdas: u32,
    /// The function's first line in its file; the current line within the function. `None` without srcrefs.
    first: Option<u32>,
    line: Option<u32>,
}

impl Reader {
    fn expr(&mut self, x: SEXP, scope: u32) -> Expr {
        let span = self.lines.len() as Span;
        self.lines.push(self.line);
        let form = match r::kind_of(x) {
            SEXPTYPE::NILSXP => Form::Null,
            SEXPTYPE::SYMSXP => Form::Name(symbol_name(x)),
            SEXPTYPE::LANGSXP => self.call(x, scope),
            SEXPTYPE::STRSXP if r::len(x) == 1 => Form::Text(text(x, 0)),
            _ => match values::scalar(x) {
                Some((s, Kind::Logical)) => Form::Logical(integer(s).map(|k| k != 0)),
                Some((s, Kind::Integer)) => Form::Integer(integer(s).unwrap_or(i32::MIN)),
                Some((Scalar::F64(x), Kind::Double)) => Form::Double(x),
                Some((Scalar::C128(z), _)) => Form::Complex(z),
                _ => Form::Other(values::describe(x)),
            },
        };
        Expr { span, form }
    }

    fn call(&mut self, x: SEXP, scope: u32) -> Form {
        // SAFETY: a call is a pairlist; srcref is an attribute of its own.
        let (function, rest) = unsafe { (r::CAR(x), r::CDR(x)) };
        let name = (r::kind_of(function) == SEXPTYPE::SYMSXP).then(|| symbol_name(function));
        if name.as_deref() == Some("function") {
            return Form::Function(Rc::new(self.inner_function(rest, scope)));
        }
        let lines = if name.as_deref() == Some("{") { self.lines(x) } else { Vec::new() };
        let outer = self.line;
        let mut args = Vec::new();
        for (k, (tag, value)) in pairs(rest).into_iter().enumerate() {
            // the first srcref is that of the brace
            if let Some(line) = lines.get(k + 1) {
                self.line = Some(*line);
            }
            let value = (!is_missing(value)).then(|| self.expr(value, scope));
            args.push(Argument { name: tag, value });
        }
        self.line = outer;
        match name {
            Some(name) => Form::Call(name, args),
            None => Form::CallOf(Box::new(self.expr(function, scope)), args),
        }
    }

    fn inner_function(&mut self, rest: SEXP, scope: u32) -> Lambda {
        // SAFETY: a call of `function` has formals and a body.
        let (formals, body) = unsafe { (r::CAR(rest), r::CAR(r::CDR(rest))) };
        let parameters = self.parameters(pairs(formals), scope);
        let body = self.expr(body, scope);
        self.lambdas += 1;
        Lambda { scope, id: self.lambdas + (1 << 20), name: "function".into(), parameters, body }
    }

    fn parameters(&mut self, formals: Vec<(Option<String>, SEXP)>, scope: u32) -> Vec<(String, Option<Expr>)> {
        formals
            .into_iter()
            .map(|(name, value)| (name.unwrap_or_default(), (!is_missing(value)).then(|| self.expr(value, scope))))
            .collect()
    }

    /// The lines of a brace's expressions, counted from the function's first.
    fn lines(&self, x: SEXP) -> Vec<u32> {
        let Some(first) = self.first else { return Vec::new() };
        // SAFETY: reads an attribute, a list of integer vectors.
        unsafe {
            let refs = r::Rf_getAttrib(x, r::known_symbol!(c"srcref"));
            if r::kind_of(refs) != SEXPTYPE::VECSXP {
                return Vec::new();
            }
            (0..r::len(refs) as isize)
                .map(|k| r::VECTOR_ELT(refs, k))
                .map(|one| {
                    if r::kind_of(one) == SEXPTYPE::INTSXP && r::len(one) > 0 {
                        r::INTEGER_ELT(one, 0) as u32
                    } else {
                        first
                    }
                })
                .map(|line| (line + 1).saturating_sub(first).max(1))
                .collect()
        }
    }
}

/// A limit on the calls visited: code that shares subexpressions may have very many.
const MOST_CALLS: usize = 1 << 20;

/// The nesting depth of calls in code or a pairlist of code; infinite beyond `MOST_CALLS`. Computed without recursion,
/// since it decides whether the stack suffices for recursion.
fn depth(code: SEXP) -> f64 {
    let (mut deepest, mut calls) = (0, 0);
    let mut pending = vec![(code, 0u32)];
    while let Some((x, level)) = pending.pop() {
        deepest = deepest.max(level);
        calls += 1;
        if calls > MOST_CALLS {
            return f64::INFINITY;
        }
        let nested = |x: SEXP| matches!(r::kind_of(x), SEXPTYPE::LANGSXP | SEXPTYPE::LISTSXP);
        let mut at = x;
        while nested(at) {
            // SAFETY: a cell of a pairlist.
            let value = unsafe { r::CAR(at) };
            if nested(value) {
                pending.push((value, level + 1));
            }
            // SAFETY: as above.
            at = unsafe { r::CDR(at) };
        }
    }
    deepest.into()
}

fn integer(scalar: Scalar) -> Option<i32> {
    match scalar {
        Scalar::I32(i32::MIN) => None,
        Scalar::I32(x) => Some(x),
        _ => None,
    }
}

fn symbol_name(x: SEXP) -> String {
    // SAFETY: a symbol's name is a CHARSXP.
    unsafe { String::from_utf8_lossy(r::chars(r::PRINTNAME(x))).into_owned() }
}

fn text(x: SEXP, k: isize) -> String {
    // SAFETY: a character vector, read within its length.
    unsafe { String::from_utf8_lossy(r::chars(r::STRING_ELT(x, k))).into_owned() }
}

fn is_missing(x: SEXP) -> bool {
    // SAFETY: a constant of R's.
    x == unsafe { r::R_MissingArg }
}

/// Tags and values of a pairlist.
fn pairs(list: SEXP) -> Vec<(Option<String>, SEXP)> {
    let mut out = Vec::new();
    let mut at = list;
    while !r::is_null(at) && matches!(r::kind_of(at), SEXPTYPE::LISTSXP | SEXPTYPE::LANGSXP) {
        // SAFETY: a cell of a pairlist.
        unsafe {
            let tag = r::TAG(at);
            out.push(((!r::is_null(tag)).then(|| symbol_name(tag)), r::CAR(at)));
            at = r::CDR(at);
        }
    }
    out
}

// ---- surroundings -----------------------------------------------------------------------------------------

/// The list element of this name.
fn element(list: SEXP, name: &str) -> Option<SEXP> {
    if r::kind_of(list) != SEXPTYPE::VECSXP {
        return None;
    }
    // SAFETY: names are a character vector of the list's length, or NULL.
    unsafe {
        let names = r::Rf_getAttrib(list, r::R_NamesSymbol);
        if r::kind_of(names) != SEXPTYPE::STRSXP {
            return None;
        }
        (0..r::len(list).min(r::len(names)) as isize)
            .find(|&k| r::chars(r::STRING_ELT(names, k)) == name.as_bytes())
            .map(|k| r::VECTOR_ELT(list, k))
    }
}

fn item(list: SEXP, name: &str) -> Result<SEXP> {
    element(list, name).ok_or_else(|| Error::new(ErrorKind::Argument, format!("what was gathered lacks `{name}`")))
}

/// What `surroundings()` in R has collected for a function.
struct Surroundings {
    functions: Vec<Rc<Lambda>>,
    /// For each scope, list(variables, functions). A function is an index into `functions` (from 1), the name of a
    /// builtin, or a list of a string that describes something else.
    scopes: SEXP,
    lines: Vec<Option<u32>>,
}

impl Surroundings {
    fn read(functions: SEXP, scopes: SEXP) -> Result<Surroundings> {
        let mut reader = Reader { lines: Vec::new(), lambdas: 0, first: None, line: None };
        let mut lambdas = Vec::new();
        for k in 0..r::len(functions) {
            // SAFETY: a list, read within its length.
            let one = unsafe { r::VECTOR_ELT(functions, k as isize) };
            let number = |name: &str| -> Result<u32> {
                Ok(values::scalar(item(one, name)?).and_then(|(s, _)| integer(s)).unwrap_or(0) as u32)
            };
            let scope = number("scope")?;
            let first = number("line")?;
            reader.first = (first > 0).then_some(first);
            reader.line = reader.first.map(|_| 1);
            let parameters = reader.parameters(pairs(item(one, "formals")?), scope);
            let body = reader.expr(item(one, "body")?, scope);
            lambdas.push(Rc::new(Lambda { scope, id: k as u32, name: text(item(one, "name")?, 0), parameters, body }));
        }
        Ok(Surroundings { functions: lambdas, scopes, lines: reader.lines })
    }

    fn function(&self, scope: SEXP, name: &str) -> Option<Meaning> {
        let value = element(element(scope, "functions")?, name)?;
        Some(match r::kind_of(value) {
            SEXPTYPE::INTSXP => {
                Meaning::Closure(self.functions.get(integer(values::scalar(value)?.0)? as usize - 1)?.clone())
            }
            SEXPTYPE::STRSXP => Meaning::Builtin(text(value, 0)),
            SEXPTYPE::VECSXP if r::len(value) == 1 => {
                // SAFETY: a list of one string.
                Meaning::Other(text(unsafe { r::VECTOR_ELT(value, 0) }, 0))
            }
            _ => return None,
        })
    }
}

impl Scope for Surroundings {
    fn meaning(&self, scope: u32, path: &[String], function: bool) -> Option<Meaning> {
        // SAFETY: a list; scope numbers are within its length.
        let scope = unsafe { r::VECTOR_ELT(self.scopes, scope as isize - 1) };
        if function {
            return self.function(scope, &path[0]);
        }
        let Some(value) = element(scope, "variables").and_then(|v| element(v, &path[0])) else {
            return self.function(scope, &path[0]);
        };
        let value = path[1..].iter().try_fold(value, |list, key| inner(list, key))?;
        Some(match argument_type(value, None) {
            Some(ArgumentType::Element(Typed::Value(kind))) => Meaning::Number(kind),
            Some(ArgumentType::Element(typed)) => Meaning::Element(typed),
            Some(ArgumentType::Table(table)) => Meaning::Table(table),
            None if r::kind_of(value) == SEXPTYPE::VECSXP => Meaning::List,
            None => match self.function(scope, &path[0]) {
                Some(function) if path.len() == 1 => function,
                _ if r::inherits(value, "factor") => Meaning::Other("a factor".into()),
                _ => Meaning::Other(values::describe(value)),
            },
        })
    }

    fn text(&self, span: Span) -> String {
        self.functions.iter().find_map(|f| find_in(f, span)).map_or(String::new(), Expr::to_string)
    }

    fn line(&self, span: Span) -> Option<u32> {
        self.lines.get(span as usize).copied().flatten()
    }
}

/// The list element for a step of a path: a name, or `[[k]]`.
fn inner(list: SEXP, key: &str) -> Option<SEXP> {
    match key.strip_prefix("[[").and_then(|k| k.strip_suffix("]]")).and_then(|k| k.parse::<usize>().ok()) {
        Some(k) if r::kind_of(list) == SEXPTYPE::VECSXP && k >= 1 && k <= r::len(list) => {
            // SAFETY: within the list.
            Some(unsafe { r::VECTOR_ELT(list, k as isize - 1) })
        }
        _ => element(list, key),
    }
}

/// The expression with this span.
fn find(expr: &Expr, span: Span) -> Option<&Expr> {
    if expr.span == span {
        return Some(expr);
    }
    match &expr.form {
        Form::Call(_, args) => find_among(args, span),
        Form::CallOf(function, args) => find(function, span).or_else(|| find_among(args, span)),
        Form::Function(lambda) => find_in(lambda, span),
        _ => None,
    }
}

fn find_among(args: &[Argument], span: Span) -> Option<&Expr> {
    args.iter().filter_map(|a| a.value.as_ref()).find_map(|a| find(a, span))
}

fn find_in(lambda: &Lambda, span: Span) -> Option<&Expr> {
    let mut defaults = lambda.parameters.iter().filter_map(|(_, d)| d.as_ref());
    find(&lambda.body, span).or_else(|| defaults.find_map(|d| find(d, span)))
}

/// The type of a value as an argument: an element per thread, or a table if it is taken `whole`. `None` is for captured
/// values, which are tables unless they have length 1 and no dimensions.
fn argument_type(x: SEXP, whole: Option<bool>) -> Option<ArgumentType> {
    if r::inherits(x, "factor") || r::inherits(x, "data.frame") {
        return None;
    }
    let typed = if let Some(handle) = handle::of(x) {
        Typed::Array(handle.dtype().ok()?)
    } else {
        Typed::Value(values::kind(x)?)
    };
    // SAFETY: reads an attribute.
    let axes = unsafe { r::len(r::Rf_getAttrib(x, r::R_DimSymbol)) } as u8;
    let table = whole.unwrap_or(r::len(x) != 1 || axes > 0);
    Some(if table { ArgumentType::Table(TableType { typed, axes }) } else { ArgumentType::Element(typed) })
}

// ---- entries ----------------------------------------------------------------------------------------------

/// The error of a refusal: the expression, its line, the reason and the remedy.
fn refused(refusal: Refusal, name: &str, scope: &Surroundings) -> Error {
    let at = |span: Span| match scope.line(span) {
        Some(line) => format!("`{}` (line {line})", scope.text(span)),
        None => format!("`{}`", scope.text(span)),
    };
    let mut message =
        format!("`{name}` cannot be compiled: {}.\n  At: {}", refusal.message.trim_end_matches('.'), at(refusal.span));
    if let Some((what, span)) = &refusal.other {
        message += &format!("\n  {what}: {}", at(*span));
    }
    Error::new(ErrorKind::Compile, message).advise(refusal.remedy)
}

fn given_types(args: &[SEXP], whole: SEXP) -> Result<Vec<Option<ArgumentType>>> {
    let mut types = Vec::new();
    for (k, &x) in args.iter().enumerate() {
        // SAFETY: a logical vector of the same length.
        let whole = unsafe { r::LOGICAL_ELT(whole, k as isize) } == 1;
        types.push(match r::is_null(x) {
            true => None,
            false => Some(argument_type(x, Some(whole)).ok_or_else(|| {
                Error::new(
                    ErrorKind::Argument,
                    format!("argument {} must be numbers or logicals, not {}", k + 1, values::describe(x)),
                )
            })?),
        });
    }
    Ok(types)
}

/// The operand for an argument or captured value, and its dimensions.
fn given(x: SEXP, device: Device) -> Result<(Operand, Vec<usize>)> {
    Ok((convert::operand(x, device)?, attributes::dim(x)?.unwrap_or_default()))
}

/// The targets of a gradient, their names, and the lengths (`Variant::sizes`) that they are valid for.
struct Wanted {
    targets: Vec<Target>,
    names: Vec<String>,
    sizes: Vec<(usize, usize)>,
}

/// Resolves the names in `wrt` to arguments or captured variables.
fn wanted(wrt: &[String], args: &[SEXP], output: &Output, lambda: &Lambda, scope: &Surroundings) -> Result<Wanted> {
    let mut wanted = Wanted { targets: Vec::new(), names: Vec::new(), sizes: Vec::new() };
    let count = args.iter().filter(|x| !r::is_null(**x)).count();
    for name in wrt {
        let argument = lambda.parameters.iter().position(|(n, _)| n == name);
        let (k, x) = match argument {
            Some(k) if !r::is_null(args[k]) => (args[..k].iter().filter(|x| !r::is_null(**x)).count(), args[k]),
            _ => {
                let capture = output.captures.iter().position(|c| c.path.len() == 1 && c.path[0] == *name);
                let value = capture.and_then(|c| {
                    // SAFETY: a list; scope numbers are within its length.
                    let scope = unsafe { r::VECTOR_ELT(scope.scopes, output.captures[c].scope as isize - 1) };
                    element(element(scope, "variables")?, name)
                });
                match (capture, value) {
                    (Some(c), Some(value)) => (count + c, value),
                    _ => {
                        let message = format!("`wrt` names `{name}`, which the function neither takes nor reads");
                        return Err(Error::new(ErrorKind::Argument, message));
                    }
                }
            }
        };
        let what = match argument {
            Some(j) if !r::is_null(args[j]) => argument_type(x, None),
            _ => output.captures.get(k - count).map(|c| c.what),
        };
        let table = output.routine.tables.iter().any(|t| t.given as usize == k);
        let typed = match what {
            Some(ArgumentType::Element(typed)) => typed,
            Some(ArgumentType::Table(table)) => table.typed,
            None => Typed::Value(Kind::Logical),
        };
        let is_float = match typed {
            Typed::Array(dtype) => dtype.is_float(),
            Typed::Value(kind) => kind == Kind::Double,
        };
        if !is_float {
            let message = format!("derivatives are by doubles, and `{name}` is {}", values::describe(x));
            return Err(Error::new(ErrorKind::DType, message).advise(format!("Use as.double({name}).")));
        }
        if table {
            for j in 0..r::len(x) {
                wanted.targets.push(Target::Element(k as u16, j as u32));
                wanted.names.push(format!("{name}{}", j + 1));
            }
            wanted.sizes.push((k, r::len(x)));
        } else {
            wanted.targets.push(Target::Number(k as u16));
            wanted.names.push(name.clone());
        }
    }
    Ok(wanted)
}

entries! {
    /// Compiles the first of `functions` for the types of `args` (NULL for a missing argument), or its gradient with
    /// respect to `wrt`. An `exact` function fails where R's value has another form. Returns list(scopes, paths, names,
    /// is_vector, draws, varies_within, result_varies, missing_varies, makes_names, pointer).
    fn routine_compile(
        functions: SEXP,
        scopes: SEXP,
        args: Vec<SEXP>,
        whole: SEXP,
        bounds: SEXP,
        exact: bool,
        wrt: Vec<String>,
        stack: usize,
    ) -> Result<List> {
        let scope = Surroundings::read(functions, scopes)?;
        let types = given_types(&args, whole)?;
        let lambda = scope.functions[0].clone();
        let bounds = match text(bounds, 0).as_str() {
            "NA" => Bounds::Missing,
            "error" => Bounds::Fail,
            _ => Bounds::AsR,
        };
        let request = Request { lambda: lambda.clone(), arguments: &types, bounds, exact, scope: &scope, stack };
        let mut output = compile(&request).map_err(|refusal| refused(refusal, &lambda.name, &scope))?;
        let mut sizes = Vec::new();
        if !wrt.is_empty() {
            let wanted = wanted(&wrt, &args, &output, &lambda, &scope)?;
            if output.names.is_some() || !output.routine.results[0].1.is_float() {
                let message =
                    format!("`{}` has a gradient where it gives one double, not several or another type", lambda.name);
                return Err(Error::new(ErrorKind::Argument, message));
            }
            output.routine = gradient(&output.routine, &wanted.targets).map_err(|operation| {
                let message = format!("`{operation}` in `{}` has no derivative here", lambda.name);
                Error::new(ErrorKind::Compile, message).advise("Write it with operations that have: see ?gpu_grad.")
            })?;
            output.names = Some(std::iter::once("value".to_string()).chain(wanted.names).collect());
            sizes = wanted.sizes;
        }
        let draws = output.routine.draws();
        let routine = verdigris_compile::intern(output.routine);
        let out = List::new(10).add("scopes", r::reals(output.captures.iter().map(|c| c.scope as f64)));
        let paths = output.captures.iter().fold(List::new(output.captures.len()), |list, capture| {
            list.add("", r::strings(capture.path.iter()))
        });
        let out = out.add("paths", paths).add("names", output.names.as_deref());
        let out = out.add("is_vector", output.is_vector).add("draws", draws);
        let out = out.add("varies_within", output.varying.within).add("result_varies", output.varying.result);
        let out = out.add("missing_varies", output.varying.missing).add("makes_names", output.varying.names);
        let captured = output.captures.iter().map(|c| c.what).collect();
        Ok(out.add("pointer", Variant { routine, arguments: types, captured, sizes }))
    }

    /// The nesting depth of calls in a function's code; Inf if there are too many calls.
    fn routine_depth(formals: SEXP, body: SEXP) -> f64 {
        depth(formals).max(depth(body))
    }

    /// A list of the results for `n` elements, as arrays without attributes. NULL if the types or lengths differ from
    /// those that it was compiled for.
    fn routine_call(
        variant: &Variant,
        args: Vec<SEXP>,
        whole: SEXP,
        captured: Vec<SEXP>,
        n: usize,
        key: Option<Key>,
        device: Device,
        call: SEXP,
    ) -> Result<Option<List>> {
        if given_types(&args, whole)? != variant.arguments {
            return Ok(None);
        }
        for (x, what) in captured.iter().zip(&variant.captured) {
            if argument_type(*x, None) != Some(*what) {
                return Ok(None);
            }
        }
        let all: Vec<SEXP> = args.into_iter().filter(|x| !r::is_null(*x)).chain(captured).collect();
        if variant.sizes.iter().any(|&(k, length)| r::len(all[k]) != length) {
            return Ok(None);
        }
        let mut values = Vec::new();
        for x in all {
            values.push(given(x, device)?);
        }
        let values: Vec<Given> = values.iter().map(|(operand, dim)| Given { operand, dim }).collect();
        let warns = !variant.routine.notes.is_empty();
        let site = if warns { call_site::recorded(call) } else { call_site::of(call) };
        let arrays = function_call::call(variant.routine, &values, key.map(|key| key.0), n, device, site)?;
        let room = List::new(arrays.len());
        Ok(Some(arrays.into_iter().fold(room, |out, array| out.add("", array))))
    }

    /// The CUDA C source of a compiled function.
    fn routine_source(variant: &Variant) -> Result<String> {
        let none = || Error::new(ErrorKind::Device, "this build has no CUDA");
        verdigris_engine::backend::routine_source(variant.routine).ok_or_else(none)
    }

    /// A listing of a compiled function's intermediate form.
    fn routine_listing(variant: &Variant) -> String {
        variant.routine.to_string()
    }
}
