//! From R's syntax tree to a routine: name lookup, types, and the semantics of R's operators.
//!
//! Every variable has a register for each type that it takes. At a control-flow join, a variable that has two types
//! gets the wider one (logical, integer, double, complex), as by R's own `c()`; a loop whose body widens a variable is
//! compiled again with the wider type. Calls of functions are inlined. A vector that is not assigned is computed
//! element by element, so `sum((x - m)^2)` stores none.
//!
//! The types of single operations are those of the operation table (`ops::rule`), so a number from R takes the float
//! type of an array here too.

mod assign;
mod bessel;
mod bounds;
mod builtin;
mod choose;
mod control;
mod count;
mod distribution;
mod draw;
mod fold;
mod function;
mod index;
mod join;
mod make;
mod product;
mod scalar;
mod subscript;
pub(super) mod tidy;
mod value;
mod vector;
mod ways;
mod wide;
mod written;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use super::syntax::{Argument, Compiled, Expr, Form, Lambda, Meaning, Path, Refusal, Scope, Span, TableType};
use super::{
    Block, Failure, FailureId, Operand, Parameter, Register, Routine, Source, Statement, Table, MOST_FAILURES,
};
use value::{Number, Value, Vector};
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::rule::Typed;

/// What an argument is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ArgumentType {
    /// One number for each element of the result.
    Element(Typed),
    /// All of it, to be read by subscripts.
    Table(TableType),
}

/// What a subscript beyond the extent is. NA is NA in each case, and what is below 1 fails.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Bounds {
    /// As in R: NA of a vector by `x[i]`, a failure by `x[[i]]` and of a matrix.
    #[default]
    AsR,
    Missing,
    Fail,
}

/// What is to be compiled.
pub struct Request<'a> {
    pub lambda: Rc<Lambda>,
    /// For each parameter; None where it is not given and has its default.
    pub arguments: &'a [Option<ArgumentType>],
    pub bounds: Bounds,
    pub scope: &'a dyn Scope,
    /// How much of the thread's stack (bytes) may be used. The caller has made sure that walks over the tree, which
    /// take less, have room beside.
    pub stack: usize,
}

/// Something outside of the function that it reads. Its place in the list follows those of the arguments that are
/// given.
#[derive(Clone, PartialEq, Debug)]
pub struct Capture {
    pub scope: u32,
    pub path: Path,
    pub what: ArgumentType,
}

/// What a function compiles to.
#[derive(Debug)]
pub struct Output {
    pub routine: Routine,
    pub captures: Vec<Capture>,
    /// Names of the results, where it gives several: "" where one has none. None where it gives one number.
    pub names: Option<Vec<String>>,
    /// Whether several results are numbers of one vector rather than elements of a list.
    pub is_vector: bool,
}

/// Compiles a function for the types of its arguments.
///
/// # Errors
/// The first construct that devices do not support, with its span, the reason and what to write instead.
pub fn compile(request: &Request) -> Compiled<Output> {
    let mut hints: Vec<Typed> = Vec::new();
    loop {
        let mut compiler = Compiler::new(request, hints.clone());
        compiler.run()?;
        let results = compiler.results.take().expect("run() leaves results");
        if !results.widened {
            return Ok(compiler.finish(results));
        }
        // a later return has a wider type: all are written in it
        hints = results.typed;
    }
}

/// How deep calls may stand in each other.
const DEEPEST: usize = 64;
/// The most statements of a routine: what is longer was unrolled by mistake.
const MOST_STATEMENTS: usize = 20_000;
/// How deep blocks of statements may stand in each other. What is done with a routine, and compilers of CUDA C, walk
/// over them by recursion.
const DEEPEST_BLOCK: usize = 100;

struct Frame {
    /// One for each time that a function is written.
    uid: usize,
    lambda: Rc<Lambda>,
    /// The frame whose variables it sees.
    parent: Option<usize>,
    /// The frame that an argument is found for, whose call has not begun: see `Compiler::forced`.
    resumes: Option<usize>,
    /// Parameters that the call does not give.
    missing: Vec<String>,
    /// Loops that were open where it began.
    loops: usize,
}

