//! Bounds-check elimination: marks subscripts that are provably within their extent. Facts come from loops over
//! `seq_along(v)`, `seq_len(nrow(m))`, `1:ncol(m)` and literal ranges, and from conditions such as `if (a >= 1 && a <=
//! nrow(m))`.
//!
//! A fact about a register holds wherever the register is read, since only registers with a single writing statement
//! are considered, and that statement dominates all reads. A loop variable may be written by several loops, but within
//! its loop only by the loop itself.

use std::collections::HashMap;

use crate::{written, Block, Operand, Register, Routine, Source, Statement};
use verdigris_ops::dtype::Class;
use verdigris_ops::scalar::Scalar;
use verdigris_ops::{id, OpId};

/// A number of elements.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Extent {
    Fixed(i64),
    Of(Source),
}

/// A register whose value is at least 1 and at most an extent.
#[derive(Clone, Copy)]
struct Inside {
    register: Register,
    extent: Extent,
}

struct Facts {
    writes: Vec<u32>,
    sources: HashMap<Register, Source>,
    made: HashMap<Register, (OpId, Class, Vec<Operand>)>,
    /// Classes of the registers that this pass adds.
    added: Vec<Class>,
}

/// Marks the positions that are provably inside.
pub fn prove(routine: &mut Routine) {
    let mut facts = Facts {
        writes: vec![0; routine.registers.len()],
        sources: routine.parameters.iter().map(|p| (p.register, p.source)).collect(),
        made: HashMap::new(),
        added: Vec::new(),
    };
    for p in &routine.parameters {
        facts.writes[p.register as usize] += 1;
    }
    for r in written(&routine.body) {
        facts.writes[r as usize] += 1;
    }
    let mut made = Vec::new();
    routine.walk(&mut |statement| match statement {
        Statement::Apply { to, op, class, args } => made.push((*to, (*op, *class, args.clone()))),
        Statement::Move { to, from } => made.push((*to, (id::POS, Class::I64, vec![*from]))),
        _ => {}
    });
    let alone = made.into_iter().filter(|(to, ..)| facts.writes[*to as usize] == 1);
    facts.made = alone.collect();
    let first = routine.registers.len();
    facts.block(&mut routine.body, &mut Vec::new(), first);
    routine.names.resize(first + facts.added.len(), String::new());
    routine.registers.append(&mut facts.added);
}

fn whole(operand: Operand) -> Option<i64> {
    match operand {
        Operand::Constant(Scalar::I32(x)) if x != verdigris_ops::scalar::NA_I32 => Some(x.into()),
        Operand::Constant(Scalar::I64(x)) => Some(x),
        Operand::Constant(Scalar::F64(x)) if x.fract() == 0.0 && x.abs() < 1e15 => Some(x as i64),
        _ => None,
    }
}

impl Facts {
    fn is_single(&self, register: Register) -> bool {
        self.writes.get(register as usize) == Some(&1)
    }

    fn made(&self, operand: Operand) -> Option<(OpId, &[Operand])> {
        self.made.get(&operand.register()?).map(|(op, _, args)| (*op, &args[..]))
    }

    /// The register that an operand copies, perhaps as a double, if a single statement writes it.
    fn root(&self, operand: Operand) -> Option<Register> {
        match self.made(operand) {
            Some((id::POS | id::TO_FLOAT64 | id::NEAREST, [x])) if x.register().is_some() => self.root(*x),
            _ => operand.register().filter(|&r| self.is_single(r)),
        }
    }

    /// The extent that an operand equals, whatever its type.
    fn extent(&self, operand: Operand) -> Option<Extent> {
        if let Some(n) = whole(operand) {
            return Some(Extent::Fixed(n));
        }
        let register = operand.register()?;
        if let Some(source) = self.sources.get(&register).filter(|_| self.is_single(register)) {
            return matches!(source, Source::Length(_) | Source::Extent(..)).then_some(Extent::Of(*source));
        }
        match self.made(operand)? {
            (id::POS | id::TO_INT32 | id::TO_INT64 | id::TO_FLOAT64 | id::NEAREST, [x]) => self.extent(*x),
            _ => None,
        }
    }

