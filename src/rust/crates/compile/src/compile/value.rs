//! Values of expressions at compile time: numbers in registers, and vectors whose elements are computed on demand.

use std::rc::Rc;

use crate::syntax::{Expr, Lambda, Path, Span};
use crate::{Operand, Register};
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::rule::{promote, Typed};
use verdigris_ops::scalar::Scalar;
use verdigris_ops::OpId;

/// A number: its operand and its type. Its class is that of the type's dtype.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Number {
    pub at: Operand,
    pub typed: Typed,
}

impl Number {
    pub fn register(at: Register, typed: Typed) -> Number {
        Number { at: Operand::Register(at), typed }
    }

    pub fn dtype(self) -> DType {
        dtype(self.typed)
    }

    pub fn class(self) -> Class {
        self.dtype().class()
    }

    pub fn kind(self) -> Kind {
        self.dtype().kind()
    }

    pub fn logical(x: Option<bool>) -> Number {
        let x = x.map_or(verdigris_ops::scalar::NA_I32, i32::from);
        Number { at: Operand::Constant(Scalar::I32(x)), typed: Typed::Value(Kind::Logical) }
    }

    pub fn integer(x: i32) -> Number {
        Number { at: Operand::Constant(Scalar::I32(x)), typed: Typed::Value(Kind::Integer) }
    }

    pub fn double(x: f64) -> Number {
        Number { at: Operand::Constant(Scalar::F64(x)), typed: Typed::Value(Kind::Double) }
    }

    /// A position or a count, which R does not see.
    pub fn long(x: i64) -> Number {
        Number { at: Operand::Constant(Scalar::I64(x)), typed: Typed::Value(Kind::Integer64) }
    }

    /// The value of a constant.
    pub fn constant(self) -> Option<Scalar> {
        match self.at {
            Operand::Constant(scalar) => Some(scalar),
            Operand::Register(_) => None,
        }
    }

    /// The value of a constant that is a whole number.
    pub fn whole(self) -> Option<i64> {
        match self.constant()? {
            Scalar::I32(x) if x != verdigris_ops::scalar::NA_I32 => Some(x.into()),
            Scalar::I64(x) => Some(x),
            Scalar::F64(x) if x.fract() == 0.0 && x.abs() < 9e15 => Some(x as i64),
            _ => None,
        }
    }
}

/// The dtype that stores a type.
pub fn dtype(typed: Typed) -> DType {
    match typed {
        Typed::Array(dtype) => dtype,
        Typed::Value(kind) => kind.default_dtype(),
    }
}

/// The common type of two values of one variable.
pub fn join(a: Typed, b: Typed) -> Typed {
    match (a, b) {
        _ if a == b => a,
        (Typed::Value(x), Typed::Value(y)) => Typed::Value(x.max(y)),
        _ => Typed::Array(promote(&[a, b])),
    }
}

/// R's word for a type.
pub fn word(typed: Typed) -> &'static str {
    match typed {
        Typed::Array(d) if d.is_float() && d != DType::Float64 => d.name(),
        _ => match dtype(typed).kind() {
            Kind::Logical => "logical",
            Kind::Integer => "integer",
            Kind::Integer64 => "integer64",
            Kind::Double => "double",
            Kind::Complex => "complex",
        },
    }
}

/// A vector, whose elements are computed on demand except for `Local`.
#[derive(Clone, PartialEq, Debug)]
pub enum Vector {
    /// A local array, which assignments change. `dim` is set for a matrix.
    Local { array: u16, typed: Typed, length: u16, dim: Option<(u16, u16)> },
    /// Elements of a table from position `start` on, `step` apart. `dim` holds the extents (I64) of a whole table with
    /// dimensions.
    Table { table: u16, typed: Typed, start: Operand, step: Operand, length: Operand, dim: Vec<Operand> },
    /// One number, repeated.
    Same { value: Number, length: Operand, dim: Option<(u16, u16)> },
    /// `from`, `from + step` ...: exact. Integers or doubles.
    Range { from: Number, step: Number, length: Operand },
    /// A row of the operation table, element by element. Single numbers are recycled.
    Map { op: OpId, args: Vec<Value>, typed: Typed, length: Operand, dim: Option<(u16, u16)> },
    /// Elements of `of` at the subscripts (from 1) in `at`. If `strict`, a subscript beyond the end fails.
    Pick { of: Rc<Vector>, at: Rc<Vector>, strict: bool },
    /// Elements of `of` where `keep`, logicals of the same length, are not FALSE; `length` is their number.
    Where { of: Rc<Vector>, keep: Rc<Vector>, length: Operand },
    /// For each position from 1: whether no number of `of`, truncated, is its negative.
    Except { of: Rc<Vector>, length: Operand },
}

