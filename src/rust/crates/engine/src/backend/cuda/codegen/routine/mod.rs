//! Generates a readable device function in CUDA C from a routine (a compiled R function).
//!
//! `text` has expressions of C, `names` the registers' names and where they are declared, `known` the facts that make
//! tests redundant, `value` expressions and conditions, `statement` the rest. Each statement of the routine becomes a
//! statement of C; a value that is used once and has no name in R is written inline at its use.

mod known;
mod names;
mod statement;
mod text;
mod value;

use std::fmt::Write as _;

use self::known::Known;
use self::names::{c_identifier, Use};
use self::text::{comment, Text};
use verdigris_compile::{Draw, Operand, Register, Routine, Source, Statement};
use verdigris_ops::dtype::Class;
use verdigris_ops::{id, Op, OpId};

/// The C name of the `k`-th routine of a plan. It ends in an underscore, so it cannot clash with functions of
/// `kernels/`.
pub fn name(routine: &Routine, k: usize) -> String {
    match k {
        0 => format!("{}_", routine.name),
        k => format!("{}_{k}_", routine.name),
    }
}

/// Whether the routine uses an operation for which `is` holds. Draws count as `runif`.
pub fn has_row(routine: &Routine, is: fn(&Op) -> bool) -> bool {
    let mut found = false;
    routine.walk(&mut |statement| match statement {
        Statement::Apply { op, .. } => found |= is(op.row()),
        Statement::Draw { .. } => found |= is(id::RUNIF.row()),
        _ => {}
    });
    found
}

/// Calls `define` for each operation of the table that the routine uses, and its class.
pub fn rows(routine: &Routine, define: &mut impl FnMut(OpId, Class)) {
    routine.walk(&mut |statement| match statement {
        Statement::Apply { op, class, .. } => define(*op, *class),
        Statement::Draw { draw: Draw::Row(op), .. } => define(*op, Class::F64),
        _ => {}
    });
}

/// A value that has not been written yet: it will be written inline where it is read.
struct PendingValue {
    register: Register,
    what: PendingExpr,
}

enum PendingExpr {
    Text(Text),
    /// A comparison or logical operation that may be written as a C condition. Its operands are names, constants, or
    /// pending values of this kind.
    Logic {
        op: OpId,
        class: Class,
        args: Vec<Operand>,
    },
}

/// The state of writing one routine.
struct Writer<'a> {
    routine: &'a Routine,
    uses: Vec<Use>,
    tables: Vec<String>,
    text: String,
    depth: usize,
    pending: Vec<PendingValue>,
    known: Known,
    /// The parameter that holds the key of random draws.
    key: Option<Register>,
    /// Families of draws of which the second number of each Philox block is kept for the next draw; see `keeps`.
    kept: Vec<Draw>,
    /// Whether some statement can fail, so that `missing` must be declared, and whether some operation writes flags
    /// that are not reported, so that `unread` must be.
    fails: bool,
    needs_unread_word: bool,
}

/// The C definitions of the struct of results and of the function.
pub fn define(routine: &Routine, name: &str) -> String {
    let uses = names::uses(routine);
    let mut taken: Vec<String> = uses.iter().map(|used| used.name.clone()).collect();
    let tables = routine.tables.iter().enumerate().map(|(k, table)| {
        let mut name = format!("{}_", c_identifier(&table.name));
        while name.len() < 2 || taken.contains(&name) {
            name = format!("{name}table{k}_");
        }
        taken.push(name.clone());
        name
    });
    let tables: Vec<String> = tables.collect();
    let key = routine.parameters.iter().find(|p| p.source == Source::Key).map(|p| p.register);
    let kept =
        [Draw::Uniform, Draw::Normal, Draw::Exponential].into_iter().filter(|&draw| keeps(routine, draw)).collect();
    let mut writer = Writer {
        routine,
        uses,
        tables,
        text: String::new(),
        depth: 1,
        pending: Vec::new(),
        known: Known::default(),
        key,
        kept,
        fails: false,
        needs_unread_word: false,
    };
    for p in &routine.parameters {
        if let Source::Length(_) | Source::Extent(..) = p.source {
            writer.known.number(p.register);
        }
    }
    if writer.block(&routine.body) {
        writer.flush();
        writer.return_();
    }
    writer.whole(name)
}

