//! Compiled R functions, in the form that devices run: each thread computes one element.
//!
//! Data flows one way: [`syntax`] (R's parse tree), [`compile`] (types and semantics), a [`Routine`] (this file:
//! structured code over registers), and from there the two devices: `backend/cpu/routine` runs it over blocks of lanes,
//! `backend/cuda/codegen/routine` writes CUDA C. A call is an ordinary operation of the graph
//! ([`verdigris_engine::graph::node::Operation::Call`]), so it fuses with the operations around it.
//!
//! A routine is a pure function of its parameters, the tables that it reads and the element's index; random draws are
//! functions of a key, the element and a count. So elements can be computed in any order, repeatedly, on any device.

use std::hash::{Hash, Hasher};

use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::scalar::Scalar;
use verdigris_ops::OpId;

/// The number of a register: a variable of one class that may be written many times. On every path it is written before
/// it is read.
pub type Register = u16;

/// An operand of a statement.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    Register(Register),
    /// A literal of the code. Captured values are parameters instead, so that a new value needs no new kernel.
    Constant(Scalar),
}

impl Operand {
    pub fn register(self) -> Option<Register> {
        match self {
            Operand::Register(r) => Some(r),
            Operand::Constant(_) => None,
        }
    }
}

/// Constants are equal if their bits are, so NA equals itself.
impl PartialEq for Operand {
    fn eq(&self, other: &Operand) -> bool {
        match (self, other) {
            (Operand::Register(a), Operand::Register(b)) => a == b,
            (Operand::Constant(a), Operand::Constant(b)) => a.class() == b.class() && a.bytes() == b.bytes(),
            _ => false,
        }
    }
}

impl Eq for Operand {}

impl Hash for Operand {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Operand::Register(r) => r.hash(state),
            Operand::Constant(scalar) => (scalar.class(), scalar.bytes()).hash(state),
        }
    }
}

/// The number of a failure in `Routine::failures`. An element that fails leaves the routine at once, and all its
/// results are NA. R raises an error for the first element that failed ([`Failed`]).
pub type FailureId = u8;

/// The most failures of a routine: their numbers are bytes.
pub const MOST_FAILURES: usize = 255;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Failure {
    /// The message in R's words: "missing value where TRUE/FALSE needed".
    pub message: String,
    /// The R expression, and its line in the function if known.
    pub expression: String,
    pub line: Option<u32>,
    /// For a failure of a subscript: the subscript's source text, or "".
    pub subscript: Option<String>,
}

pub type Block = Vec<Statement>;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Statement {
    /// `to = row(args)`, computed in `class`. The operands have the classes of `Op::operand_class`, and `to` that of
    /// `Op::result_class`. Rows that use the element's index are not allowed. Warnings set the row's bits in `notes`.
    Apply {
        to: Register,
        op: OpId,
        class: Class,
        args: Vec<Operand>,
    },
    /// `to = from`, of the same class.
    Move {
        to: Register,
        from: Operand,
    },
    /// `to = from + counter * step`, with no NA and no overflow: the variable of a loop. Of class I32, or F64 with
    /// `counter` converted to a double.
    Step {
        to: Register,
        from: Operand,
        counter: Register,
        step: Operand,
    },
    /// Converts R's subscript `from` (I32, I64, F32 or F64; fractions are truncated) to a position (I64) from 0. Below
    /// 1 fails with `low`. Beyond `extent` (I64) fails with `high`, or gives -1 if `high` is None. NA gives -1.
    Position {
        to: Register,
        from: Operand,
        extent: Operand,
        low: FailureId,
        high: Option<FailureId>,
        /// Whether the subscript is known to be neither NA nor outside.
        inside: bool,
    },
    /// The memory offset (I64) of positions along axes: the sum of position * stride, or -1 if any position is -1.
    Offset {
        to: Register,
        at: Vec<(Operand, Operand)>,
    },
    /// The element of a table at a position (I64) from 0; NA at -1 and outside. `to` has the class of the table's
    /// dtype.
    Read {
        to: Register,
        table: u16,
        at: Operand,
    },
    /// The element of a local array at a position (I64), NA at -1 and outside.
    Get {
        to: Register,
        array: u16,
        at: Operand,
    },
    /// Writes an element of a local array; nothing at -1 and outside.
    Set {
        array: u16,
        at: Operand,
        value: Operand,
    },
    /// A random number. `count` (I32) is the number of draws of this family that the element has made; it is
    /// incremented.
    Draw {
        to: Register,
        draw: Draw,
        count: Register,
        args: Vec<Operand>,
    },
    /// `value` is a logical (I32). NA fails with `missing` if that is set, else it takes `otherwise`.
    If {
        value: Operand,
        missing: Option<FailureId>,
        then: Block,
        otherwise: Block,
    },
    /// Runs `body` for `counter` (I32) = 0, 1 ... `times` - 1; `times` (I32, not NA) is read once. The body does not
    /// write the counter.
    For {
        counter: Register,
        times: Operand,
        body: Block,
    },
    /// Runs `body` until a statement leaves the loop.
    Loop {
        body: Block,
    },
    /// Leaves the innermost loop, or continues with its next iteration.
    Break,
    Next,
    /// Leaves the routine with the current values of the result registers.
    Return,
    Fail(FailureId),
}