/// Elements of a list or of a vector with names.
pub type Parts = Vec<(Option<String>, Value)>;

/// What elements with names form.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Container {
    /// R's list. Its elements may be anything.
    List,
    /// A vector with names: numbers of one type.
    Named,
}

#[derive(Clone, Debug)]
pub enum Value {
    Null,
    Number(Number),
    Vector(Rc<Vector>),
    Parts(Container, Parts),
    Text(String),
    Closure(Rc<Lambda>, Option<usize>),
    /// A list outside of the function, of which only elements can be read.
    Captured(Path),
    /// An unevaluated argument, and the frame whose variables it sees.
    Promise(Rc<Expr>, usize),
    /// No value on some branches: the reason, and where.
    Unset(String, Span),
}

impl Vector {
    /// Whether computing its elements reads a register.
    fn holds(&self, register: Register) -> bool {
        let is = |at: &Operand| *at == Operand::Register(register);
        match self {
            Vector::Local { .. } => false,
            Vector::Table { start, step, length, dim, .. } => [start, step, length].into_iter().chain(dim).any(is),
            Vector::Same { value, length, .. } => is(&value.at) || is(length),
            Vector::Range { from, step, length } => is(&from.at) || is(&step.at) || is(length),
            Vector::Map { args, length, .. } => args.iter().any(|arg| arg.holds(register)) || is(length),
            Vector::Pick { of, at, .. } => of.holds(register) || at.holds(register),
            Vector::Where { of, keep, length } => of.holds(register) || keep.holds(register) || is(length),
            Vector::Except { of, length } => of.holds(register) || is(length),
        }
    }
}

impl Value {
    /// The type of a number; None of anything else.
    pub(super) fn number_typed(&self) -> Option<Typed> {
        if let Value::Number(n) = self {
            Some(n.typed)
        } else {
            None
        }
    }

    /// Whether it, or part of it, reads a register.
    pub fn holds(&self, register: Register) -> bool {
        match self {
            Value::Number(n) => n.at == Operand::Register(register),
            Value::Vector(v) => v.holds(register),
            Value::Parts(_, parts) => parts.iter().any(|(_, part)| part.holds(register)),
            _ => false,
        }
    }

    /// Whether it, or part of it, reads a local array.
    pub fn reads(&self, array: u16) -> bool {
        match self {
            Value::Vector(v) => v.reads(array),
            Value::Parts(_, parts) => parts.iter().any(|(_, part)| part.reads(array)),
            _ => false,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Number(a), Value::Number(b)) => a == b,
            (Value::Vector(a), Value::Vector(b)) => Rc::ptr_eq(a, b) || a == b,
            (Value::Parts(x, a), Value::Parts(y, b)) => x == y && a == b,
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::Closure(a, x), Value::Closure(b, y)) => a.id == b.id && x == y,
            (Value::Captured(a), Value::Captured(b)) => a == b,
            (Value::Promise(a, x), Value::Promise(b, y)) => a.span == b.span && x == y,
            (Value::Unset(..), Value::Unset(..)) => true,
            _ => false,
        }
    }
}

/// The type of a vector with names.
pub(super) fn typed_of(parts: &Parts) -> Option<Typed> {
    parts.first().and_then(|(_, value)| value.number_typed())
}

/// The names of a list or vector.
pub(super) fn shown_names(parts: &Parts) -> String {
    parts.iter().filter_map(|(name, _)| name.as_deref()).collect::<Vec<_>>().join(", ")
}

/// The remedy for `Value::Unset`.
pub fn remedy(why: &str) -> &'static str {
    match why.contains("in different branches") {
        true => "Let every branch give values of one form: a number, or as many numbers with the same names.",
        false => "Give the `if` an `else`.",
    }
}

