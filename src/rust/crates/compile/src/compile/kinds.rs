//! Numbers whose type in R depends on the way that was taken: `if (v > 0) 1L else 0.5` is an integer or a double.
//! Compiled code stores them as the wider type. Where R would show the difference (logical subscripts, integer
//! arithmetic, type tests), the routine is marked, so that a caller that promises base R's results leaves the call to
//! base R.

use verdigris_ops::dtype::{Class, Kind};
use verdigris_ops::rule::{resolve, Typed};
use verdigris_ops::scalar::{Scalar, NA_I32};
use verdigris_ops::{id, OpId};

use super::value::{Number, Value, Vector};
use super::{Compiler, Operand, Register};

/// Kinds that a number may have, a bit each, in the order of R's types.
pub(super) type Kinds = u8;

/// `NA` as it is written in one of several ways: it is logical, but counts as a missing number except as a subscript.
const MISSING: Kinds = 1;
const LOGICAL: Kinds = 2;
/// Set where ways with different kinds meet. If it is not set, several kinds are those of the elements of `a:b` with a
/// computed `a`: stored as doubles, integers in R, and so small that their sums do not overflow.
const MET: Kinds = 64;

fn bit(kind: Kind) -> Kinds {
    match kind {
        Kind::Logical => LOGICAL,
        Kind::Integer => 4,
        Kind::Integer64 => 8,
        Kind::Double => 16,
        Kind::Complex => 32,
    }
}

fn kind(bit: Kinds) -> Kind {
    match bit {
        32 => Kind::Complex,
        16 => Kind::Double,
        8 => Kind::Integer64,
        4 => Kind::Integer,
        _ => Kind::Logical,
    }
}

/// The kinds of a type.
pub(super) fn of(typed: Typed) -> Kinds {
    bit(super::value::dtype(typed).kind())
}

/// Whether R has different types for these.
pub(super) fn differ(a: Typed, b: Typed) -> bool {
    of(a) != of(b)
}

/// Whether these are several kinds, apart from missing values.
fn vary(kinds: Kinds) -> bool {
    (kinds & !(MISSING | MET)).count_ones() > 1
}

/// The kinds of what several ways give.
pub(super) fn met(ways: impl Iterator<Item = Kinds> + Clone) -> Kinds {
    let all = ways.clone().fold(0, |all, kinds| all | kinds);
    if ways.into_iter().all(|kinds| kinds == all) {
        all
    } else {
        all | MET
    }
}

/// The lowest kind, apart from missing values.
fn lowest(kinds: Kinds) -> Kind {
    let known = kinds & !(MISSING | MET);
    kind(known & known.wrapping_neg())
}

/// The kind of an operation's result; None for operands that it does not take.
fn result_kind(op: OpId, types: impl Iterator<Item = Typed>) -> Option<Kind> {
    resolve(op, &types.collect::<Vec<_>>()).map(|(_, dtype)| dtype.kind()).ok()
}

/// What R's types of a routine's values depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Varying {
    /// The way taken decides about a value within the function, or about a condition of R.
    pub within: bool,
    /// The way taken decides about the type of a result.
    pub result: bool,
    /// An `NA` of logical type has met numbers: a result that is always NA may have another type.
    pub missing: bool,
    /// c() makes names. R's result may have them, and names of its operands are part of them.
    pub names: bool,
}

fn is_logical(v: &Vector) -> bool {
    super::value::dtype(v.typed()).kind() == Kind::Logical
}

/// Whether a logical vector can be proved never to be NA.
pub(super) fn never_missing(v: &Vector) -> bool {
    let known = |n: &Number| n.constant().is_some_and(|s| s.to_logical() != Scalar::na(Class::I32));
    match v {
        Vector::Except { .. } => true,
        Vector::Same { value, .. } => known(value),
        Vector::Map { op: id::IS_NA | id::IS_NAN | id::IS_FINITE | id::IS_INFINITE, .. } => true,
        Vector::Map { op: id::NOT | id::AND | id::OR, args, .. } => args.iter().all(|arg| match arg {
            Value::Number(n) => known(n),
            Value::Vector(v) => is_logical(v) && never_missing(v),
            _ => false,
        }),
        _ => false,
    }
}