impl Writer<'_> {
    /// The complete definition: the R source as comments, the struct, the signature, the declarations and the body.
    fn whole(self, name: &str) -> String {
        let routine = self.routine;
        let mut text = String::new();
        for line in &routine.lines {
            let _ = writeln!(text, "// {}", comment(line));
        }
        let _ = write!(text, "struct {name}results {{");
        for (k, (register, _)) in routine.results.iter().enumerate() {
            let _ = write!(text, " {} y{k};", self.class(*register).c_type());
        }
        let _ = write!(text, " }};\nVG_FN {name}results {name}(i64 i");
        for p in &routine.parameters {
            let _ = write!(text, ", {} {}", p.dtype.class().c_type(), self.name(p.register));
        }
        for (table, name) in routine.tables.iter().zip(&self.tables) {
            let _ = write!(text, ", const {}* {name}, i64 {name}length", table.dtype.c_type());
        }
        if !routine.notes.is_empty() {
            let _ = write!(text, ", u32 (&w)[{}]", routine.notes.len());
        }
        if !routine.failures.is_empty() {
            text.push_str(", Failed& failed");
        }
        text.push_str(") {\n");
        self.declare(name, &mut text);
        text + &self.text + "}\n"
    }

    /// Declarations at the top of the function: variables that are not declared at their assignment, local arrays, kept
    /// random numbers, and the result of a failed call.
    fn declare(&self, name: &str, text: &mut String) {
        let is_given = |r: usize| self.routine.parameters.iter().any(|p| p.register as usize == r);
        for class in Class::ALL {
            let here = self.uses.iter().enumerate().filter(|(r, used)| {
                self.routine.registers[*r] == class && used.writes > 0 && !used.local && !is_given(*r)
            });
            let names: Vec<&str> = here.map(|(_, used)| used.name.as_str()).collect();
            if !names.is_empty() {
                let _ = writeln!(text, "  {} {};", class.c_type(), names.join(", "));
            }
        }
        for (k, array) in self.routine.arrays.iter().enumerate() {
            // C++ does not allow arrays of length 0
            let length = array.length.max(1);
            let _ = writeln!(text, "  {} a{k}[{length}];\n  fill_missing(a{k});", array.class.c_type());
        }
        for draw in &self.kept {
            let (class, name) = kept_draw_variable(*draw);
            let _ = writeln!(text, "  {class} {name} = 0;");
        }
        if self.fails {
            let missing = self.routine.results.iter().map(|(r, _)| format!("na_of({}())", self.class(*r).c_type()));
            let _ = writeln!(text, "  const {name}results missing = {{{}}};", missing.collect::<Vec<_>>().join(", "));
        }
        if self.needs_unread_word {
            text.push_str("  u32 unread = 0;\n");
        }
    }

    fn class(&self, register: Register) -> Class {
        self.routine.registers[register as usize]
    }

    fn name(&self, register: Register) -> &str {
        &self.uses[register as usize].name
    }
}

/// The type and name of the variable that keeps the raw material of a family's next number.
fn kept_draw_variable(draw: Draw) -> (&'static str, &'static str) {
    match draw {
        Draw::Uniform => ("u64", "uniform_word"),
        Draw::Normal => ("f64", "normal_number_kept"),
        Draw::Exponential => ("u64", "exponential_word"),
        Draw::Row(_) => unreachable!("a row draws by itself"),
    }
}

/// Whether a family's draws are numbered consecutively from 0: a single register counts them, and it is otherwise only
/// reset to 0.
fn keeps(routine: &Routine, family: Draw) -> bool {
    let mut counts: Vec<Register> = Vec::new();
    routine.walk(&mut |statement| match statement {
        Statement::Draw { draw, count, .. } if *draw == family && !counts.contains(count) => counts.push(*count),
        _ => {}
    });
    let [count] = counts[..] else { return false };
    let mut keeps = routine.parameters.iter().all(|p| p.register != count);
    routine.walk(&mut |statement| match statement {
        Statement::Move { to, from } if *to == count => {
            keeps &= *from == Operand::Constant(verdigris_ops::scalar::Scalar::I32(0));
        }
        Statement::Draw { draw, count: own, to, .. } => keeps &= *to != count && (*own != count || *draw == family),
        Statement::For { counter, .. } => keeps &= *counter != count,
        statement => keeps &= statement.written() != Some(count),
    });
    keeps
}