impl Value {
    pub fn vector(v: Vector) -> Value {
        Value::Vector(Rc::new(v))
    }

    /// A description for messages.
    pub fn what(&self) -> String {
        match self {
            Value::Null => "NULL".into(),
            Value::Number(n) => format!("a number ({})", word(n.typed)),
            Value::Vector(_) => "a vector".into(),
            Value::Parts(Container::Named, parts) => format!("a vector with names ({})", shown_names(parts)),
            Value::Parts(Container::List, parts) => match parts.iter().all(|(name, _)| name.is_none()) {
                true => format!("a list of {}", parts.len()),
                false => format!("a list of {}", shown_names(parts)),
            },
            Value::Captured(_) => "a list".into(),
            Value::Promise(..) => "an argument".into(),
            Value::Text(_) => "a string".into(),
            Value::Closure(..) => "a function".into(),
            Value::Unset(..) => "nothing".into(),
        }
    }
}

impl Vector {
    pub fn typed(&self) -> Typed {
        match self {
            Vector::Local { typed, .. } | Vector::Table { typed, .. } | Vector::Map { typed, .. } => *typed,
            Vector::Range { from: n, .. } | Vector::Same { value: n, .. } => n.typed,
            Vector::Pick { of, .. } | Vector::Where { of, .. } => of.typed(),
            Vector::Except { .. } => Typed::Value(Kind::Logical),
        }
    }

    /// The number of elements (I64).
    pub fn length(&self) -> Operand {
        match self {
            Vector::Local { length, .. } => Operand::Constant(Scalar::I64((*length).into())),
            Vector::Table { length, .. }
            | Vector::Same { length, .. }
            | Vector::Range { length, .. }
            | Vector::Where { length, .. }
            | Vector::Except { length, .. }
            | Vector::Map { length, .. } => *length,
            Vector::Pick { at, .. } => at.length(),
        }
    }

    /// The number of elements if it is known at compile time.
    pub fn fixed(&self) -> Option<usize> {
        match self.length() {
            Operand::Constant(Scalar::I64(n)) => Some(n as usize),
            _ => None,
        }
    }

    /// Extents of a matrix of fixed size.
    pub fn dim(&self) -> Option<(u16, u16)> {
        match self {
            Vector::Local { dim, .. } | Vector::Map { dim, .. } | Vector::Same { dim, .. } => *dim,
            _ => None,
        }
    }

    /// The number of vectors in its expression, itself included; counting stops at `most`.
    pub fn parts(&self, most: usize) -> usize {
        let sum = |vectors: &[&Vector]| {
            vectors.iter().fold(1, |sum, v| if sum < most { sum + v.parts(most - sum) } else { most })
        };
        match self {
            Vector::Local { .. } | Vector::Table { .. } | Vector::Range { .. } | Vector::Same { .. } => 1,
            Vector::Map { args, .. } => {
                let vectors: Vec<&Vector> =
                    args.iter().filter_map(|a| if let Value::Vector(v) = a { Some(&**v) } else { None }).collect();
                sum(&vectors)
            }
            Vector::Pick { of, at, .. } => sum(&[of, at]),
            Vector::Where { of, keep, .. } => sum(&[of, keep]),
            Vector::Except { of, .. } => sum(&[of]),
        }
    }

    /// Whether computing its elements reads a local array.
    pub fn reads(&self, wanted: u16) -> bool {
        match self {
            Vector::Local { array, .. } => *array == wanted,
            Vector::Table { .. } | Vector::Range { .. } | Vector::Same { .. } => false,
            Vector::Map { args, .. } => args.iter().any(|arg| arg.reads(wanted)),
            Vector::Pick { of, at, .. } => of.reads(wanted) || at.reads(wanted),
            Vector::Where { of, keep, .. } => of.reads(wanted) || keep.reads(wanted),
            Vector::Except { of, .. } => of.reads(wanted),
        }
    }
}

/// `from`, `from + 1` ....
pub(super) fn range(from: i32, length: Operand) -> Vector {
    Vector::Range { from: Number::integer(from), step: Number::integer(1), length }
}