/// The variables of each open frame.
type Variables = Vec<BTreeMap<String, Value>>;

/// What leaves the function, at every return the same.
#[derive(Clone, Debug)]
struct Results {
    typed: Vec<Typed>,
    registers: Vec<Register>,
    names: Option<Vec<String>>,
    is_vector: bool,
    span: Span,
    /// Whether a later return has a type that the registers do not hold.
    widened: bool,
}

/// A loop that is being written.
struct LoopContext {
    /// What the variables are where its turns begin.
    head: Variables,
    /// What they were where it was left by `break`.
    breaks: Vec<Variables>,
    /// Types that turned out wider at an end of a turn than at its beginning, with the span.
    wider: HashMap<(usize, String), Typed>,
    /// Whether a `return` of a function that is written in place leaves through it.
    returned: bool,
}

/// A function that is being written in place, and is left from within a loop.
struct Early {
    /// Loops that were open where it began.
    loops: usize,
    flag: Register,
    results: Option<Results>,
    hints: Vec<Typed>,
}

struct Compiler<'a> {
    request: &'a Request<'a>,
    scope: &'a dyn Scope,
    routine: Routine,
    /// What stands before all else: places in tables.
    preamble: Block,
    block: Block,
    statements: usize,
    /// How many blocks are open.
    blocks: usize,
    /// Where the stack was when the compiler began.
    bottom: usize,
    frames: Vec<Frame>,
    variables: Variables,
    /// Whether what is written now can be reached.
    reachable: bool,
    slots: HashMap<(usize, String, Typed), Register>,
    arrays: HashMap<(usize, String, Typed, u16), u16>,
    /// Registers and arrays that belong to variables.
    owned: HashSet<Register>,
    owned_arrays: HashSet<u16>,
    /// Numbers of elements (I64) that were integers.
    counted: HashMap<Register, Number>,
    /// Registers that hold `-x`, and arrays whose elements all do: as subscripts they leave elements out.
    negated: HashSet<Register>,
    negative_arrays: HashSet<u16>,
    /// Elements of arrays that stand in the code.
    written: HashMap<u16, Vec<Number>>,
    loops: Vec<LoopContext>,
    early: Vec<Option<Early>>,
    captures: Vec<Capture>,
    captured: HashMap<(u32, Path), Value>,
    /// How many draws of each family the element has made.
    counts: [Option<Register>; 4],
    hints: Vec<Typed>,
    results: Option<Results>,
}

