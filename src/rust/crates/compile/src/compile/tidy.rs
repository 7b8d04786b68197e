//! Dead code elimination and renumbering of registers.

use std::collections::HashMap;

use crate::{written, Block, Draw, Failure, FailureId, Operand, Register, Routine, Statement};
use verdigris_ops::dtype::Class;

pub fn tidy(routine: &mut Routine) {
    if let Some(Statement::Return) = routine.body.last() {
        routine.body.pop();
    }
    let mut live = Live {
        registers: vec![false; routine.registers.len()],
        arrays: vec![false; routine.arrays.len()],
        found: true,
    };
    for (register, _) in &routine.results {
        live.registers[*register as usize] = true;
    }
    while std::mem::take(&mut live.found) {
        live.mark(&routine.body);
    }
    live.sweep(&mut routine.body);
    check_written(routine, live.registers);
    renumber(routine);
    keep_failures(routine);
    let mut notes = Vec::new();
    routine.walk(&mut |statement| match statement {
        Statement::Apply { op, class, .. } if op.may_warn(*class) && !notes.contains(op) => notes.push(*op),
        Statement::Draw { draw: Draw::Row(op), .. } if op.may_warn(Class::F64) && !notes.contains(op) => {
            notes.push(*op)
        }
        _ => {}
    });
    routine.notes = notes;
}

/// Panics if a register is read but never written: that would be a fault of the compiler, and its value undefined.
fn check_written(routine: &Routine, mut read: Vec<bool>) {
    for parameter in &routine.parameters {
        read[parameter.register as usize] = false;
    }
    written(&routine.body).into_iter().for_each(|register| read[register as usize] = false);
    assert!(!read.contains(&true), "a register is read that nothing writes:\n{routine}");
}

/// Removes failures that no statement names.
fn keep_failures(routine: &mut Routine) {
    let mut kept = vec![None; routine.failures.len()];
    let mut next = 0;
    each_failure(&mut routine.body, &mut |id| {
        kept[*id as usize].get_or_insert_with(|| {
            next += 1;
            next - 1
        });
    });
    each_failure(&mut routine.body, &mut |id| *id = kept[*id as usize].expect("it was met"));
    let mut failures = vec![Failure::default(); next as usize];
    for (failure, to) in std::mem::take(&mut routine.failures).into_iter().zip(kept) {
        if let Some(to) = to {
            failures[to as usize] = failure;
        }
    }
    routine.failures = failures;
}

/// Calls `visit` for every failure that can happen. Positions that are marked inside cannot fail: their ids are reset.
fn each_failure(block: &mut Block, visit: &mut dyn FnMut(&mut FailureId)) {
    for statement in block {
        match statement {
            Statement::Position { inside: true, low, high, .. } => (*low, *high) = (0, None),
            Statement::Position { low, high, .. } => {
                visit(low);
                high.iter_mut().for_each(&mut *visit);
            }
            Statement::If { missing, then, otherwise, .. } => {
                missing.iter_mut().for_each(&mut *visit);
                each_failure(then, visit);
                each_failure(otherwise, visit);
            }
            Statement::For { body, .. } | Statement::Loop { body } => each_failure(body, visit),
            Statement::Fail(id) => visit(id),
            _ => {}
        }
    }
}

/// Registers and arrays that a result, a warning or a failure depends on. A register that only its own next value needs
/// is dead.
struct Live {
    registers: Vec<bool>,
    arrays: Vec<bool>,
    /// Whether the current pass has marked anything new.
    found: bool,
}

impl Live {
    /// Marks the operands of the statements that stay, in reverse order, since operands are computed before their use.
    fn mark(&mut self, block: &Block) {
        for statement in block.iter().rev() {
            match statement {
                Statement::If { then, otherwise, .. } => {
                    self.mark(then);
                    self.mark(otherwise);
                }
                Statement::For { body, .. } | Statement::Loop { body } => self.mark(body),
                _ => {}
            }
            if !self.stays(statement) {
                continue;
            }
            for operand in statement.operands() {
                if let Operand::Register(r) = operand {
                    self.found |= !std::mem::replace(&mut self.registers[r as usize], true);
                }
            }
            if let Statement::Get { array, .. } = statement {
                self.found |= !std::mem::replace(&mut self.arrays[*array as usize], true);
            }
        }
    }

