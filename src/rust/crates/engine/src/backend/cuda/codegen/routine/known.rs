//! Facts about registers at a point of a routine, such as: certainly not NA or NaN. A known value needs no test.

use std::collections::{BTreeMap, BTreeSet};

use verdigris_compile::{Operand, Register};
use verdigris_ops::dtype::Class;
use verdigris_ops::scalar::{Scalar, NA_I32, NA_I64};
use verdigris_ops::{id, OpId};

#[derive(Clone, Default, Debug)]
pub struct Known {
    /// Neither NA nor NaN.
    numbers: BTreeSet<Register>,
    /// Above 0.
    positive: BTreeSet<Register>,
    /// Positions that are not -1, and below this extent, where it is known.
    found: BTreeMap<Register, Option<Operand>>,
    /// Offsets in a table along some of its axes (bits), inside along these.
    parts: BTreeMap<Register, (u16, u8)>,
    /// How a register came by its value, where the operands still have theirs.
    made: BTreeMap<Register, (OpId, Vec<Operand>)>,
}

impl Known {
    pub fn is_number(&self, operand: Operand) -> bool {
        match operand {
            Operand::Register(r) => self.numbers.contains(&r),
            Operand::Constant(scalar) => is_number(scalar),
        }
    }

    /// Whether a position is inside.
    pub fn is_found(&self, operand: Operand) -> bool {
        match operand {
            Operand::Register(r) => self.found.contains_key(&r),
            Operand::Constant(scalar) => matches!(scalar, Scalar::I64(0..)),
        }
    }

    /// Whether a position is inside this extent.
    pub fn is_below(&self, operand: Operand, extent: Register) -> bool {
        let within = |r| self.found.get(&r).copied().flatten();
        operand.register().and_then(within) == Some(Operand::Register(extent))
    }

    /// The extent that a position is inside of.
    pub fn extent(&self, operand: Operand) -> Option<Operand> {
        self.found.get(&operand.register()?).copied().flatten()
    }

    /// The table, and the axes of it, along which an offset is inside.
    pub fn part(&self, operand: Operand) -> Option<(u16, u8)> {
        self.parts.get(&operand.register()?).copied()
    }

    pub fn is_part(&mut self, register: Register, part: (u16, u8)) {
        self.parts.insert(register, part);
    }

    /// A register gets a new value.
    pub fn forget(&mut self, register: Register) {
        let own = Operand::Register(register);
        self.numbers.remove(&register);
        self.positive.remove(&register);
        self.found.remove(&register);
        self.parts.remove(&register);
        self.found.values_mut().filter(|extent| **extent == Some(own)).for_each(|extent| *extent = None);
        self.made.remove(&register);
        self.made.retain(|_, (_, args)| !args.contains(&own));
    }

    pub fn number(&mut self, register: Register) {
        self.numbers.insert(register);
    }

    /// A number that is above 0.
    pub fn positive(&mut self, register: Register) {
        self.number(register);
        self.positive.insert(register);
    }

    pub fn is_positive(&self, operand: Operand) -> bool {
        operand.register().is_some_and(|r| self.positive.contains(&r))
    }

    pub fn found(&mut self, register: Register, extent: Option<Operand>) {
        self.number(register);
        self.found.insert(register, extent);
    }

    /// A register has just got a row's value.
    pub fn computed(&mut self, register: Register, op: OpId, class: Class, args: &[Operand]) {
        let is_number = self.stays_number(op, class, args);
        self.forget(register);
        if is_number {
            self.number(register);
        }
        if passes_on(op) && !args.contains(&Operand::Register(register)) {
            self.made.insert(register, (op, args.to_vec()));
        }
    }

    /// A register has just got another's value.
    pub fn moved(&mut self, register: Register, from: Operand) {
        if from == Operand::Register(register) {
            return;
        }
        let (is_number, found, positive) = (self.is_number(from), self.is_found(from), self.is_positive(from));
        let extent = from.register().and_then(|r| self.found.get(&r).copied().flatten());
        let made = from.register().and_then(|r| self.made.get(&r).cloned());
        let part = self.part(from);
        self.forget(register);
        part.into_iter().for_each(|part| self.is_part(register, part));
        if is_number {
            self.number(register);
        }
        if positive {
            self.positive(register);
        }
        if found {
            self.found(register, extent);
        }
        if let Some(made) = made.filter(|(_, args)| !args.contains(&Operand::Register(register))) {
            self.made.insert(register, made);
        }
    }

