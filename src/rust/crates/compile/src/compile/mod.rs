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
mod constants;
mod control;
mod count;
mod distribution;
mod draw;
mod fold;
mod function;
mod index;
mod join;
mod kinds;
mod make;
mod product;
mod scalar;
mod sequence;
mod subscript;
pub(super) mod tidy;
mod value;
mod vector;
mod ways;
mod wide;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use super::syntax::{Argument, Compiled, Expr, Form, Lambda, Meaning, Path, Refusal, Scope, Span, TableType};
use super::{
    Block, Failure, FailureId, Operand, Parameter, Register, Routine, Source, Statement, Table, MOST_FAILURES,
};
pub use kinds::Varying;
use value::{Container, Number, Value, Vector};
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::rule::Typed;

/// The type of an argument.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ArgumentType {
    /// One number for each element of the result.
    Element(Typed),
    /// The whole array, read by subscripts.
    Table(TableType),
}

/// The result of a subscript beyond the extent. In each case NA gives NA, and a subscript below 1 fails.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Bounds {
    /// As in R: NA for `x[i]` of a vector, a failure for `x[[i]]` and for a matrix.
    #[default]
    AsR,
    Missing,
    Fail,
}

/// A function to compile.
pub struct Request<'a> {
    pub lambda: Rc<Lambda>,
    /// For each parameter; None if it is not given and takes its default.
    pub arguments: &'a [Option<ArgumentType>],
    pub bounds: Bounds,
    /// Whether the function fails where R's value has another length or type than the routine's, or comes with a
    /// warning: at extremes of nothing. The caller then has R call the function.
    pub exact: bool,
    pub scope: &'a dyn Scope,
    /// How much of the thread's stack (bytes) the compiler may use. Recursive walks over the syntax tree need less, and
    /// the caller leaves room for them in addition.
    pub stack: usize,
}

/// A free variable that the function reads. Captures are numbered after the given arguments.
#[derive(Clone, PartialEq, Debug)]
pub struct Capture {
    pub scope: u32,
    pub path: Path,
    pub what: ArgumentType,
}

/// The result of compiling a function.
#[derive(Debug)]
pub struct Output {
    pub routine: Routine,
    pub captures: Vec<Capture>,
    /// Names of several results ("" for an unnamed one). None if the function gives one number.
    pub names: Option<Vec<String>>,
    /// Whether several results are elements of one vector rather than of a list.
    pub is_vector: bool,
    /// What the types of R's values depend on.
    pub varying: Varying,
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
        // A later return has a wider type: the function is compiled again with all results of that type.
        hints = results.typed;
    }
}

/// The deepest nesting of inlined calls.
const DEEPEST: usize = 64;
/// The most statements of a routine. Longer ones come from inlining and unrolling that got out of hand.
const MOST_STATEMENTS: usize = 20_000;
/// The deepest nesting of blocks. Passes over a routine, and compilers of CUDA C, walk over blocks by recursion.
const DEEPEST_BLOCK: usize = 100;

struct Frame {
    /// Unique for each inlined call.
    uid: usize,
    lambda: Rc<Lambda>,
    /// The frame whose variables it sees.
    parent: Option<usize>,
    /// While a promise is forced, the frame that made it: see `Compiler::force_promise`.
    resumes: Option<usize>,
    /// The number of loops that were open at its beginning.
    loops: usize,
}

/// The variables of each open frame.
type Variables = Vec<BTreeMap<String, Value>>;

/// The results of the function, the same at every return.
#[derive(Clone, Debug)]
struct Results {
    typed: Vec<Typed>,
    registers: Vec<Register>,
    names: Option<Vec<String>>,
    /// What the named results form; None if they are elements of a vector without names.
    form: Option<Container>,
    span: Span,
    /// Whether a later return has a type that does not fit the registers.
    widened: bool,
    /// The kinds that each has in R.
    kinds: Vec<kinds::Kinds>,
}

/// A loop that is being compiled.
struct LoopContext {
    /// The variables at the beginning of an iteration.
    head: Variables,
    /// The variables at each `break`.
    breaks: Vec<Variables>,
    /// Variables (frame, name) that are wider at the end of an iteration than at its beginning, and their types there.
    wider: HashMap<(usize, String), Typed>,
    /// Whether a `return` of an inlined function leaves through this loop.
    returned: bool,
}

/// An inlined function that returns from within its body: see `Compiler::body`.
struct Early {
    /// The number of loops that were open at its beginning.
    loops: usize,
    flag: Register,
    results: Option<Results>,
    hints: Vec<Typed>,
}