    fn stays(&self, statement: &Statement) -> bool {
        let any = |block: &Block| block.iter().any(|s| self.stays(s));
        match statement {
            Statement::Apply { to, op, class, .. } => self.registers[*to as usize] || op.may_warn(*class),
            Statement::Move { to, .. }
            | Statement::Step { to, .. }
            | Statement::Offset { to, .. }
            | Statement::Read { to, .. }
            | Statement::Get { to, .. }
            | Statement::Position { to, inside: true, .. } => self.registers[*to as usize],
            Statement::Set { array, .. } => self.arrays[*array as usize],
            Statement::If { missing, then, otherwise, .. } => missing.is_some() || any(then) || any(otherwise),
            Statement::For { body, .. } => any(body),
            _ => true,
        }
    }

    fn sweep(&self, block: &mut Block) {
        block.retain_mut(|statement| {
            let stays = self.stays(statement);
            match statement {
                Statement::If { then, otherwise, .. } if stays => {
                    self.sweep(then);
                    self.sweep(otherwise);
                }
                Statement::For { body, .. } | Statement::Loop { body } if stays => self.sweep(body),
                _ => {}
            }
            stays
        });
    }
}

/// Renumbers the remaining registers and arrays in the order of their first use.
fn renumber(routine: &mut Routine) {
    let mut registers: HashMap<Register, Register> = HashMap::new();
    let mut arrays: HashMap<u16, u16> = HashMap::new();
    let note = |r: Register, map: &mut HashMap<Register, Register>| {
        let next = map.len() as Register;
        map.entry(r).or_insert(next);
    };
    for parameter in &routine.parameters {
        note(parameter.register, &mut registers);
    }
    routine.walk(&mut |statement| {
        if let Some(r) = statement.written() {
            note(r, &mut registers);
        }
        for operand in statement.operands() {
            if let Operand::Register(r) = operand {
                note(r, &mut registers);
            }
        }
        match statement {
            Statement::For { counter, .. } => note(*counter, &mut registers),
            Statement::Get { array, .. } | Statement::Set { array, .. } => {
                let next = arrays.len() as u16;
                arrays.entry(*array).or_insert(next);
            }
            _ => {}
        }
    });
    for (r, _) in &routine.results {
        note(*r, &mut registers);
    }
    let mut classes = vec![Class::I32; registers.len()];
    let mut names = vec![String::new(); registers.len()];
    for (old, new) in &registers {
        classes[*new as usize] = routine.registers[*old as usize];
        names[*new as usize] = routine.names[*old as usize].clone();
    }
    routine.registers = classes;
    routine.names = names;
    let mut kept: Vec<(u16, u16)> = arrays.iter().map(|(&old, &new)| (new, old)).collect();
    kept.sort();
    routine.arrays = kept.into_iter().map(|(_, old)| routine.arrays[old as usize].clone()).collect();
    for parameter in &mut routine.parameters {
        parameter.register = registers[&parameter.register];
    }
    for (r, _) in &mut routine.results {
        *r = registers[r];
    }
    rename(&mut routine.body, &registers, &arrays);
}

fn rename(block: &mut Block, registers: &HashMap<Register, Register>, arrays: &HashMap<u16, u16>) {
    let one = |r: &mut Register| *r = registers[r];
    let operand = |o: &mut Operand| {
        if let Operand::Register(r) = o {
            *r = registers[r];
        }
    };
    for statement in block {
        match statement {
            Statement::Apply { to, args, .. } => {
                one(to);
                args.iter_mut().for_each(operand);
            }
            Statement::Move { to, from } => {
                one(to);
                operand(from);
            }
            Statement::Step { to, from, counter, step } => {
                one(to);
                operand(from);
                one(counter);
                operand(step);
            }
            Statement::Position { to, from, extent, .. } => {
                one(to);
                operand(from);
                operand(extent);
            }
            Statement::Offset { to, at } => {
                one(to);
                for (position, stride) in at {
                    operand(position);
                    operand(stride);
                }
            }
            Statement::Read { to, at, .. } => {
                one(to);
                operand(at);
            }
            Statement::Get { to, array, at } => {
                one(to);
                *array = arrays[array];
                operand(at);
            }
            Statement::Set { array, at, value } => {
                *array = arrays[array];
                operand(at);
                operand(value);
            }
            Statement::Draw { to, count, args, .. } => {
                one(to);
                one(count);
                args.iter_mut().for_each(operand);
            }
            Statement::If { value, then, otherwise, .. } => {
                operand(value);
                rename(then, registers, arrays);
                rename(otherwise, registers, arrays);
            }
            Statement::For { counter, times, body } => {
                one(counter);
                operand(times);
                rename(body, registers, arrays);
            }
            Statement::Loop { body } => rename(body, registers, arrays),
            Statement::Break | Statement::Next | Statement::Return | Statement::Fail(_) => {}
        }
    }
}