impl<'a> Compiler<'a> {
    fn new(request: &'a Request<'a>, hints: Vec<Typed>) -> Compiler<'a> {
        Compiler {
            request,
            scope: request.scope,
            routine: Routine { name: identifier(&request.lambda.name), ..Routine::default() },
            preamble: Block::new(),
            block: Block::new(),
            statements: 0,
            blocks: 0,
            bottom: stack_pointer(),
            frames: Vec::new(),
            variables: Vec::new(),
            reachable: true,
            slots: HashMap::new(),
            arrays: HashMap::new(),
            owned: HashSet::new(),
            owned_arrays: HashSet::new(),
            counted: HashMap::new(),
            negated: HashSet::new(),
            negative_arrays: HashSet::new(),
            written: HashMap::new(),
            loops: Vec::new(),
            early: Vec::new(),
            captures: Vec::new(),
            captured: HashMap::new(),
            counts: [None; 4],
            hints,
            results: None,
        }
    }

    fn run(&mut self) -> Compiled<()> {
        let lambda = self.request.lambda.clone();
        self.enter(&lambda, None);
        let mut given = 0;
        for ((name, _), argument) in lambda.parameters.iter().zip(self.request.arguments) {
            if let Some(what) = argument {
                let value = self.given(given, *what, name);
                given += 1;
                self.variables[0].insert(name.clone(), value);
            }
        }
        self.defaults(&lambda)?;
        let value = self.tail(&lambda.body)?;
        if self.reachable {
            self.deliver(value, lambda.body.span)?;
        }
        if self.results.is_none() {
            return Err(Refusal::new(
                lambda.body.span,
                "the function never returns a value",
                "Let it end in a number, or in c() or list() of several.",
            ));
        }
        Ok(())
    }

    fn finish(mut self, results: Results) -> Output {
        let mut body = std::mem::take(&mut self.preamble);
        body.append(&mut self.block);
        self.routine.body = body;
        self.routine.results =
            results.registers.iter().zip(&results.typed).map(|(&r, &typed)| (r, value::dtype(typed))).collect();
        bounds::prove(&mut self.routine);
        tidy::tidy(&mut self.routine);
        Output { routine: self.routine, captures: self.captures, names: results.names, is_vector: results.is_vector }
    }

    /// What a given argument, or something captured, is worth within.
    fn given(&mut self, k: usize, what: ArgumentType, name: &str) -> Value {
        match what {
            ArgumentType::Element(typed) => {
                let register = self.fresh(value::dtype(typed).class());
                self.routine.names[register as usize] = name.into();
                self.routine.parameters.push(Parameter {
                    register,
                    source: Source::Given(k as u16),
                    dtype: value::dtype(typed),
                });
                self.owned.insert(register);
                Value::Number(Number::register(register, typed))
            }
            ArgumentType::Table(table) => {
                let number = self.routine.tables.len() as u16;
                let dtype = value::dtype(table.typed);
                self.routine.tables.push(Table { given: k as u16, dtype, name: name.into() });
                let length = Operand::Register(self.parameter(Source::Length(number)));
                let dim: Vec<Operand> = (0..table.axes)
                    .map(|axis| Operand::Register(self.parameter(Source::Extent(number, axis))))
                    .collect();
                Value::vector(Vector::Table {
                    table: number,
                    typed: table.typed,
                    start: Number::long(0).at,
                    step: Number::long(1).at,
                    length,
                    dim,
                })
            }
        }
    }

    /// The register of a parameter that the caller does not give.
    fn parameter(&mut self, source: Source) -> Register {
        self.parameter_as(source, DType::Int64)
    }

    fn parameter_as(&mut self, source: Source, dtype: DType) -> Register {
        if let Some(known) = self.routine.parameters.iter().find(|p| p.source == source && p.dtype == dtype) {
            return known.register;
        }
        let register = self.fresh(dtype.class());
        self.routine.parameters.push(Parameter { register, source, dtype });
        register
    }

    // ---- writing ------------------------------------------------------------------------------------

    fn fresh(&mut self, class: Class) -> Register {
        self.routine.registers.push(class);
        self.routine.names.push(String::new());
        (self.routine.registers.len() - 1) as Register
    }

    fn emit(&mut self, statement: Statement) {
        if self.reachable {
            self.statements += 1;
            self.block.push(statement);
        }
    }

    /// Writes what `write` writes into a block of its own.
    fn within<R>(&mut self, write: impl FnOnce(&mut Self) -> Compiled<R>) -> Compiled<(Block, R)> {
        let outer = std::mem::take(&mut self.block);
        self.blocks += 1;
        let result = write(self);
        self.blocks -= 1;
        let block = std::mem::replace(&mut self.block, outer);
        Ok((block, result?))
    }

    /// The number of a failure at a span.
    fn failure(&mut self, span: Span, message: impl Into<String>) -> FailureId {
        self.failure_at(span, message, None)
    }

    /// `failure`, of a subscript: with its expression where there is one.
    fn failure_at(&mut self, span: Span, message: impl Into<String>, subscript: Option<String>) -> FailureId {
        let (expression, line) = (self.scope.text(span), self.scope.line(span));
        let failure = Failure { message: message.into(), expression, line, subscript };
        if let Some(known) = self.routine.failures.iter().position(|f| *f == failure) {
            return known as FailureId;
        }
        if self.routine.failures.len() == MOST_FAILURES {
            // the last one stands for what has no room
            return MOST_FAILURES as FailureId - 1;
        }
        self.routine.failures.push(failure);
        self.routine.failures.len() as FailureId - 1
    }

    // ---- expressions --------------------------------------------------------------------------------

    /// The value of an expression. Where nothing can be reached any more it is NULL.
    fn expr(&mut self, expr: &Expr) -> Compiled<Value> {
        if !self.reachable {
            return Ok(Value::Null);
        }
        self.check_limits(expr.span)?;
        match &expr.form {
            Form::Null => Ok(Value::Null),
            Form::Logical(x) => Ok(Value::Number(Number::logical(*x))),
            Form::Integer(x) => Ok(Value::Number(Number::integer(*x))),
            Form::Double(x) => Ok(Value::Number(Number::double(*x))),
            Form::Complex(z) => Ok(Value::Number(Number {
                at: Operand::Constant(verdigris_ops::scalar::Scalar::C128(*z)),
                typed: Typed::Value(verdigris_ops::dtype::Kind::Complex),
            })),
            Form::Text(text) => Ok(Value::Text(text.clone())),
            Form::Other(what) => Err(Refusal::new(
                expr.span,
                format!("{what} cannot be used on a device"),
                "Use numbers, logicals and vectors of them.",
            )),
            Form::Name(name) => self.name(name, expr.span),
            Form::Function(lambda) => Ok(Value::Closure(lambda.clone(), Some(self.frames.len() - 1))),
            Form::Call(name, args) => match args.iter().any(is_dots) {
                false => self.call(expr, name, args),
                // a compiled function has nothing in its `...`
                true => {
                    let args: Vec<_> = args.iter().filter(|a| !is_dots(a)).cloned().collect();
                    self.call(expr, name, &args)
                }
            },
            Form::CallOf(function, args) => match self.expr(function)? {
                Value::Closure(lambda, frame) => self.inline(&lambda, frame, args, expr.span),
                other => Err(Refusal::new(
                    expr.span,
                    format!("{} is called as a function", other.what()),
                    "Call functions by their names.",
                )),
            },
        }
    }

    /// Refuses a function with too many statements, or with blocks or calls nested too deep.
    fn check_limits(&self, span: Span) -> Compiled<()> {
        if self.statements > MOST_STATEMENTS {
            return Err(Refusal::new(
                span,
                "the function is too long when its calls are written in place",
                "Use loops in place of repeated code, or divide it into several functions that are called in turn.",
            ));
        }
        let used = self.bottom.abs_diff(stack_pointer());
        if used > self.request.stack || self.blocks > DEEPEST_BLOCK {
            return Err(Refusal::new(
                span,
                "calls and conditions stand too deep in each other",
                "Assign parts of it to variables; write repeated code as a loop.",
            ));
        }
        Ok(())
    }

    /// The value of an expression that must be one number.
    fn number(&mut self, expr: &Expr) -> Compiled<Number> {
        let value = self.expr(expr)?;
        self.as_number(value, expr.span)
    }

    fn as_number(&mut self, value: Value, span: Span) -> Compiled<Number> {
        match value {
            Value::Number(n) => Ok(n),
            // nothing reads it
            Value::Null if !self.reachable => Ok(Number::double(0.0)),
            Value::Vector(v) if v.fixed() == Some(1) => self.element(&v, Number::integer(0).at, span),
            Value::Vector(_) => Err(Refusal::new(
                span,
                "a vector stands where one number is needed",
                "Take one element (x[i]), or reduce it: sum(), mean(), max().",
            )),
            other => Err(Refusal::new(
                span,
                format!("{} stands where a number is needed", other.what()),
                "Give a number here.",
            )),
        }
    }

    /// What a name is worth: a variable of the frames that it sees, else something outside.
    fn name(&mut self, name: &str, span: Span) -> Compiled<Value> {
        let mut frame = Some(self.frames.len() - 1);
        let mut scope = self.frames[self.frames.len() - 1].lambda.scope;
        let mut later = None;
        while let Some(k) = frame {
            match self.variables[k].get(name) {
                Some(Value::Unset(why, _)) if why == function::MISSING => {
                    return Err(Refusal::new(
                        span,
                        format!("argument \"{name}\" is missing, with no default"),
                        format!("Give `{name}` in the call of `{}`.", self.frames[k].lambda.name),
                    ));
                }
                Some(Value::Promise(expr, frame)) => {
                    let (expr, frame) = (expr.clone(), *frame);
                    return self.forced(&expr, frame);
                }
                Some(Value::Unset(why, other)) => {
                    return Err(Refusal::new(
                        span,
                        format!("`{name}` may have no value here: {why}"),
                        format!("Give `{name}` a value before."),
                    )
                    .and("it gets one here", *other));
                }
                Some(value) => return Ok(value.clone()),
                None => {}
            }
            let Frame { lambda, loops, resumes, .. } = &self.frames[k];
            scope = lambda.scope;
            later = later.or_else(|| lambda.body.assigned_at(name));
            // in its next turn a loop sees what it has assigned
            if let (true, Some(at)) = (resumes.is_none() && self.loops.len() > *loops, lambda.body.assigned_at(name)) {
                return Err(too_early(name, at, span));
            }
            frame = self.frames[k].parent;
        }
        if let (Some(at), None) = (later, self.scope.meaning(scope, &[name.to_string()], false)) {
            return Err(too_early(name, at, span));
        }
        self.outside(scope, vec![name.to_string()], span)
    }

    /// What a path outside of the function is worth.
    fn outside(&mut self, scope: u32, path: Path, span: Span) -> Compiled<Value> {
        if let Some(known) = self.captured.get(&(scope, path.clone())) {
            return Ok(known.clone());
        }
        let shown = path.join("$");
        let what = match self.scope.meaning(scope, &path, false) {
            Some(Meaning::Number(kind)) => ArgumentType::Element(Typed::Value(kind)),
            Some(Meaning::Element(typed)) => ArgumentType::Element(typed),
            Some(Meaning::Table(table)) => ArgumentType::Table(table),
            Some(Meaning::List) => return Ok(Value::Captured(path)),
            Some(Meaning::Closure(lambda)) => return Ok(Value::Closure(lambda, None)),
            Some(Meaning::Builtin(name)) => {
                return Err(Refusal::new(
                    span,
                    format!("the function `{name}` stands where a value is needed"),
                    "Call it, or hand over a function of your own: function(x) ....",
                ))
            }
            Some(Meaning::Other(what)) => {
                return Err(Refusal::new(
                    span,
                    format!("`{shown}` is {what}"),
                    "Only numbers, logicals, vectors and arrays of them, lists of these, and functions can be read from outside.",
                ))
            }
            None => {
                return Err(Refusal::new(
                    span,
                    format!("object '{shown}' not found"),
                    format!("Make `{shown}` an argument, or give it a value where the function was made."),
                ))
            }
        };
        let given = self.request.arguments.iter().flatten().count() + self.captures.len();
        self.captures.push(Capture { scope, path: path.clone(), what });
        let value = self.given(given, what, &shown);
        self.captured.insert((scope, path), value.clone());
        Ok(value)
    }
}

/// A variable that is read before it is assigned.
fn too_early(name: &str, assigned: Span, span: Span) -> Refusal {
    Refusal::new(span, format!("`{name}` may have no value here"), format!("Give `{name}` a value before."))
        .and("it gets one here", assigned)
}

fn is_dots(argument: &Argument) -> bool {
    matches!(&argument.value, Some(Expr { form: Form::Name(name), .. }) if name == "...")
}

/// About where the thread's stack ends.
#[inline(never)]
fn stack_pointer() -> usize {
    let here = 0u8;
    std::hint::black_box(std::ptr::addr_of!(here)) as usize
}

/// A C identifier like a name.
fn identifier(name: &str) -> String {
    let mut out: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if out.is_empty() || !out.starts_with(|c: char| c.is_ascii_alphabetic()) {
        out.insert(0, 'f');
    }
    out.truncate(40);
    out
}
