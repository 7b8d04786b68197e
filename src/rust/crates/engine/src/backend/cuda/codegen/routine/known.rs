//! Data-flow facts about registers at a point of a routine, such as "not NA or NaN". Tests that a fact makes redundant
//! are not written.

use std::collections::{BTreeMap, BTreeSet};

use verdigris_compile::{Operand, Register};
use verdigris_ops::dtype::Class;
use verdigris_ops::scalar::{Scalar, NA_I32, NA_I64};
use verdigris_ops::{id, OpId};

/// The facts at the current point of the code.
#[derive(Clone, Default, Debug)]
pub struct Known {
    /// Registers that are neither NA nor NaN.
    numbers: BTreeSet<Register>,
    /// Registers that are greater than 0.
    positive: BTreeSet<Register>,
    /// 0-based positions that are not negative, and the extent that they are below, if known.
    valid_positions: BTreeMap<Register, Option<Operand>>,
    /// Offsets into a table that are composed of in-range positions along some of its axes: the table and the axes, as
    /// bits.
    in_range_axes: BTreeMap<Register, (u16, u8)>,
    /// The operation and operands that a register was computed from, as long as the operands still have these values.
    /// Only operations that propagate NA.
    made: BTreeMap<Register, (OpId, Vec<Operand>)>,
}

impl Known {
    pub fn is_number(&self, operand: Operand) -> bool {
        match operand {
            Operand::Register(r) => self.numbers.contains(&r),
            Operand::Constant(scalar) => is_number(scalar),
        }
    }

    /// Whether a position is known not to be negative.
    pub fn is_valid_position(&self, operand: Operand) -> bool {
        match operand {
            Operand::Register(r) => self.valid_positions.contains_key(&r),
            Operand::Constant(scalar) => matches!(scalar, Scalar::I64(0..)),
        }
    }

    /// Whether a position is known to be within this extent.
    pub fn is_below(&self, operand: Operand, extent: Register) -> bool {
        let within = |r| self.valid_positions.get(&r).copied().flatten();
        operand.register().and_then(within) == Some(Operand::Register(extent))
    }

    /// The extent that a position is known to be below.
    pub fn extent(&self, operand: Operand) -> Option<Operand> {
        self.valid_positions.get(&operand.register()?).copied().flatten()
    }

    /// The table and the axes (bits) for which an offset is known to be in range.
    pub fn in_range_axes(&self, operand: Operand) -> Option<(u16, u8)> {
        self.in_range_axes.get(&operand.register()?).copied()
    }

    pub fn note_in_range_axes(&mut self, register: Register, part: (u16, u8)) {
        self.in_range_axes.insert(register, part);
    }

    /// Drops all facts about a register, which gets a new value, and those that refer to it.
    pub fn forget(&mut self, register: Register) {
        let own = Operand::Register(register);
        self.numbers.remove(&register);
        self.positive.remove(&register);
        self.valid_positions.remove(&register);
        self.in_range_axes.remove(&register);
        self.valid_positions.values_mut().filter(|extent| **extent == Some(own)).for_each(|extent| *extent = None);
        self.made.remove(&register);
        self.made.retain(|_, (_, args)| !args.contains(&own));
    }

    pub fn number(&mut self, register: Register) {
        self.numbers.insert(register);
    }

    /// Records that a register is a number greater than 0.
    pub fn positive(&mut self, register: Register) {
        self.number(register);
        self.positive.insert(register);
    }

    pub fn is_positive(&self, operand: Operand) -> bool {
        operand.register().is_some_and(|r| self.positive.contains(&r))
    }

    /// Records that a register is a valid position, below `extent` if that is given.
    pub fn note_valid_position(&mut self, register: Register, extent: Option<Operand>) {
        self.number(register);
        self.valid_positions.insert(register, extent);
    }

    /// Updates the facts after an operation has been assigned to a register.
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

    /// Updates the facts after a register has been assigned the value of an operand.
    pub fn moved(&mut self, register: Register, from: Operand) {
        if from == Operand::Register(register) {
            return;
        }
        let (is_number, found, positive) = (self.is_number(from), self.is_valid_position(from), self.is_positive(from));
        let extent = from.register().and_then(|r| self.valid_positions.get(&r).copied().flatten());
        let made = from.register().and_then(|r| self.made.get(&r).cloned());
        let part = self.in_range_axes(from);
        self.forget(register);
        part.into_iter().for_each(|part| self.note_in_range_axes(register, part));
        if is_number {
            self.number(register);
        }
        if positive {
            self.positive(register);
        }
        if found {
            self.note_valid_position(register, extent);
        }
        if let Some(made) = made.filter(|(_, args)| !args.contains(&Operand::Register(register))) {
            self.made.insert(register, made);
        }
    }

    /// Records that a value is a number. Then so are the operands that it was computed from.
    pub fn learn(&mut self, operand: Operand) {
        let Operand::Register(register) = operand else { return };
        if self.numbers.insert(register) {
            if let Some((_, args)) = self.made.get(&register).cloned() {
                args.into_iter().for_each(|arg| self.learn(arg));
            }
        }
    }

    /// The facts that hold where two branches join: those that hold in both.
    pub fn meet(mut self, other: &Known) -> Known {
        self.numbers.retain(|r| other.numbers.contains(r));
        self.positive.retain(|r| other.positive.contains(r));
        self.valid_positions.retain(|r, extent| other.valid_positions.get(r).is_some_and(|known| known == extent));
        self.in_range_axes.retain(|r, part| other.in_range_axes.get(r) == Some(part));
        self.made.retain(|r, made| other.made.get(r) == Some(made));
        self
    }

    /// Whether the result of an operation is a number whenever its operands are.
    fn stays_number(&self, op: OpId, class: Class, args: &[Operand]) -> bool {
        let all = args.iter().all(|&arg| self.is_number(arg));
        if !all {
            return false;
        }
        let floats = matches!(class, Class::F32 | Class::F64);
        // with a finite nonzero constant as one operand, infinity does not turn into NaN
        let is_normal = |x: &Operand| matches!(x, Operand::Constant(scalar) if is_normal_constant(*scalar));
        match op {
            id::EQ | id::NE | id::LT | id::LE | id::GT | id::GE | id::AND | id::OR | id::NOT | id::XOR => true,
            id::NEG | id::POS | id::ABS | id::PMIN | id::PMAX => true,
            id::FLOOR | id::CEILING | id::TRUNC | id::EXP if floats => true,
            id::ADD | id::SUB | id::MUL if floats => args.iter().any(is_normal) || op == id::MUL && args[0] == args[1],
            id::DIV if floats => is_normal(&args[1]),
            id::TO_FLOAT64 => matches!(class, Class::I32 | Class::F32 | Class::F64),
            id::TO_BOOL8 => true,
            _ => false,
        }
    }
}

/// Operations that propagate NA and NaN of any operand.
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

/// Whether a constant is finite, not 0 and not denormal.
fn is_normal_constant(scalar: Scalar) -> bool {
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
