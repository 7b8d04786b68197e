//! Type rules: the class that computes an operation, and the type of its result.

use crate::dtype::{Class, DType, Kind};
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::{Op, OpId, Rule};

/// An operand's type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Typed {
    /// An array on a device: its own dtype counts.
    Array(DType),
    /// A value of R's: only its kind counts, and it adopts the width of arrays.
    Value(Kind),
}

impl Typed {
    #[inline]
    pub fn kind(self) -> Kind {
        match self {
            Typed::Array(dtype) => dtype.kind(),
            Typed::Value(kind) => kind,
        }
    }
}

/// The float type wide enough for both; float16 and bfloat16 meet in float32.
fn wider(a: DType, b: DType) -> DType {
    match (a, b) {
        _ if a == b => a,
        (DType::Float16, DType::BFloat16) | (DType::BFloat16, DType::Float16) => DType::Float32,
        _ => a.max(b),
    }
}

/// The common type of several operands, in the order of R's c(). Values of R's adopt the arrays' float type.
pub fn promote(operands: &[Typed]) -> DType {
    let kind = operands.iter().map(|t| t.kind()).max().unwrap_or(Kind::Logical);
    let floats = || {
        operands.iter().filter_map(|t| match t {
            Typed::Array(d) if d.is_float() => Some(*d),
            Typed::Array(DType::Complex64) => Some(DType::Float32),
            Typed::Array(DType::Complex128) => Some(DType::Float64),
            _ => None,
        })
    };
    match kind {
        Kind::Logical => DType::Bool8,
        Kind::Integer => {
            // one narrow type throughout stays narrow (c() and ifelse()); arithmetic widens it (see resolve)
            let mut ints = operands.iter().filter_map(|t| match t {
                Typed::Array(d) if d.kind() == Kind::Integer => Some(*d),
                _ => None,
            });
            match ints.next() {
                Some(first) if operands.len() == 1 || (operands.iter().all(|t| *t == Typed::Array(first))) => first,
                _ => DType::Int32,
            }
        }
        Kind::Integer64 => DType::Int64,
        Kind::Double => floats().reduce(wider).unwrap_or(DType::Float64),
        Kind::Complex => match floats().reduce(wider) {
            Some(DType::Float64) | None => DType::Complex128,
            Some(_) => DType::Complex64,
        },
    }
}

/// The class that computes, and the dtype of the result.
///
/// # Errors
/// `DType` if R refuses the types, in R's words.
pub fn resolve(id: OpId, operands: &[Typed]) -> Result<(Class, DType)> {
    let op = id.row();
    let meet = |operands: &[Typed]| promote(operands);
    // integers widen to int32, and logical counts as integer
    let widened = |d: DType| if matches!(d.kind(), Kind::Logical | Kind::Integer) { DType::Int32 } else { d };
    let keeps = |d: DType| d.kind() >= Kind::Double || d == DType::Int64 && op.expression(d.class()).is_some();
    let as_float = |d: DType| if keeps(d) { d } else { DType::Float64 };
    let (computing, result) = match op.rule {
        Rule::Arithmetic => {
            let d = widened(meet(operands));
            (d, d)
        }
        Rule::Float | Rule::Real => {
            let d = as_float(meet(operands));
            (d, d)
        }
        Rule::Compare => (widened(meet(operands)), DType::Bool8),
        Rule::Logic => (DType::Bool8, DType::Bool8),
        Rule::Test => (meet(operands), DType::Bool8),
        Rule::Part => {
            let d = as_float(meet(operands));
            (d, part(d))
        }
        Rule::Modulus => {
            let d = widened(meet(operands));
            (d, part(d))
        }
        Rule::Select => {
            let d = meet(&operands[1..]);
            (d, d)
        }
        Rule::To(dtype) => (meet(operands), dtype),
        Rule::Pair => {
            let d = as_float(meet(operands));
            (d, if d == DType::Float64 { DType::Complex128 } else { DType::Complex64 })
        }
        Rule::Source | Rule::Random(_) | Rule::Drawn => {
            return Err(Error::new(ErrorKind::Argument, format!("`{}` is not recorded by its operands", op.name)));
        }
    };
    if op.expression(computing.class()).is_none() {
        return Err(refusal(op, computing.class()));
    }
    Ok((computing.class(), result))
}

/// Whether the row computes with an int64 operand as double, which may round it.
#[inline]
pub fn rounds(id: OpId, class: Class, operands: impl Iterator<Item = Typed>) -> bool {
    let double = |class| matches!(class, Class::F64 | Class::C128);
    let wide = |t| matches!(t, Typed::Array(DType::Int64) | Typed::Value(Kind::Integer64));
    double(class) && operands.enumerate().any(|(k, t)| wide(t) && double(id.row().operand_class(k, class)))
}

/// The type of the parts of a complex type; a real type is its own.
fn part(d: DType) -> DType {
    match d {
        DType::Complex64 => DType::Float32,
        DType::Complex128 => DType::Float64,
        other => other,
    }
}

fn refusal(op: &Op, class: Class) -> Error {
    let complex = matches!(class, Class::C64 | Class::C128);
    let message = match op.rule {
        _ if complex && op.name.starts_with("pm") => "invalid input type".to_string(),
        Rule::Compare if complex => "invalid comparison with complex values".into(),
        Rule::Arithmetic if complex => "unimplemented complex operation".into(),
        _ if complex => "unimplemented complex function".into(),
        _ => format!("`{}` takes no values of this type", if op.r.is_empty() { op.name } else { op.r }),
    };
    Error::new(ErrorKind::DType, message)
}