    /// The extent n of the step of a loop over `1:n`: the step is 1, or -1 if n is 0.
    fn one_to(&self, step: Operand) -> Option<Extent> {
        let (id::SELECT, [test, up, down]) = self.made(step)? else { return None };
        let (id::LE, [from, to]) = self.made(*test)? else { return None };
        let is_colon = whole(*up) == Some(1) && whole(*down) == Some(-1) && whole(*from) == Some(1);
        self.extent(*to).filter(|_| is_colon)
    }

    /// Collects the facts that hold where a logical is TRUE: `low` gets registers that are at least 1, `high` those
    /// that are at most an extent.
    fn learn(&self, test: Operand, low: &mut Vec<Register>, high: &mut Vec<Inside>) {
        let Some((op, class, args)) = test.register().and_then(|r| self.made.get(&r)) else { return };
        let (op, [a, b]) = (*op, &args[..]) else { return };
        match op {
            id::AND => args.iter().for_each(|arg| self.learn(*arg, low, high)),
            id::GE | id::GT | id::LE | id::LT => {
                let (small, large) = if matches!(op, id::LE | id::LT) { (a, b) } else { (b, a) };
                // An integer above 0 is at least 1.
                let above = matches!(op, id::LT | id::GT) && matches!(class, Class::I32 | Class::I64);
                if let (Some(least), Some(register)) = (whole(*small), self.root(*large)) {
                    low.extend((least + i64::from(above) >= 1).then_some(register));
                }
                if let (Some(register), Some(extent)) = (self.root(*small), self.extent(*large)) {
                    high.push(Inside { register, extent });
                }
            }
            _ => {}
        }
    }

    fn is_inside(&self, inside: &[Inside], from: Operand, extent: Operand) -> bool {
        let Some(extent) = self.extent(extent) else { return false };
        let fits = |known: Extent| match (known, extent) {
            (Extent::Fixed(most), Extent::Fixed(n)) => most <= n,
            (known, extent) => known == extent,
        };
        let own = [from.register(), self.root(from)];
        inside.iter().any(|known| own.contains(&Some(known.register)) && fits(known.extent))
    }

    /// `first` is the number of the first added register.
    fn block(&mut self, block: &mut Block, inside: &mut Vec<Inside>, first: usize) {
        let mut k = 0;
        while k < block.len() {
            let known = inside.len();
            match &mut block[k] {
                Statement::Position { from, extent, inside: sure, .. } => {
                    *sure |= self.is_inside(inside, *from, *extent);
                }
                Statement::If { value, then, otherwise, .. } => {
                    let (mut low, mut high) = (Vec::new(), Vec::new());
                    self.learn(*value, &mut low, &mut high);
                    inside.extend(high.into_iter().filter(|x| low.contains(&x.register)));
                    self.block(then, inside, first);
                    inside.truncate(known);
                    self.block(otherwise, inside, first);
                }
                Statement::Loop { body } => self.block(body, inside, first),
                Statement::For { counter, times, body } => {
                    let mut before = Block::new();
                    if let Some(found) = self.variable(*counter, *times, body) {
                        match found {
                            (variable, false) => inside.push(variable),
                            (variable, true) => {
                                before = self.checked_once(body, variable, inside, first);
                                if !before.is_empty() {
                                    inside.push(variable);
                                }
                            }
                        }
                    }
                    self.block(body, inside, first);
                    inside.truncate(known);
                    let count = before.len();
                    block.splice(k..k, before);
                    k += count;
                }
                _ => {}
            }
            k += 1;
        }
    }