/// A kind of random number. An element's draws of a family are numbered; each is a function of the call's key, the
/// element's index and its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Draw {
    /// Standard draws in float64, each a family of its own: two draws share a Philox block (`kernels/routine.h`).
    Uniform,
    Normal,
    Exponential,
    /// A row of the rule `Drawn`, with its parameters but without its key: each draw's key is derived from the call's.
    Row(OpId),
}

/// The source of a parameter. A parameter has one value per element, or one for all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// Number n of the values that the caller gives: arguments, then captures.
    Given(u16),
    /// The call's key (I64) for random draws.
    Key,
    /// The number of elements (I64) of a table, and its extent along an axis (from 0).
    Length(u16),
    Extent(u16, u8),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Parameter {
    /// The register that holds it at the start. It may be overwritten later.
    pub register: Register,
    pub source: Source,
    /// The dtype that the caller casts it to; the register has its class.
    pub dtype: DType,
}

/// A contiguous array in device memory that is read by position.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Table {
    /// Number n of the values that the caller gives.
    pub given: u16,
    pub dtype: DType,
    /// R's name for it.
    pub name: String,
}

/// An array that each element (thread or SIMD lane) has for itself. Its elements are NA at first.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LocalArray {
    pub class: Class,
    pub length: u16,
}

/// One function, compiled for the types of its arguments.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Routine {
    /// A C identifier, for kernels and profiles.
    pub name: String,
    /// R's source, line by line, for `gpu_code()`.
    pub lines: Vec<String>,
    pub registers: Vec<Class>,
    /// R's names of registers, or "".
    pub names: Vec<String>,
    pub arrays: Vec<LocalArray>,
    pub parameters: Vec<Parameter>,
    pub tables: Vec<Table>,
    pub body: Block,
    /// The results, one or more: their registers, and the dtypes that they are stored as.
    pub results: Vec<(Register, DType)>,
    /// Rows that may warn, each once.
    pub notes: Vec<OpId>,
    pub failures: Vec<Failure>,
}

impl Routine {
    /// Whether it makes random draws, so that elements depend on their index.
    pub fn draws(&self) -> bool {
        self.parameters.iter().any(|p| p.source == Source::Key)
    }

    /// Whether it may warn or fail.
    pub fn is_noted(&self) -> bool {
        !self.notes.is_empty() || !self.failures.is_empty()
    }

    /// Calls `visit` for every statement in preorder, including those of nested blocks.
    pub fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a Statement)) {
        walk(&self.body, visit);
    }
}

fn walk<'a>(block: &'a [Statement], visit: &mut impl FnMut(&'a Statement)) {
    for statement in block {
        visit(statement);
        match statement {
            Statement::If { then, otherwise, .. } => {
                walk(then, visit);
                walk(otherwise, visit);
            }
            Statement::For { body, .. } | Statement::Loop { body } => walk(body, visit),
            _ => {}
        }
    }
}

/// The registers that a block writes at any depth, with one entry per writing statement.
pub fn written(block: &[Statement]) -> Vec<Register> {
    let mut all = Vec::new();
    walk(block, &mut |statement| {
        all.extend(statement.written());
        match statement {
            Statement::Draw { count, .. } => all.push(*count),
            Statement::For { counter, .. } => all.push(*counter),
            _ => {}
        }
    });
    all
}

impl Statement {
    /// The register that it writes, except counters.
    pub fn written(&self) -> Option<Register> {
        match *self {
            Statement::Apply { to, .. }
            | Statement::Move { to, .. }
            | Statement::Step { to, .. }
            | Statement::Position { to, .. }
            | Statement::Offset { to, .. }
            | Statement::Read { to, .. }
            | Statement::Get { to, .. }
            | Statement::Draw { to, .. } => Some(to),
            _ => None,
        }
    }

    /// The operands that it reads itself, without those of its blocks.
    pub fn operands(&self) -> Vec<Operand> {
        match self {
            Statement::Apply { args, .. } => args.clone(),
            Statement::Move { from, .. } => vec![*from],
            Statement::Step { from, counter, step, .. } => vec![*from, Operand::Register(*counter), *step],
            Statement::Position { from, extent, .. } => vec![*from, *extent],
            Statement::Offset { at, .. } => at.iter().flat_map(|(p, s)| [*p, *s]).collect(),
            Statement::Read { at, .. } | Statement::Get { at, .. } => vec![*at],
            Statement::Set { at, value, .. } => vec![*at, *value],
            Statement::Draw { count, args, .. } => args.iter().copied().chain([Operand::Register(*count)]).collect(),
            Statement::If { value, .. } => vec![*value],
            Statement::For { times, .. } => vec![*times],
            Statement::Loop { .. } | Statement::Break | Statement::Next | Statement::Return | Statement::Fail(_) => {
                vec![]
            }
        }
    }
}
