//! Compiled R functions, in the form that devices run: one element, one row or one path a thread.
//!
//! Data flows one way: [`syntax`] (R's parse tree), [`compile`] (types and semantics), a [`Routine`] (this file:
//! structured code over registers), and from there the two devices: `backend/cpu/routine` runs it over blocks of lanes,
//! `backend/cuda/codegen/routine` writes CUDA C. A call is an operation of the graph like others
//! ([`verdigris_engine::graph::node::Operation::Call`]), so it fuses with the operations around it.
//!
//! A routine is a pure function of its parameters, the tables that it reads and the element's index; random draws are
//! functions of a key, the element and a count. So it may be computed again, in any order, on any device.

use std::hash::{Hash, Hasher};

use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::scalar::Scalar;
use verdigris_ops::OpId;

/// The number of a register: a slot of one class, which may be written many times. It is written before it is read on
/// every way.
pub type Register = u16;

/// What a statement reads.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    Register(Register),
    /// Written into the code. What a closure captures is a parameter instead, so that another value needs no other
    /// kernel.
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

/// Constants are equal by their bits: an NA is itself.
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
    /// In R's words: "missing value where TRUE/FALSE needed".
    pub message: String,
    /// The R expression, and its line in the function, where known.
    pub expression: String,
    pub line: Option<u32>,
    /// Of a subscript: its own expression, or "".
    pub subscript: Option<String>,
}

pub type Block = Vec<Statement>;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Statement {
    /// `to = row(args)`, computed in `class`. The row's operands have the classes of `Op::operand_class`, and `to` that
    /// of `Op::result_class`. Rows that use the index are not among them. What it notes goes to the row's bits in
    /// `notes`.
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
    /// `to = from + counter * step`, where nothing is NA and nothing overflows: a loop's variable. Of class I32, or F64
    /// with `counter` as a double.
    Step {
        to: Register,
        from: Operand,
        counter: Register,
        step: Operand,
    },
    /// R's subscript `from` (I32, I64, F32 or F64; fractions are cut off), as a position (I64) from 0. It is -1 for NA,
    /// and for what is beyond `extent` (I64) where that is no failure. Below 1 fails with `low`, beyond the extent with
    /// `high`.
    Position {
        to: Register,
        from: Operand,
        extent: Operand,
        low: FailureId,
        high: Option<FailureId>,
        /// Whether it is known to be neither NA nor outside.
        inside: bool,
    },
    /// The position in memory (I64) of positions along axes: the sum of position * stride, or -1 where any position is
    /// -1.
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
    /// A random number. `count` (I32) says how many of its family the element has drawn, and goes up by one.
    Draw {
        to: Register,
        draw: Draw,
        count: Register,
        args: Vec<Operand>,
    },
    /// `value` is a logical (I32). NA fails with `missing` where there is one, else it is not TRUE.
    If {
        value: Operand,
        missing: Option<FailureId>,
        then: Block,
        otherwise: Block,
    },
    /// `body` for `counter` (I32) = 0, 1 ... `times` - 1; `times` (I32, not NA) is read once. The body does not write
    /// the counter.
    For {
        counter: Register,
        times: Operand,
        body: Block,
    },
    /// `body` until something leaves it.
    Loop {
        body: Block,
    },
    /// Leaves the innermost loop, or goes on with its next turn.
    Break,
    Next,
    /// Leaves the routine: the results are what their registers hold.
    Return,
    Fail(FailureId),
}

/// What is drawn. An element's draws of a family are numbered; each is a function of the call's key, the element's
/// index and its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Draw {
    /// Standard draws in float64, each a family: two of them share a Philox block (`kernels/routine.h`).
    Uniform,
    Normal,
    Exponential,
    /// A row of the rule `Drawn`, with its parameters but without its key: a key for each draw is derived from the
    /// call's.
    Row(OpId),
}

/// What a parameter holds. Each has one value an element, or one for all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// The n-th thing that the caller gives: an argument, or what the function captured.
    Given(u16),
    /// The call's key (I64) for random draws.
    Key,
    /// How many elements a table has (I64), and how many along an axis, from 0.
    Length(u16),
    Extent(u16, u8),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Parameter {
    /// The register that holds it at the start. It may be written later.
    pub register: Register,
    pub source: Source,
    /// What the caller casts it to; the register has its class.
    pub dtype: DType,
}

/// An array that is read by position: contiguous, in memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Table {
    /// The n-th thing that the caller gives.
    pub given: u16,
    pub dtype: DType,
    /// R's name for it.
    pub name: String,
}

/// Elements that each lane has for itself. They are NA at first.
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
    /// What comes out, and as what it is stored: one or more, each a register.
    pub results: Vec<(Register, DType)>,
    /// Rows that may warn, each once.
    pub notes: Vec<OpId>,
    pub failures: Vec<Failure>,
}

impl Routine {
    /// Whether elements depend on their index: by random draws.
    pub fn draws(&self) -> bool {
        self.parameters.iter().any(|p| p.source == Source::Key)
    }

    /// Whether it may warn or fail.
    pub fn is_noted(&self) -> bool {
        !self.notes.is_empty() || !self.failures.is_empty()
    }

    /// Calls `visit` for every statement, those of blocks before what follows the block.
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

/// Registers that a block writes, at any depth, one for each statement that does.
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
    /// The register that it writes.
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

    /// What it reads by itself, without its blocks.
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