    /// The variable of a counted loop if its values stay within 1 and an extent. The flag is true for a loop over
    /// `1:n`, which runs at least once, with 1, even if n is 0.
    fn variable(&self, counter: Register, times: Operand, body: &Block) -> Option<(Inside, bool)> {
        let (to, from, step) = body.iter().find_map(|statement| match statement {
            Statement::Step { to, from, counter: own, step } if *own == counter => Some((*to, *from, *step)),
            _ => None,
        })?;
        let written = written(body);
        if written.iter().filter(|r| **r == to).count() != 1 {
            return None;
        }
        let inside = |extent| Inside { register: to, extent };
        if let Some(extent) = self.one_to(step).filter(|_| whole(from) == Some(1)) {
            return Some((inside(extent), true));
        }
        match (whole(from)?, whole(step)?, self.extent(times)?) {
            (1, 1, extent) => Some((inside(extent), false)),
            (a, s, Extent::Fixed(n)) if n > 0 => {
                let last = a.checked_add(s.checked_mul(n - 1)?)?;
                (a.min(last) >= 1).then_some((inside(Extent::Fixed(a.max(last))), false))
            }
            _ => None,
        }
    }

    /// The tests that a loop over `1:n` makes once, in front of the loop, so that its iterations need not: that there
    /// is an element at all, and that subscripts which do not change are inside. Hoisting is valid because no earlier
    /// statement of an iteration warns or fails: the first iteration, which always runs, would end the same way. If a
    /// position beyond the end is NA rather than a failure, the second iteration would fail with subscript 0, provided
    /// that nothing leaves the loop before. Empty if the variable is not used as such a subscript.
    fn checked_once(&mut self, body: &mut Block, variable: Inside, inside: &[Inside], first: usize) -> Block {
        let changes = written(body);
        let fixed = |x: Operand| x.register().is_none_or(|r| !changes.contains(&r));
        let own = |facts: &Facts, from: Operand, extent: Operand| {
            from == Operand::Register(variable.register) && facts.extent(extent) == Some(variable.extent)
        };
        let (mut before, mut moved, mut asked) = (Block::new(), Vec::new(), None);
        let mut rest = body.len();
        for (k, statement) in body.iter().enumerate() {
            match statement {
                Statement::Position { from, extent, low, high, .. } if own(self, *from, *extent) => {
                    if asked.is_none() {
                        let to = (first + self.added.len()) as Register;
                        self.added.push(Class::I64);
                        // If n is 0, subscript 1 is beyond the end and subscript 0 below 1.
                        let from = if high.is_some() { Operand::Constant(Scalar::I32(1)) } else { *extent };
                        asked = Some(high.is_some());
                        let (extent, low, high) = (*extent, *low, *high);
                        before.push(Statement::Position { to, from, extent, low, high, inside: false });
                    }
                }
                Statement::Position { to, from, extent, .. }
                    if fixed(*from) && fixed(*extent) && self.is_single(*to) =>
                {
                    before.push(statement.clone());
                    moved.push(k);
                }
                Statement::Position { from, extent, .. } if self.is_inside(inside, *from, *extent) => {}
                Statement::Apply { op, class, .. } if !op.may_warn(*class) => {}
                Statement::Step { .. }
                | Statement::Move { .. }
                | Statement::Offset { .. }
                | Statement::Read { .. }
                | Statement::Get { .. } => {}
                _ => {
                    rest = k;
                    break;
                }
            }
        }
        let passes = |s: &Statement| match s {
            Statement::Position { from, extent, .. } => {
                own(self, *from, *extent) || self.is_inside(inside, *from, *extent)
            }
            other => goes_on(other),
        };
        match asked {
            None => return Block::new(),
            Some(false) if !all(&body[rest..], &passes) => return Block::new(),
            Some(_) => {}
        }
        moved.into_iter().rev().for_each(|k| drop(body.remove(k)));
        before
    }
}

/// Whether a test holds for all statements, including those of nested blocks.
fn all(block: &[Statement], test: &impl Fn(&Statement) -> bool) -> bool {
    block.iter().all(|statement| {
        test(statement)
            && match statement {
                Statement::If { then, otherwise, .. } => all(then, test) && all(otherwise, test),
                Statement::For { body, .. } | Statement::Loop { body } => all(body, test),
                _ => true,
            }
    })
}

/// Whether control always continues behind a statement, which cannot fail.
fn goes_on(statement: &Statement) -> bool {
    !matches!(
        statement,
        Statement::Position { .. }
            | Statement::If { missing: Some(_), .. }
            | Statement::Loop { .. }
            | Statement::Break
            | Statement::Next
            | Statement::Return
            | Statement::Fail(_)
    )
}