impl Compiler<'_> {
    /// The kinds that a number may have in R.
    pub(super) fn kinds(&self, n: Number) -> Kinds {
        match n.at {
            Operand::Constant(Scalar::I32(NA_I32)) if n.kind() == Kind::Logical => MISSING,
            Operand::Register(r) => self.mixed.get(&r).copied().unwrap_or(bit(n.kind())),
            Operand::Constant(_) => bit(n.kind()),
        }
    }

    /// Notes the kinds of what a register may hold. Returns whether there are more than before.
    pub(super) fn mark(&mut self, register: Register, typed: Typed, kinds: Kinds) -> bool {
        let own = of(typed);
        let before = self.mixed.get(&register).copied().unwrap_or(own);
        let all = before | kinds;
        // a missing logical among logicals is one of them
        let all = if all & !(MISSING | MET) == LOGICAL { LOGICAL } else { all };
        if all == before {
            return false;
        }
        self.varying.missing |= all & MISSING != 0;
        self.mixed.insert(register, all);
        true
    }

    /// Notes that a copy of a register may hold what the register may.
    pub(super) fn mark_copy(&mut self, from: Register, to: Register) {
        if let Some(&kinds) = self.mixed.get(&from) {
            self.mixed.insert(to, kinds);
        }
    }

    pub(super) fn varies(&self, n: Number) -> bool {
        matches!(n.at, Operand::Register(r) if self.mixed.get(&r).is_some_and(|&kinds| vary(kinds)))
    }

    /// A number stands where its type in R counts.
    pub(super) fn needs_one_kind(&mut self, n: Number) {
        self.varying.within |= self.varies(n);
    }

    /// A number stands where R tells a logical from a number.
    pub(super) fn needs_known_logical(&mut self, n: Number) {
        if let Operand::Register(r) = n.at {
            self.varying.within |= self.mixed.get(&r).is_some_and(|kinds| kinds & (LOGICAL | MISSING) != 0);
        }
    }

    /// Numbers and vectors are combined to one vector, whose type is the widest.
    pub(super) fn needs_one_type<'v>(&mut self, parts: impl Iterator<Item = &'v Value>) {
        let (mut low, mut high, mut any) = (Kind::Logical, Kind::Logical, false);
        for part in parts {
            let (from, to) = match part {
                Value::Number(n) => (self.low(*n).kind(), n.kind()),
                Value::Vector(v) => {
                    let kind = super::value::dtype(v.typed()).kind();
                    (if Self::is_stepped(v) { Kind::Integer } else { kind }, kind)
                }
                _ => continue,
            };
            (low, high, any) = (low.max(from), high.max(to), true);
        }
        self.varying.within |= any && low != high;
    }

    /// The number with the lowest kind that it may have in R.
    fn low(&self, n: Number) -> Number {
        match n.at {
            Operand::Register(r) if self.varies(n) => Number { typed: Typed::Value(lowest(self.mixed[&r])), ..n },
            _ => n,
        }
    }

    /// The kind of an operation's result if its operands have the lowest of their kinds, unless it is the same. Where
    /// the values may differ too, this is noted.
    pub(super) fn lower_result(&mut self, op: OpId, args: &[Number]) -> Option<Kinds> {
        if op == id::SELECT || !args.iter().any(|&n| self.varies(n)) {
            return None;
        }
        let low = result_kind(op, args.iter().map(|&n| self.low(n).typed));
        if low == result_kind(op, args.iter().map(|n| n.typed)) {
            return None;
        }
        // none of these overflows
        let safe = [id::NEG, id::POS, id::ABS].contains(&op);
        let large = |n: &Number| n.whole().is_some_and(|k| k.unsigned_abs() >= 1 << 30);
        let small = args.iter().all(|&n| self.kinds(n) & MET == 0) && !args.iter().any(large);
        let safe = safe || small && [id::ADD, id::SUB].contains(&op);
        self.varying.within |= !safe;
        low.map(bit)
    }

    /// The number in a register of its own if R has converted it, so that it has one kind.
    pub(super) fn of_one_kind(&mut self, n: Number) -> Number {
        match n.at {
            Operand::Register(r) if self.mixed.contains_key(&r) => {
                let to = self.fresh(n.class());
                self.write(to, n.at);
                Number::register(to, n.typed)
            }
            _ => n,
        }
    }

    /// Whether the elements are those of `a:b` with a computed double `a`, or integers computed from them: in R they
    /// are integers if `a` is whole.
    fn is_stepped(v: &Vector) -> bool {
        match v {
            Vector::Range { from, .. } => from.typed == Typed::Value(Kind::Double) && from.constant().is_none(),
            Vector::Map { args, .. } => {
                let whole = |a: &Value| match a {
                    Value::Number(n) => n.kind() != Kind::Double,
                    Value::Vector(v) => super::value::dtype(v.typed()).kind() != Kind::Double || Self::is_stepped(v),
                    _ => false,
                };
                args.iter().all(whole) && args.iter().any(|a| matches!(a, Value::Vector(v) if Self::is_stepped(v)))
            }
            _ => false,
        }
    }

    /// `NA` as it is written: logical.
    pub(super) fn is_missing(&self, n: Number) -> bool {
        self.kinds(n) == MISSING
    }

    /// Ways meet of which others give a vector of this type. Of one of NA alone (`rep(NA, 3)`) only the type is left.
    pub(super) fn needs_type(&mut self, v: &Vector, typed: Typed) {
        if differ(v.typed(), typed) {
            match v {
                Vector::Local { array, .. } if self.missing_arrays.contains(array) => self.varying.missing = true,
                _ => self.varying.within = true,
            }
        }
    }

    /// A vector stands where its type in R counts.
    pub(super) fn needs_known_type(&mut self, v: &Vector) {
        self.varying.within |= Self::is_stepped(v);
    }

    /// The same of vectors.
    pub(super) fn needs_one_result(&mut self, op: OpId, args: &[Value]) {
        if op == id::SELECT {
            self.needs_one_type(args[1..].iter());
            return;
        }
        let this = &*self;
        let types = |low: bool| {
            args.iter().filter_map(move |a| match a {
                Value::Number(n) => Some(if low { this.low(*n).typed } else { n.typed }),
                Value::Vector(v) => Some(v.typed()),
                _ => None,
            })
        };
        let differs = result_kind(op, types(true)) != result_kind(op, types(false));
        self.varying.within |= differs;
    }

    /// The result of `ifelse()` of a vector has in R the type of the alternatives that some element takes, and is
    /// logical where all are NA.
    pub(super) fn needs_one_choice(&mut self, test: &Vector, choices: &[Value]) {
        let all = choices.iter().fold(0, |all, choice| match choice {
            Value::Number(n) => all | self.kinds(*n),
            Value::Vector(v) => all | of(v.typed()),
            _ => all,
        });
        self.varying.missing |= all & MISSING != 0 || !never_missing(test);
        self.varying.within |= vary(all);
    }

    /// The elements of `a:b` with a computed double `a` are integers in R if it is whole.
    pub(super) fn mark_step(&mut self, to: Register, typed: Typed) {
        if typed == Typed::Value(Kind::Double) {
            self.mark(to, typed, bit(Kind::Integer));
        }
    }

    /// The result of `ifelse()` has the kind of the value that was chosen.
    pub(super) fn mark_chosen(&mut self, to: Register, typed: Typed, args: &[Number]) {
        let kinds = met(args.iter().map(|&n| self.kinds(n)));
        self.mark(to, typed, kinds);
    }

    /// Notes the kinds of a result.
    pub(super) fn mark_result(&mut self, n: Number, known: Kinds) -> Kinds {
        let all = known | self.kinds(n);
        self.varying.result |= vary(all);
        self.varying.missing |= all & MISSING != 0 && all & !(MISSING | LOGICAL | MET) != 0;
        all
    }
}