struct Compiler<'a> {
    request: &'a Request<'a>,
    scope: &'a dyn Scope,
    routine: Routine,
    /// Statements in front of the body: initial draw counters.
    preamble: Block,
    block: Block,
    statements: usize,
    /// The depth of open blocks.
    blocks: usize,
    /// The stack pointer when compilation began.
    bottom: usize,
    frames: Vec<Frame>,
    variables: Variables,
    /// Whether the current position can be reached. If not, `emit` drops statements.
    reachable: bool,
    slots: HashMap<(usize, String, Typed), Register>,
    arrays: HashMap<(usize, String, Typed, u16), u16>,
    /// Registers and arrays that belong to variables.
    variable_registers: HashSet<Register>,
    variable_arrays: HashSet<u16>,
    /// Element counts (I64) that were converted from integers: the integers.
    counted: HashMap<Register, Number>,
    /// Registers that hold `-x`, and arrays whose elements all do. As subscripts they exclude elements.
    negated: HashSet<Register>,
    negative_arrays: HashSet<u16>,
    /// Constant elements of arrays.
    constant_elements: HashMap<u16, Vec<Number>>,
    loops: Vec<LoopContext>,
    early: Vec<Option<Early>>,
    captures: Vec<Capture>,
    captured: HashMap<(u32, Path), Value>,
    /// Registers that count the element's draws of each family.
    counts: [Option<Register>; 4],
    hints: Vec<Typed>,
    results: Option<Results>,
    /// The kinds of registers that have several in R.
    mixed: HashMap<Register, kinds::Kinds>,
    /// Arrays of variables that were filled with `NA`.
    missing_arrays: HashSet<u16>,
    varying: kinds::Varying,
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
            variable_registers: HashSet::new(),
            variable_arrays: HashSet::new(),
            counted: HashMap::new(),
            negated: HashSet::new(),
            negative_arrays: HashSet::new(),
            constant_elements: HashMap::new(),
            loops: Vec::new(),
            early: Vec::new(),
            captures: Vec::new(),
            captured: HashMap::new(),
            counts: [None; 4],
            hints,
            results: None,
            mixed: HashMap::new(),
            missing_arrays: HashSet::new(),
            varying: kinds::Varying::default(),
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
            self.write_results(value, lambda.body.span)?;
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
        self.preamble.append(&mut self.block);
        self.routine.body = std::mem::take(&mut self.preamble);
        self.routine.results =
            results.registers.iter().zip(&results.typed).map(|(&r, &typed)| (r, value::dtype(typed))).collect();
        bounds::prove(&mut self.routine);
        tidy::tidy(&mut self.routine);
        Output {
            routine: self.routine,
            captures: self.captures,
            is_vector: results.names.is_some() && results.form.is_none(),
            names: results.names,
            varying: self.varying,
        }
    }

    /// The value of a given argument or a capture, number `k` among both.
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
                self.variable_registers.insert(register);
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

    /// The register of a parameter that the runtime fills in.
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

    // ---- emitting -----------------------------------------------------------------------------------

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

    /// Emits what `write` emits into a block of its own.
    fn within<R>(&mut self, write: impl FnOnce(&mut Self) -> Compiled<R>) -> Compiled<(Block, R)> {
        let outer = std::mem::take(&mut self.block);
        self.blocks += 1;
        let result = write(self);
        self.blocks -= 1;
        let block = std::mem::replace(&mut self.block, outer);
        Ok((block, result?))
    }

    /// Has the function fail where a test is TRUE.
    fn fail_if(&mut self, test: Operand, message: &str, span: Span) {
        let then = vec![Statement::Fail(self.failure(span, message))];
        self.emit(Statement::If { value: test, missing: None, then, otherwise: vec![] });
    }

    /// The number of a failure at a span.
    fn failure(&mut self, span: Span, message: impl Into<String>) -> FailureId {
        self.failure_at(span, message, None)
    }

    /// A failure of a subscript, with the subscript's source text if there is one.
    fn failure_at(&mut self, span: Span, message: impl Into<String>, subscript: Option<String>) -> FailureId {
        let (expression, line) = (self.scope.text(span), self.scope.line(span));
        let failure = Failure { message: message.into(), expression, line, subscript };
        if let Some(known) = self.routine.failures.iter().position(|f| *f == failure) {
            return known as FailureId;
        }
        if self.routine.failures.len() == MOST_FAILURES {
            // The last failure stands in for those beyond the limit.
            return MOST_FAILURES as FailureId - 1;
        }
        self.routine.failures.push(failure);
        self.routine.failures.len() as FailureId - 1
    }

    // ---- expressions --------------------------------------------------------------------------------

    /// The value of an expression. NULL if the current position cannot be reached.
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
                // `...` of a compiled function is always empty.
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
            // Unreachable code: nothing reads the number.
            Value::Null if !self.reachable => Ok(Number::double(0.0)),
            Value::Vector(v) if v.fixed() == Some(1) => self.element(&v, Number::integer(0).at, span),
            Value::Parts(Container::Named, mut parts) if parts.len() == 1 => self.as_number(parts.remove(0).1, span),
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

    /// The value of a name: a variable of the visible frames, else a free variable.
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
                    return self.force_promise(&expr, frame);
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
            // A loop's next iteration may see an assignment that comes later in the code.
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

    /// The value of a path outside of the function.
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

/// Refuses a variable that is read before it is assigned.
fn too_early(name: &str, assigned: Span, span: Span) -> Refusal {
    Refusal::new(span, format!("`{name}` may have no value here"), format!("Give `{name}` a value before."))
        .and("it gets one here", assigned)
}

fn is_dots(argument: &Argument) -> bool {
    matches!(&argument.value, Some(Expr { form: Form::Name(name), .. }) if name == "...")
}

/// The approximate stack pointer.
#[inline(never)]
fn stack_pointer() -> usize {
    let here = 0u8;
    std::hint::black_box(std::ptr::addr_of!(here)) as usize
}

/// A C identifier that resembles a name.
fn identifier(name: &str) -> String {
    let mut out: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if out.is_empty() || !out.starts_with(|c: char| c.is_ascii_alphabetic()) {
        out.insert(0, 'f');
    }
    out.truncate(40);
    out
}
