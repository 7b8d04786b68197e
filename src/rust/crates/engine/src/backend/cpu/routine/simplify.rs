//! Rewrites a block of statements, before it is lowered, to cheaper statements with the same values.

use std::collections::BTreeMap;

use super::live::Set;
use verdigris_compile::{Block, Operand, Register, Routine, Statement};
use verdigris_ops::dtype::Class;
use verdigris_ops::id;
use verdigris_ops::scalar::Scalar;

/// Up to this many statements, both branches of a condition are run and a select takes the result: cheaper than
/// divergence.
const MOST_SELECTED: usize = 8;

/// Turns x^2 into x * x, as `r_pow` of arith.h does.
pub fn simplify(block: &Block) -> Block {
    let two = |operand: &Operand| {
        matches!(operand, Operand::Constant(Scalar::F64(x)) if *x == 2.0)
            || matches!(operand, Operand::Constant(Scalar::F32(x)) if *x == 2.0)
    };
    let one = |statement: &Statement| match statement {
        Statement::Apply { to, op: id::POW, class: class @ (Class::F64 | Class::F32), args } if two(&args[1]) => {
            Statement::Apply { to: *to, op: id::MUL, class: *class, args: vec![args[0], args[0]] }
        }
        Statement::If { value, missing, then, otherwise } => {
            Statement::If { value: *value, missing: *missing, then: simplify(then), otherwise: simplify(otherwise) }
        }
        Statement::For { counter, times, body } => {
            Statement::For { counter: *counter, times: *times, body: simplify(body) }
        }
        Statement::Loop { body } => Statement::Loop { body: simplify(body) },
        other => other.clone(),
    };
    block.iter().map(one).collect()
}

/// Whether lanes that should not run the statement may run it, provided that its result is discarded for them.
fn is_harmless(routine: &Routine, statement: &Statement) -> bool {
    match statement {
        Statement::Apply { op, class, .. } => op.is_plain() && !is_noted(routine, statement) && class.size() <= 8,
        Statement::Move { .. } | Statement::Step { .. } => true,
        _ => false,
    }
}

/// Whether the statement may set flag bits that the routine reports.
pub fn is_noted(routine: &Routine, statement: &Statement) -> bool {
    match statement {
        Statement::Apply { op, class, .. } => op.may_warn(*class) && routine.notes.contains(op),
        Statement::Draw { draw: verdigris_compile::Draw::Row(op), .. } => routine.notes.contains(op),
        _ => false,
    }
}

/// The two blocks of an `If` as one block without a branch: each block writes to new registers, and a select keeps the
/// values of each lane's block. None if that would not be equivalent, or not cheaper. The classes of the new registers
/// are appended to `classes`.
pub fn merged(
    routine: &Routine,
    classes: &mut Vec<Class>,
    test: Operand,
    [then, otherwise]: [&Block; 2],
    after: &Set,
) -> Option<Block> {
    if then.len() + otherwise.len() > MOST_SELECTED || !then.iter().chain(otherwise).all(|s| is_harmless(routine, s)) {
        return None;
    }
    let mut out = Vec::new();
    let mut renamed = |block: &Block, out: &mut Block| {
        let mut now: BTreeMap<Register, Register> = BTreeMap::new();
        for statement in block {
            let mut statement = statement.clone();
            let current = |operand: &mut Operand| {
                if let Operand::Register(r) = operand {
                    *r = now.get(r).copied().unwrap_or(*r);
                }
            };
            let to = match &mut statement {
                Statement::Apply { to, args, .. } => {
                    args.iter_mut().for_each(current);
                    to
                }
                Statement::Move { to, from } => {
                    current(from);
                    to
                }
                Statement::Step { to, from, step, .. } => {
                    [from, step].into_iter().for_each(current);
                    to
                }
                _ => unreachable!("harmless statements are these"),
            };
            let own = Register::try_from(classes.len()).ok()?;
            classes.push(classes[*to as usize]);
            now.insert(*to, own);
            *to = own;
            out.push(statement);
        }
        Some(now)
    };
    let (yes, no) = (renamed(then, &mut out)?, renamed(otherwise, &mut out)?);
    let written: Set = yes.keys().chain(no.keys()).copied().filter(|r| after.contains(*r)).collect();
    // The register of the test is selected last, if it is among them.
    let mut written: Vec<Register> = written.iter().collect();
    written.sort_by_key(|r| Operand::Register(*r) == test);
    for r in written {
        let of = |now: &BTreeMap<Register, Register>| Operand::Register(now.get(&r).copied().unwrap_or(r));
        let class = classes[r as usize];
        out.push(Statement::Apply { to: r, op: id::SELECT, class, args: vec![test, of(&yes), of(&no)] });
    }
    Some(out)
}