    /// A value has turned out to be a number: so was all that it came of.
    pub fn learn(&mut self, operand: Operand) {
        let Operand::Register(register) = operand else { return };
        if self.numbers.insert(register) {
            if let Some((_, args)) = self.made.get(&register).cloned() {
                args.into_iter().for_each(|arg| self.learn(arg));
            }
        }
    }

    /// What is known where two ways meet.
    pub fn meet(mut self, other: &Known) -> Known {
        self.numbers.retain(|r| other.numbers.contains(r));
        self.positive.retain(|r| other.positive.contains(r));
        self.found.retain(|r, extent| other.found.get(r).is_some_and(|found| found == extent));
        self.parts.retain(|r, part| other.parts.get(r) == Some(part));
        self.made.retain(|r, made| other.made.get(r) == Some(made));
        self
    }

    /// Whether a row's value is a number for such operands, whatever they are.
    fn stays_number(&self, op: OpId, class: Class, args: &[Operand]) -> bool {
        let all = args.iter().all(|&arg| self.is_number(arg));
        if !all {
            return false;
        }
        let floats = matches!(class, Class::F32 | Class::F64);
        // with a finite number that is not 0 infinity stays what it is, and no other NaN comes of it
        let plain = |x: &Operand| matches!(x, Operand::Constant(scalar) if is_plain(*scalar));
        match op {
            id::EQ | id::NE | id::LT | id::LE | id::GT | id::GE | id::AND | id::OR | id::NOT | id::XOR => true,
            id::NEG | id::POS | id::ABS | id::PMIN | id::PMAX => true,
            id::FLOOR | id::CEILING | id::TRUNC | id::EXP if floats => true,
            id::ADD | id::SUB | id::MUL if floats => args.iter().any(plain) || op == id::MUL && args[0] == args[1],
            id::DIV if floats => plain(&args[1]),
            id::TO_FLOAT64 => matches!(class, Class::I32 | Class::F32 | Class::F64),
            id::TO_BOOL8 => true,
            _ => false,
        }
    }
}

/// Rows whose value is NA or NaN where any operand is.
fn passes_on(op: OpId) -> bool {
    [id::ADD, id::SUB, id::MUL, id::DIV, id::NEG, id::POS, id::ABS, id::SQRT, id::EXP, id::LOG].contains(&op)
        || [id::FLOOR, id::CEILING, id::TRUNC, id::TO_FLOAT64].contains(&op)
}

fn is_number(scalar: Scalar) -> bool {
    match scalar {
        Scalar::I32(x) => x != NA_I32,
        Scalar::I64(x) => x != NA_I64,
        Scalar::F32(x) => !x.is_nan(),
        Scalar::F64(x) => !x.is_nan(),
        Scalar::C64(_) | Scalar::C128(_) => false,
    }
}

fn is_plain(scalar: Scalar) -> bool {
    match scalar {
        Scalar::F32(x) => x.is_normal(),
        Scalar::F64(x) => x.is_normal(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Operand = Operand::Register(0);

    #[test]
    fn what_a_number_came_of_was_numbers() {
        let mut known = Known::default();
        known.computed(1, id::MUL, Class::F64, &[X, X]);
        known.computed(2, id::ADD, Class::F64, &[Operand::Register(1), Operand::Constant(Scalar::F64(1.0))]);
        assert!(!known.is_number(X));
        known.learn(Operand::Register(2));
        assert!((0..3).all(|r| known.is_number(Operand::Register(r))));
        known.forget(0);
        known.computed(3, id::SUB, Class::F64, &[Operand::Register(1), Operand::Register(2)]);
        assert!(!known.is_number(X) && !known.is_number(Operand::Register(3)));
        assert!(known.is_number(Operand::Register(1)));
    }

    #[test]
    fn an_old_operand_says_nothing_of_a_new_one() {
        let mut known = Known::default();
        known.computed(1, id::MUL, Class::F64, &[X, X]);
        known.forget(0);
        known.learn(Operand::Register(1));
        assert!(!known.is_number(X));
    }
}
