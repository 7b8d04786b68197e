//! Comparisons whose common type would round an operand. int64 and floating point promote to a float, which does not
//! distinguish all int64 beyond 2^53, so they are compared exactly instead. An R number with a float16 or bfloat16
//! array would be compared in float32; the number is rounded to the array's dtype first, as it is with float32 arrays.

use crate::array::{Array, Operand};
use crate::memory::buffer::Device;
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::error::Result;
use verdigris_ops::rule::Typed;
use verdigris_ops::scalar::{Scalar, BEYOND_INT64};
use verdigris_ops::{id, OpId, Rule};

/// The half dtype to which an R number is rounded before the comparison; None for other operand types.
fn half(types: &[Typed]) -> Option<DType> {
    match types {
        [Typed::Value(Kind::Double), Typed::Array(dtype)] | [Typed::Array(dtype), Typed::Value(Kind::Double)] => {
            dtype.is_half().then_some(*dtype)
        }
        _ => None,
    }
}

/// Whether this comparison needs the exact path. (An R integer64 with a narrow float array does not: as a number, it
/// adopts the array's type.)
pub fn concerns(op: OpId, types: &[Typed]) -> bool {
    let (Rule::Compare, [a, b]) = (op.row().rule, types) else { return false };
    if half(types).is_some() {
        return true;
    }
    let narrow = |t: &Typed| matches!(t, Typed::Array(dtype) if dtype.class() == Class::F32);
    match (a.kind(), b.kind()) {
        (Kind::Integer64, Kind::Double) => matches!(a, Typed::Array(_)) || !narrow(b),
        (Kind::Double, Kind::Integer64) => matches!(b, Typed::Array(_)) || !narrow(a),
        _ => false,
    }
}

/// Whether the exact comparison records more than one node and a cast.
pub fn is_composed(op: OpId, types: &[Typed]) -> bool {
    concerns(op, types) && (half(types).is_some() || !types.contains(&Typed::Value(Kind::Double)))
}

/// Records the exact comparison; None where the common type is already exact.
///
/// # Errors
/// `Memory`.
pub fn compare(op: OpId, operands: &[Operand], n: usize, device: Device) -> Result<Option<Array>> {
    if let Some(dtype) = half(&[operands[0].typed(), operands[1].typed()]) {
        let rounded = |operand: &Operand| {
            Ok(Operand::Array(match operand {
                Operand::Array(array) => array.clone(),
                Operand::Vector(array, _) => array.cast(dtype, None)?,
                Operand::Value(value, _) => Array::full(*value, dtype, 1, device)?,
            }))
        };
        return Array::apply(op, &[rounded(&operands[0])?, rounded(&operands[1])?], None).map(Some);
    }
    let whole = usize::from(operands[1].typed().kind() == Kind::Integer64);
    let (wide, other) = (&operands[whole], &operands[1 - whole]);
    let ordered = |wide: Operand, other: Operand| {
        let both = if whole == 0 { [wide, other] } else { [other, wide] };
        Array::apply(op, &both, None)
    };
    let as_array = |operand: &Operand, dtype| match operand {
        Operand::Array(array) | Operand::Vector(array, _) => array.cast(dtype, None),
        Operand::Value(value, _) => Array::full(*value, dtype, n.min(1), device),
    };
    let nearest = |x: Array| Array::apply(id::NEAREST, &[Operand::Array(x)], None);
    // A double scalar is either an int64 value, beyond the range of int64, or between two integers.
    if let Operand::Value(value, _) = other {
        let Scalar::F64(x) = value.to(Class::F64) else { return Ok(None) };
        return if x.abs() < BEYOND_INT64 && x.fract() == 0.0 {
            ordered(wide.clone(), Operand::Value(Scalar::I64(x as i64), Kind::Integer64)).map(Some)
        } else if x.abs() >= BEYOND_INT64 && x.is_finite() {
            ordered(wide.clone(), Operand::Value(Scalar::F64(x * f64::INFINITY), Kind::Double)).map(Some)
        } else {
            // x is not an integer, so it does not matter to which neighbouring double an int64 is rounded.
            ordered(Operand::Array(nearest(as_array(wide, DType::Int64)?)?), other.clone()).map(Some)
        };
    }
    // Let r be the int64 rounded to double. If r differs from x, comparing r with x gives the right answer. If r equals
    // x, then x is an integer, and the operands are compared as int64.
    let number = |x: f64| Operand::Value(Scalar::F64(x), Kind::Double);
    let wide = as_array(wide, DType::Int64)?;
    let rounded = nearest(wide.clone())?;
    let x = Operand::Array(as_array(other, DType::Float64)?);
    let within = Array::apply(
        id::LT,
        &[Operand::Array(Array::apply(id::ABS, std::slice::from_ref(&x), None)?), number(BEYOND_INT64)],
        None,
    )?;
    let choose = |yes: Operand, no: Operand| Array::apply(id::SELECT, &[Operand::Array(within.clone()), yes, no], None);
    let far = Operand::Array(Array::apply(id::MUL, &[x.clone(), number(f64::INFINITY)], None)?);
    let near = choose(x.clone(), number(0.0))?.cast(DType::Int64, None)?;
    let x = Operand::Array(choose(x, far)?);
    let same = Array::apply(id::EQ, &[Operand::Array(rounded.clone()), x.clone()], None)?;
    let exactly = ordered(Operand::Array(wide), Operand::Array(near))?;
    let roughly = ordered(Operand::Array(rounded), x)?;
    Array::apply(id::SELECT, &[Operand::Array(same), Operand::Array(exactly), Operand::Array(roughly)], None).map(Some)
}
